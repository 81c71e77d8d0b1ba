"""The published clients of other monitors, as they are, against the protocols that obs understands."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import KeyClient
from tests.dashboard.conftest import address

__all__ = ["address"]
pytestmark = pytest.mark.clients


@pytest.fixture
def uuid(client: KeyClient) -> str:
    """The UUID of the job ``backup``."""
    client.post("/api/v1/heartbeat/backup/log", data="created")
    url: str = client.get("/api/v1/jobs/backup").json["ping_url"]
    return url.rpartition("/")[2]


@pytest.fixture
def runs(client: KeyClient) -> Callable[[str], list[dict[str, Any]]]:
    """The runs of a job with their timelines, oldest first."""

    def read(job: str) -> list[dict[str, Any]]:
        found = client.get(f"/api/v1/jobs/{job}/runs").json["runs"]
        return [client.get(f"/api/v1/runs/{run['id']}").json for run in reversed(found)]

    return read


Runs = Callable[[str], list[dict[str, Any]]]


def log(run: dict[str, Any]) -> str:
    return "".join(event["message"] or "" for event in run["timeline"])


def run_python(program: str, *arguments: str) -> str:
    """Run `program` where the clients are installed; returns what it prints."""
    python = Path(os.environ["OBS_TEST_CLIENTS"]) / "bin" / "python"
    done = subprocess.run([python, "-c", program, *arguments], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize(
    "command",
    [
        "curl -fsS -m 10 --retry 5 {url}",
        "curl -fsS -m 10 --data-raw 'copied 3 files' {url}/0",
        "wget -q --spider {url}",
        "wget -q -O /dev/null --post-data 'copied 3 files' {url}",
    ],
)
def test_curl_and_wget(address: str, uuid: str, runs: Runs, command: str) -> None:
    subprocess.run(
        ["sh", "-c", command.format(url=f"{address}/ping/{uuid}")], check=True, capture_output=True, timeout=60
    )
    (run,) = runs("backup")
    assert run["status"] == "success"
    assert log(run) == ("copied 3 files" if "copied" in command else "")


HEALTHCHECKS = """
import sys
from healthchecks_io import Client

address, ping_key, uuid = sys.argv[1:]
with Client(ping_key=ping_key, ping_url=f"{address}/ping/") as pings:
    print(
        pings.start_ping(uuid=uuid),
        pings.fail_ping(uuid=uuid, data="disk is full"),
        pings.success_ping(slug="photos"),
        pings.exit_code_ping(exit_code=3, slug="photos", data="copied"),
    )
"""


def test_healthchecks_io(address: str, uuid: str, ping_key: str, runs: Runs) -> None:
    done = run_python(HEALTHCHECKS, address, ping_key, uuid)
    assert done == "(True, 'OK') (True, 'OK') (False, 'Created') (True, 'OK')\n"  # this client knows only 200
    assert [(run["status"], log(run)) for run in runs("backup")] == [("failed", "disk is full")]
    assert [(run["status"], run["exit_code"]) for run in runs("photos")] == [("success", None), ("failed", 3)]


CHECKS = """
import sys
from healthchecks_io import Client

address, key, unique_key = sys.argv[1:]
with Client(api_key=key, api_url=f"{address}/api/", api_version=3) as checks:
    print([(check.name, check.status, check.tags) for check in checks.get_checks()])
    print([check.uuid for check in checks.get_checks(tags=["nas"])], checks.get_checks(tags=["other"]))
    print(checks.get_check(unique_key).last_ping)
"""


def test_healthchecks_io_lists_jobs(address: str, client: KeyClient, new_client: Callable[..., KeyClient]) -> None:
    client.post("/api/v1/heartbeat/backup/end?status=fail", headers={"X-Platform-Host": "nas"})
    client.post("/api/v1/heartbeat/photos/ping")
    ping_url = client.get("/api/v1/jobs/backup").json["ping_url"]
    unique_key = client.get("/api/v3/checks/?tag=nas").json["checks"][0]["unique_key"]
    assert run_python(CHECKS, address, str(client.key), unique_key).splitlines() == [
        "[('backup', 'down', 'nas'), ('photos', 'new', '')]",
        f"['{ping_url.rpartition('/')[2]}'] []",
        "2026-06-21 10:00:00+00:00",
    ]


SENTRY = """
import sys
import sentry_sdk
from sentry_sdk.crons import MonitorStatus, capture_checkin, monitor

sentry_sdk.init(dsn=sys.argv[1], traces_sample_rate=1.0)

@monitor(monitor_slug="decorated", monitor_config={"schedule": {"type": "crontab", "value": "0 3 * * *"}})
def decorated():
    pass

decorated()
try:
    with monitor(monitor_slug="managed"):
        raise ValueError("an error that is reported too")
except ValueError as error:
    sentry_sdk.capture_exception(error)
capture_checkin(monitor_slug="once", status=MonitorStatus.OK, duration=61.5)
sentry_sdk.flush()
"""


def test_sentry_sdk(address: str, ping_key: str, client: KeyClient, runs: Runs) -> None:
    dsn = f"{address}/in/acme/1".replace("://", f"://{ping_key}@")
    run_python(SENTRY, dsn)
    found = {job: [run["status"] for run in runs(job)] for job in ("decorated", "managed", "once")}
    assert found == {"decorated": ["success"], "managed": ["failed"], "once": ["success"]}
    assert runs("once")[0]["duration_ms"] == 61_500
    assert client.get("/api/v1/jobs/decorated").json["pin"]["cron"] == "0 3 * * *"


@pytest.mark.parametrize("hook", ["healthchecks", "uptime_kuma", "sentry"])
def test_borgmatic(address: str, uuid: str, ping_key: str, runs: Runs, tmp_path: Path, hook: str) -> None:
    dsn = f"{address}/1".replace("://", f"://{ping_key}@")
    hooks = {
        "healthchecks": {"ping_url": f"{address}/ping/{uuid}", "send_logs": True},
        "uptime_kuma": {"push_url": f"{address}/api/push/{uuid}"},
        "sentry": {"data_source_name_url": dsn, "monitor_slug": "backup"},
    }
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "one.jpg").write_text("a photo")
    repository = tmp_path / "backup.borg"
    environment = {
        **os.environ,
        "HOME": str(tmp_path),
        "BORG_BASE_DIR": str(tmp_path / "borg"),
        "BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK": "yes",
    }
    subprocess.run(["borg", "init", "-e", "none", repository], check=True, env=environment, capture_output=True)

    def back_up(target: Path) -> int:
        config = tmp_path / "config.yaml"
        config.write_text(
            json.dumps(
                {
                    "source_directories": [str(tmp_path / "photos")],
                    "repositories": [{"path": str(target)}],
                    "unknown_unencrypted_repo_access_is_ok": True,
                    hook: hooks[hook],
                }
            )
        )
        borgmatic = Path(os.environ["OBS_TEST_CLIENTS"]) / "bin" / "borgmatic"
        done = subprocess.run(
            [borgmatic, "-c", config, "create", "--verbosity", "1"], env=environment, capture_output=True, text=True
        )
        return done.returncode

    assert back_up(repository) == 0
    assert back_up(tmp_path / "missing.borg") != 0
    succeeded, *_, failed = runs("backup")
    assert (succeeded["status"], failed["status"]) == ("success", "failed")
    if hook == "healthchecks":
        assert succeeded["duration_ms"] is not None
        assert "missing.borg" in log(failed)
