"""The code snippets work as they are."""

import html
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from flask import Flask

from obs.services import services
from obs.tenancy import service
from tests.conftest import ACME, Clock, KeyClient
from tests.dashboard.conftest import Visitor

pytestmark = pytest.mark.curl


@pytest.fixture
def texts(app: Flask, address: str, client: KeyClient, reader: Visitor) -> dict[str, str]:
    """The snippets by title as the page has them, with the URL of a running server and a valid key."""
    page = reader.get("/settings").text
    found = re.findall(r'<pre [^>]*aria-label="([^"]+)"><code>(.*?)</code></pre>', page, re.S)
    ping_key = service.create_key(services(app).tenancy, ACME, "pings", ["ping"]).key
    site = dict(found)["Ingest URL"].removesuffix("/in/acme")
    own = {"YOUR_PING_KEY": ping_key, "YOUR_KEY": str(client.key), site: address}
    return {
        title: re.sub("|".join(own), lambda placeholder: own[placeholder[0]], html.unescape(text))
        for title, text in found
    }


def runs(client: KeyClient) -> list[tuple[str, int | None]]:
    """Result and exit code of the runs of my-job."""
    return [(run["status"], run["exit_code"]) for run in client.get("/api/v1/jobs/my-job/runs").json["runs"]]


def test_the_curl_command_is_one_run(texts: dict[str, str], client: KeyClient) -> None:
    subprocess.run(["sh", "-c", texts["curl"]], check=True, capture_output=True)
    assert runs(client) == [("success", None)]


@pytest.mark.parametrize(("command", "outcome"), [("true", ("success", 0)), ("exit 3", ("failed", 3))])
def test_the_crontab_line_reports_the_exit_code(
    texts: dict[str, str], client: KeyClient, command: str, outcome: tuple[str, int]
) -> None:
    line = texts["Crontab line"].removeprefix("0 2 * * * ").replace("/usr/local/bin/my-job", f"(sh -c '{command}')")
    line = line.replace("\\%", "%")  # as cron passes it to the shell
    subprocess.run(["sh", "-c", line], check=True, capture_output=True)
    assert runs(client) == [outcome]


@pytest.mark.parametrize(("command", "code"), [("echo copied", 0), ("echo copied; echo error >&2; exit 5", 5)])
def test_the_shell_script_reports_output_and_exit_code_and_passes_them_on(
    texts: dict[str, str], client: KeyClient, tmp_path: Path, command: str, code: int
) -> None:
    (tmp_path / "my-job").write_text(f"#!/bin/sh\n{command}\n")
    (tmp_path / "my-job").chmod(0o700)
    text = texts["Shell script"].replace("/usr/local/bin", ".")
    done = subprocess.run(["sh", "-c", text], cwd=tmp_path, check=False, capture_output=True, text=True)
    expected = "copied\nerror\n" if code else "copied\n"
    assert (done.returncode, done.stdout) == (code, expected)
    assert runs(client) == [("failed" if code else "success", code)]
    run = client.get("/api/v1/runs/1").json
    assert [event["message"] for event in run["timeline"]] == [None, expected, None]
    assert run["host"] is not None


def test_the_shell_script_is_for_download_with_its_version(client: KeyClient) -> None:
    first = client.get("/client/obs.sh")
    assert first.text.startswith("#!/bin/sh\n")
    again = client.get("/client/obs.sh", headers={"If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.data) == (304, b"")


@pytest.mark.parametrize(("result", "outcome"), [("success", "success"), ("exit-code", "failed")])
def test_the_systemd_lines_report_the_result(
    texts: dict[str, str], client: KeyClient, result: str, outcome: str
) -> None:
    environment = {"SERVICE_RESULT": result, "INVOCATION_ID": "6ab1c0de"}
    for line in texts["systemd unit"].splitlines()[2:]:
        command = line.partition("=-")[2].replace("$$", "$")  # as systemd passes it to the shell
        subprocess.run(["sh", "-c", command], check=True, capture_output=True, env=environment)
    assert runs(client) == [(outcome, None)]


def test_the_client_reports_output_and_exit_code_and_passes_them_on(
    texts: dict[str, str], client: KeyClient, clock: Clock, tmp_path: Path
) -> None:
    clock.now_ms = time.time_ns() // 1_000_000  # the client has the time of the machine
    (tmp_path / "my-job").write_text("#!/bin/sh\necho copied; exit 5\n")
    (tmp_path / "my-job").chmod(0o700)
    text = texts["Client"].replace("/usr/local/bin", ".")
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    done = subprocess.run(
        ["sh", "-c", text], cwd=tmp_path, check=False, capture_output=True, text=True, env=environment
    )
    assert (done.returncode, done.stdout) == (5, "copied\n")
    assert runs(client) == [("failed", 5)]
    assert [event["message"] for event in client.get("/api/v1/runs/1").json["timeline"]] == [None, "copied\n", None]


@pytest.mark.parametrize(("body", "outcome"), [("pass", "success"), ("raise SystemExit(1)", "failed")])
def test_the_python_lines_report_the_outcome(texts: dict[str, str], client: KeyClient, body: str, outcome: str) -> None:
    program = f"def main():\n    {body}\n{texts['Python']}"
    subprocess.run([sys.executable, "-c", program], check=False, capture_output=True)
    assert runs(client) == [(outcome, None)]


CUT = """#!/bin/sh
# The real curl sends the request, but its answer is lost: the caller sends it again, as `--retry` does.
"{curl}" "$@" >/dev/null
exec "{curl}" "$@"
"""


@pytest.mark.parametrize("title", ["curl", "systemd unit"])
def test_a_repeated_request_counts_once(texts: dict[str, str], client: KeyClient, tmp_path: Path, title: str) -> None:
    repeating = tmp_path / "curl"
    repeating.write_text(CUT.replace("{curl}", str(shutil.which("curl"))))
    repeating.chmod(0o700)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SERVICE_RESULT": "success", "INVOCATION_ID": "6ab1c0de"}
    text = texts[title].replace("\\%", "%").replace("/usr/local/bin/my-job", "true").removeprefix("0 2 * * * ")
    commands = [text]
    if title == "systemd unit":
        commands = [line.partition("=-")[2].replace("$$", "$") for line in text.splitlines()[2:]]
    for command in commands:
        subprocess.run(["sh", "-c", command, "sh", "true"], check=True, capture_output=True, env=environment)
    assert [result for result, _ in runs(client)] == ["success"]
    timeline = client.get("/api/v1/runs/1").json["timeline"]
    assert len(timeline) == (1 if title == "curl" else 2)
    assert "--retry 5 --retry-connrefused" in text
