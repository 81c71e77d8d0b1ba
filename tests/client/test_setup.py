"""``obs login`` and ``obs systemd``."""

import os
import pty
import re
import shutil
import stat
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.client.conftest import REFUSING, RESPONSES, Machine
from tests.conftest import KeyClient

Runs = Callable[[str], list[dict[str, Any]]]


def login(machine: Machine, url: str, key: str) -> subprocess.CompletedProcess[bytes]:
    environment = {name: value for name, value in machine.environment.items() if not name.startswith("OBS_")}
    return subprocess.run(
        [*machine.program, "login", url], env=environment, input=f"{key}\n".encode(), capture_output=True
    )


def test_login_tests_the_key_and_stores_it_for_this_user_only(machine: Machine, client: KeyClient) -> None:
    done = login(machine, f"{machine.url}/", machine.key)
    stored = machine.home / ".config" / "obs.toml"
    assert done.returncode == 0, done.stderr
    assert b"organization acme" in done.stderr
    assert b"heartbeat:write" in done.stderr
    assert stat.S_IMODE(stored.stat().st_mode) == 0o600
    assert [path.name for path in stored.parent.iterdir()] == ["obs.toml"]
    machine.url = machine.key = ""
    assert machine.obs("ping", "photos").returncode == 0
    assert client.get("/api/v1/jobs/photos").json["run_count"] == 1


def test_the_key_is_not_shown_on_a_terminal(machine: Machine) -> None:
    controller, terminal = pty.openpty()
    process = machine.start("login", machine.url, stdin=terminal, stderr=terminal, start_new_session=True)
    assert os.read(controller, 100) == b"API key: "
    os.write(controller, f"{machine.key}\n".encode())
    assert process.wait(timeout=30) == 0
    shown = os.read(controller, 10_000)
    assert b"organization acme" in shown
    assert machine.key.encode() not in shown
    os.close(controller)
    os.close(terminal)


def test_login_says_what_is_wrong_and_keeps_what_is_stored(
    machine: Machine, bad_server: Callable[[bytes | None], str]
) -> None:
    login(machine, machine.url, machine.key)
    stored = (machine.home / ".config" / "obs.toml").read_bytes()
    for url, key, expected in (
        (machine.url, "obs_acme_wrong", "not valid"),
        (machine.url, "", "X-API-Key"),
        (REFUSING, machine.key, "cannot reach"),
        ("obs.example.com", machine.key, "is not an address"),
        (f"{machine.url}/sign-in", machine.key, ""),
        (bad_server(RESPONSES["another service"]), machine.key, "responded with 200: wrong address?"),
        (bad_server(RESPONSES["another JSON"]), machine.key, "responded with 200: wrong address?"),
        (bad_server(RESPONSES["garbage"]), machine.key, "cannot reach"),
    ):
        done = login(machine, url, key)
        assert done.returncode == 1
        assert expected in done.stderr.decode()
        assert b"Traceback" not in done.stderr
        assert (machine.home / ".config" / "obs.toml").read_bytes() == stored


# systemd


def drop_in(machine: Machine, unit: str) -> str:
    done = machine.obs("systemd", unit)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode()


def in_unit(machine: Machine, line: str, unit: str, **environment: str) -> None:
    """Run a line of the drop-in as systemd does it."""
    command = re.sub(r"^\w+=-\+", "", line).replace("%N", unit).replace("%%", "%").replace("$$", "$").split()
    command[1] = f"HOME={machine.home}"
    machine.start(env={**machine.environment, **environment}, args=command).communicate(timeout=60)


@pytest.mark.parametrize(
    ("result", "code", "status", "exit_code"),
    [
        ("success", "0", "success", 0),
        ("exit-code", "3", "failed", 3),
        ("signal", "KILL", "failed", None),
        ("timeout", "TERM", "failed", None),
        ("success", "TERM", "success", None),
        ("resources", None, "failed", None),
    ],
)
def test_a_unit_is_reported_with_its_start_and_its_result(
    machine: Machine, runs: Runs, result: str, code: str | None, status: str, exit_code: int | None
) -> None:
    before, after = [line for line in drop_in(machine, "backup").splitlines() if line.startswith("Exec")]
    run = {"INVOCATION_ID": "0123456789abcdef" * 2}
    in_unit(machine, before, "backup", **run)
    assert [run["status"] for run in runs("backup")] == ["open"]
    ended = {"SERVICE_RESULT": result, **({"EXIT_STATUS": code} if code else {})}
    in_unit(machine, after, "backup", **run, **ended)
    (found,) = runs("backup")
    assert (found["status"], found["exit_code"], found["run_id"]) == (status, exit_code, run["INVOCATION_ID"])
    assert (status == "failed") == (result in (found["timeline"][-1]["message"] or ""))


def test_an_end_that_arrives_before_its_start_is_the_same_run(machine: Machine, runs: Runs) -> None:
    before, after = [line for line in drop_in(machine, "backup").splitlines() if line.startswith("Exec")]
    run, url = {"INVOCATION_ID": "0123456789abcdef" * 2}, machine.url
    machine.url = REFUSING
    in_unit(machine, before, "backup", **run)
    machine.url = url
    in_unit(machine, after, "backup", **run, SERVICE_RESULT="exit-code", EXIT_STATUS="1")
    assert [(run["status"], run["exit_code"]) for run in runs("backup")] == [("failed", 1)]
    assert machine.waiting() == []


def test_a_unit_waits_only_briefly_for_a_server_that_hangs(
    machine: Machine, bad_server: Callable[[bytes | None], str]
) -> None:
    machine.url = bad_server(None)
    line = drop_in(machine, "backup").splitlines()[3]
    begun = time.monotonic()
    in_unit(machine, line, "backup", INVOCATION_ID="0123456789abcdef" * 2)
    assert time.monotonic() - begun < 8  # a request may take 5, and the end of a run waits for 10
    assert [event[0] for event in machine.waiting()] == ["start"]


@pytest.mark.deploy
@pytest.mark.parametrize("unit", ["backup", "backup.service", "backup.timer", "backup@photos.service"])
def test_systemd_accepts_the_drop_in(machine: Machine, tmp_path: Path, unit: str) -> None:
    text = drop_in(machine, unit)
    name = f"{unit.removesuffix('.service').removesuffix('.timer')}.service"
    path = re.search(r"/etc/systemd/system/([^\s,]+)", text)
    assert path is not None
    assert path[1] == f"{name}.d/obs.conf"
    folder = tmp_path / "units"
    (folder / f"{name}.d").mkdir(parents=True)
    (folder / name).write_text(f"[Service]\nType=oneshot\nExecStart={shutil.which('true')}\n")
    (folder / path[1]).write_text(text)
    done = subprocess.run(["systemd-analyze", "verify", str(folder / name)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
