"""The client as the service offers it, and beside the commands of the service."""

import os
import subprocess
import sys

import pytest

from obs.cli import main
from tests.client.conftest import Machine
from tests.conftest import KeyClient


@pytest.mark.parametrize("name", ["obs", "obs.sh"])
def test_a_file_needs_no_key_and_is_sent_only_when_it_has_changed(client: KeyClient, name: str) -> None:
    client.key = None
    first = client.get(f"/client/{name}")
    assert first.data.startswith(b"#!/")
    again = client.get(f"/client/{name}", headers={"If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.data) == (304, b"")
    assert client.get("/client/other").status_code == 404


def test_the_obs_of_the_service_offers_the_commands_of_the_client(
    machine: Machine, client: KeyClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in machine.environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as ended:
        main(["ping", "photos"])
    assert ended.value.code == 0
    assert client.get("/api/v1/jobs/photos").json["run_count"] == 1


def test_the_client_needs_only_the_standard_library(machine: Machine) -> None:
    command = [sys.executable, "-I", "-S", str(machine.home / "obs"), "ping", "photos"]
    assert subprocess.run(command, env=machine.environment, capture_output=True).returncode == 0


@pytest.mark.curl
@pytest.mark.parametrize(
    ("changes", "is_reported"),
    [({}, True), ({"TMPDIR": "/dev/null"}, True), ({"OBS_URL": None}, False), ({"OBS_API_KEY": None}, False)],
)
def test_a_command_of_the_shell_script_runs_in_any_case(
    machine: Machine, client: KeyClient, changes: dict[str, str | None], is_reported: bool
) -> None:
    (machine.home / "obs.sh").write_bytes(client.get("/client/obs.sh").data)
    changed = {**machine.variables, "OBS_URL": f"{machine.url}/", **changes}
    environment = {name: value for name, value in changed.items() if value is not None}
    command = ["sh", str(machine.home / "obs.sh"), "photos", "--", "sh", "-c", "cat; echo err >&2; exit 9"]
    done = subprocess.run(command, env=environment, input=b"text\n", capture_output=True)
    assert (done.returncode, done.stdout) == (9, b"text\nerr\n")
    runs = client.get("/api/v1/jobs/photos/runs").json.get("runs", [])
    assert [(run["status"], run["exit_code"]) for run in runs] == [("failed", 9)] * is_reported


@pytest.mark.curl
def test_a_name_that_the_shell_script_cannot_send_is_one_message(machine: Machine, client: KeyClient) -> None:
    (machine.home / "obs.sh").write_bytes(client.get("/client/obs.sh").data)
    command = ["sh", str(machine.home / "obs.sh"), "my photos", "sh", "-c", "echo copied; exit 9"]
    done = subprocess.run(command, env={**machine.variables, "OBS_URL": machine.url}, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (9, "copied\n", 1)
    assert done.stderr.startswith("obs.sh: nothing is reported: the name of the job")
    assert client.get("/api/v1/jobs").json["jobs"] == []


@pytest.mark.curl
def test_two_containers_that_run_the_shell_script_at_once_report_two_runs(machine: Machine, client: KeyClient) -> None:
    for name, text in (("obs.sh", client.get("/client/obs.sh").data), ("date", b"#!/bin/sh\necho 1800000000\n")):
        (machine.home / name).write_bytes(text)
    (machine.home / "date").chmod(0o755)
    environment = {**machine.variables, "PATH": f"{machine.home}:{os.environ['PATH']}"}
    for code in (0, 1):  # $$ is the number of the process
        script = (machine.home / "obs.sh").read_text().replace("$$", "7")
        command = ["sh", "-c", script, "obs.sh", "photos", "sh", "-c", f"exit {code}"]
        assert subprocess.run(command, env=environment).returncode == code
    runs = client.get("/api/v1/jobs/photos/runs").json["runs"]
    assert [run["status"] for run in runs] == ["failed", "success"]


@pytest.mark.curl
def test_a_command_of_the_shell_script_runs_without_standard_output(machine: Machine, client: KeyClient) -> None:
    (machine.home / "obs.sh").write_bytes(client.get("/client/obs.sh").data)
    script = f"sh {machine.home}/obs.sh photos touch {machine.home}/touched >&-"
    assert subprocess.run(["sh", "-c", script], env=machine.variables).returncode == 0
    assert (machine.home / "touched").exists()
    (run,) = client.get("/api/v1/jobs/photos/runs").json["runs"]
    assert run["status"] == "success"


def test_the_shell_script_waits_once_for_a_server_that_cannot_be_reached(machine: Machine, client: KeyClient) -> None:
    (machine.home / "obs.sh").write_bytes(client.get("/client/obs.sh").data)
    (machine.home / "curl").write_text(f'#!/bin/sh\necho "$@" >> {machine.home}/calls\nexit 7\n')
    (machine.home / "curl").chmod(0o755)
    environment = {**machine.variables, "PATH": f"{machine.home}:{os.environ['PATH']}"}
    command = ["sh", str(machine.home / "obs.sh"), "photos", "sh", "-c", "echo text; exit 3"]
    assert subprocess.run(command, env=environment, capture_output=True).returncode == 3
    calls = (machine.home / "calls").read_text().splitlines()
    assert [("--retry" in call, call.split("/")[-1].split("?")[0]) for call in calls] == [
        (True, "start"),
        (False, "log"),
        (False, "end"),
    ]
