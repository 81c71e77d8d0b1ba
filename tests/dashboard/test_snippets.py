"""What is offered to be pasted works as it stands."""

import subprocess
import sys
from pathlib import Path

import pytest

from obs.dashboard import snippets
from tests.conftest import KeyClient

pytestmark = pytest.mark.curl


@pytest.fixture
def texts(address: str, client: KeyClient) -> dict[str, str]:
    """The snippets by title, with an address that answers and a key that is valid."""
    return {one.title: one.text for one in snippets.of(f"{address}/in/acme", str(client.key))}


def runs(client: KeyClient) -> list[tuple[str, int | None]]:
    """Outcome and exit code of the runs of my-job."""
    return [(run["status"], run["exit_code"]) for run in client.get("/api/v1/jobs/my-job/runs").json["runs"]]


def test_the_curl_line_is_one_run(texts: dict[str, str], client: KeyClient) -> None:
    subprocess.run(["sh", "-c", texts["curl"]], check=True, capture_output=True)
    assert runs(client) == [("success", None)]


@pytest.mark.parametrize(("command", "outcome"), [("true", ("success", 0)), ("exit 3", ("failed", 3))])
def test_the_crontab_line_reports_the_exit_code(
    texts: dict[str, str], client: KeyClient, command: str, outcome: tuple[str, int]
) -> None:
    line = texts["Crontab line"].removeprefix("0 2 * * * ").replace("/usr/local/bin/my-job", f"(sh -c '{command}')")
    subprocess.run(["sh", "-c", line], check=True, capture_output=True)
    assert runs(client) == [outcome]


@pytest.mark.parametrize(("result", "outcome"), [("success", "success"), ("exit-code", "failed")])
def test_the_systemd_lines_report_the_result(
    texts: dict[str, str], client: KeyClient, result: str, outcome: str
) -> None:
    for line in texts["systemd unit"].splitlines()[2:]:
        command = line.partition("=-")[2].replace("$$", "$")  # as systemd hands it to the shell
        subprocess.run(["sh", "-c", command], check=True, capture_output=True, env={"SERVICE_RESULT": result})
    assert runs(client) == [(outcome, None)]


def test_the_wrapper_reports_output_and_exit_code_and_hands_them_on(
    texts: dict[str, str], client: KeyClient, tmp_path: Path
) -> None:
    path = tmp_path / "reported"
    path.write_text(texts["Shell wrapper"])
    done = subprocess.run(["sh", path, "sh", "-c", "echo copied; exit 5"], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (5, "copied\n")
    assert runs(client) == [("failed", 5)]
    assert [event["message"] for event in client.get("/api/v1/runs/1").json["timeline"]] == [None, "copied\n", None]


@pytest.mark.parametrize(("body", "outcome"), [("pass", "success"), ("raise SystemExit(1)", "failed")])
def test_the_python_lines_report_the_outcome(texts: dict[str, str], client: KeyClient, body: str, outcome: str) -> None:
    program = f"def main():\n    {body}\n{texts['Python']}"
    subprocess.run([sys.executable, "-c", program], check=False, capture_output=True)
    assert runs(client) == [(outcome, None)]
