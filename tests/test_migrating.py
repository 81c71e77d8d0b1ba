"""The script in docs/migrating.md, against a server that answers as Healthchecks does."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from tests.conftest import KeyClient, serving
from tests.dashboard.conftest import address

__all__ = ["address"]
PAGE = Path(__file__).parent.parent / "docs" / "migrating.md"
UUID = "31365bce-8da9-4729-8ff3-aaa71d56b71{}"


def check(number: int, name: str, tags: str = "", **schedule: Any) -> dict[str, Any]:
    """A check as the documentation of the API of Healthchecks shows it."""
    status = schedule.pop("status", "up")
    url = f"https://hc-ping.com/{UUID.format(number)}"
    return {"name": name, "tags": tags, "grace": 600, "n_pings": 1, "status": status, "ping_url": url, **schedule}


CHECKS = [
    check(1, "Filesystem Backup", "backup fs", timeout=3600),
    check(2, "db/nightly", schedule="15 5 * * *", tz="Europe/Berlin", status="paused"),
    check(3, "", timeout=60),
    check(4, "db/nightly", timeout=86400),
    check(5, "by systemd", schedule="Mon..Fri 12:00", tz="UTC"),
]


@pytest.fixture
def healthchecks() -> Iterator[str]:
    """The address of a server with some checks, for the key ``hcw_secret``."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known = (self.path, self.headers["X-Api-Key"]) == ("/api/v3/checks/", "hcw_secret")
            self.send_response(200 if known else 401)
            self.end_headers()
            self.wfile.write(json.dumps({"checks": CHECKS} if known else {"error": "wrong api key"}).encode())

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with serving(HTTPServer(("127.0.0.1", 0), Handler)) as url:
        yield url


def test_the_script_registers_the_checks_of_healthchecks(
    app: Flask, address: str, healthchecks: str, new_client: Callable[..., KeyClient]
) -> None:
    admin = new_client("acme", "admin")
    (script,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    settings = {"HC_URL": healthchecks, "HC_KEY": "hcw_secret", "OBS_URL": address, "OBS_KEY": str(admin.key)}

    def run() -> list[str]:
        done = subprocess.run(
            [sys.executable, "-c", script], env={**os.environ, **settings}, capture_output=True, text=True, timeout=60
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.splitlines()

    printed = run()
    unnamed, second = UUID.format(3), "db/nightly 31365bce"
    assert printed[:4] == ["Filesystem Backup", "db/nightly", unnamed, second]
    assert printed[4].startswith("by systemd: pin.cron: ")
    jobs = {job["name"]: job for job in admin.get("/api/v1/jobs").json["jobs"]}
    assert jobs.keys() == set(printed[:4])
    assert jobs["Filesystem Backup"]["pin"] == {"interval_seconds": 3600, "grace_seconds": 600}
    assert (jobs["Filesystem Backup"]["project"], jobs["Filesystem Backup"]["status"]) == ("backup", "new")
    assert jobs["db/nightly"]["pin"] == {"cron": "15 5 * * *", "timezone": "Europe/Berlin", "grace_seconds": 600}
    assert jobs["db/nightly"]["paused"]
    assert run() == printed
    assert {job["name"]: job for job in admin.get("/api/v1/jobs").json["jobs"]} == jobs
    assert app.test_client().get(f"/ping/{UUID.format(4)}/fail").text == "OK"
    assert admin.get(f"/api/v1/jobs/{second}").json["last_outcome"] == "failed"
