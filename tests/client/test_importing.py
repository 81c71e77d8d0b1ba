"""``obs import healthchecks``, against a server that answers as Healthchecks does."""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from click.testing import CliRunner
from flask import Flask

from obs.cli import main
from obs.services import services
from tests.client.conftest import REFUSING, Machine
from tests.conftest import Clock, KeyClient, serving

UUID = "{:08}-8da9-4729-8ff3-aaa71d56b712"
KEY = "hcw_secret"


class Healthchecks:
    """A project with checks, their pings by UUID, and the versions of the API that the server has."""

    def __init__(self) -> None:
        self.checks: list[dict[str, Any]] = []
        self.pings: dict[str, list[dict[str, Any]]] = {}
        self.versions = ["v1", "v2", "v3"]
        self.url = ""

    def add(self, name: str, tags: str = "", status: str = "up", **schedule: Any) -> str:
        """Add a check as the documentation of the API shows it; returns its UUID."""
        uuid = UUID.format(len(self.checks) + 1)
        urls = {"ping_url": f"https://hc-ping.com/{uuid}", "update_url": f"{self.url}/api/v3/checks/{uuid}"}
        about = {"name": name, "tags": tags, "desc": "", "grace": 600, "n_pings": 1, "status": status}
        self.checks.append({**about, **urls, **(schedule or {"timeout": 3600})})
        self.pings[uuid] = []
        return uuid

    def ping(self, uuid: str, hours_ago: float, kind: str = "success", **more: Any) -> None:
        date = (datetime.now(UTC) - timedelta(hours=hours_ago)).isoformat()
        number = len(self.pings[uuid]) + 1
        self.pings[uuid].insert(0, {"type": kind, "date": date, "n": number, "scheme": "http", **more})

    def answer(self, path: str, key: str | None) -> tuple[int, Any]:
        found = re.fullmatch(r"/api/(v\d)/checks/(?:([^/]+)/pings/)?", path)
        if found is None or found[1] not in self.versions:
            return 404, {}
        if key != KEY:
            return 401, {"error": "wrong api key"}
        if found[2]:
            return (200, {"pings": self.pings[found[2]]}) if found[2] in self.pings else (404, {"error": "not found"})
        return 200, {"checks": self.checks}


@pytest.fixture
def healthchecks() -> Iterator[Healthchecks]:
    project = Healthchecks()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, answer = project.answer(self.path, self.headers["X-Api-Key"])
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with serving(HTTPServer(("127.0.0.1", 0), Handler)) as project.url:
        yield project


@pytest.fixture
def client(new_client: Callable[..., KeyClient]) -> KeyClient:
    return new_client("acme", "admin")


@pytest.fixture
def imported(machine: Machine, healthchecks: Healthchecks) -> Callable[..., dict[str, str]]:
    """Imports the project; returns the last column of the table by the name of the job."""

    def run(*arguments: str, code: int = 0, key: str = KEY) -> dict[str, str]:
        done = machine.obs("import", "healthchecks", "--url", f"{healthchecks.url}/", "--api-key", key, *arguments)
        assert (done.returncode, done.stderr.count(b"Add --write")) == (code, "--write" not in arguments), done
        head, *lines = done.stdout.decode().splitlines()
        return {re.split(" {2,}", line)[0]: line[head.index("RESULT") :] for line in lines}

    return run


def jobs(client: KeyClient) -> dict[str, Any]:
    return {job["name"]: job for job in client.get("/api/v1/jobs").json["jobs"]}


def sweep(app: Flask) -> None:
    services(app).background.tasks["sweep"].run()


@pytest.fixture
def project(healthchecks: Healthchecks) -> Healthchecks:
    healthchecks.add("Filesystem Backup", "backup fs", timeout=3600)
    healthchecks.add("db/nightly", status="paused", schedule="15 5 * * *", tz="Europe/Berlin")
    healthchecks.add("", timeout=60)
    healthchecks.add("twice", "a", timeout=86400)
    healthchecks.add("twice", "b", status="down", timeout=86400)
    healthchecks.add("by systemd", schedule="Mon..Fri 12:00", tz="UTC")
    healthchecks.add("no such hour", schedule="0 25 * * *", tz="UTC")
    healthchecks.add("taken")
    return healthchecks


def test_nothing_is_changed_without_write(
    project: Healthchecks, imported: Callable[..., dict[str, str]], client: KeyClient
) -> None:
    client.post("/api/v1/heartbeat/taken/ping")
    before = jobs(client)
    shown = imported(code=1)
    assert shown.pop("by systemd") == "error: the schedule is not a cron expression. With --learn, it is not needed."
    assert shown.pop("taken") == "error: there is another job with this name"
    assert shown == {
        "Filesystem Backup": "would be created",
        "db/nightly": "would be created, paused",
        UUID.format(3): "would be created",
        "twice 00000004": "would be created",
        "twice 00000005": "would be created",
        "no such hour": "would be created",
    }
    assert jobs(client) == before


@pytest.mark.parametrize("option", [(), ("--write",)])
@pytest.mark.parametrize("name", ["two\nlines", "zero\u200dwidth"])
def test_a_name_with_invisible_characters_is_an_error(
    healthchecks: Healthchecks,
    imported: Callable[..., dict[str, str]],
    client: KeyClient,
    name: str,
    option: tuple[str, ...],
) -> None:
    healthchecks.add(name)
    assert set(imported(*option, code=1).values()) == {"error: the name has invisible characters. Rename the check."}
    assert jobs(client) == {}


def test_checks_become_jobs_once(
    app: Flask, project: Healthchecks, imported: Callable[..., dict[str, str]], client: KeyClient
) -> None:
    client.post("/api/v1/heartbeat/taken/ping")
    shown = imported("--write", code=1)
    assert shown["no such hour"].startswith("error: pin.cron: ")
    found = jobs(client)
    assert found.keys() == {
        "Filesystem Backup",
        "db/nightly",
        UUID.format(3),
        "twice 00000004",
        "twice 00000005",
        "taken",
    }
    assert found["Filesystem Backup"]["pin"] == {"interval_seconds": 3600, "grace_seconds": 600}
    assert (found["Filesystem Backup"]["project"], found["Filesystem Backup"]["status"]) == ("backup", "new")
    assert found["db/nightly"]["pin"] == {"cron": "15 5 * * *", "timezone": "Europe/Berlin", "grace_seconds": 600}
    assert found["db/nightly"]["paused"]
    assert app.test_client().get(f"/ping/{UUID.format(5)}/fail").text == "OK"
    client.patch("/api/v1/jobs/Filesystem Backup", json={"name": "files", "pin": None})
    found = jobs(client)
    again = imported("--write", code=1)
    assert again["files"] == again["db/nightly"] == "is a job already"
    assert jobs(client) == found
    assert found["twice 00000005"]["last_outcome"] == "failed"


def test_the_tag_is_what_the_user_says(
    project: Healthchecks, imported: Callable[..., dict[str, str]], client: KeyClient
) -> None:
    project.checks = project.checks[:1]
    imported("--write", "--tags", "service")
    job = jobs(client)["Filesystem Backup"]
    assert (job["project"], job["service"]) == (None, "backup")
    client.delete("/api/v1/jobs/Filesystem Backup")
    imported("--write", "--tags", "none")
    job = jobs(client)["Filesystem Backup"]
    assert (job["project"], job["service"]) == (None, None)


@pytest.mark.parametrize("versions", [["v1"], ["v1", "v2"], ["v3"]])
def test_each_version_of_the_api_is_understood(
    healthchecks: Healthchecks, imported: Callable[..., dict[str, str]], versions: list[str]
) -> None:
    healthchecks.add("files")
    healthchecks.versions = versions
    assert imported("--learn") == {"files": "would be created, with 0 past runs"}


def test_what_is_wrong_with_the_project_is_said(machine: Machine, healthchecks: Healthchecks) -> None:
    def said(url: str, key: str = KEY) -> str:
        done = machine.obs("import", "healthchecks", "--url", url, "--api-key", key)
        assert (done.returncode, done.stdout) == (1, b"")
        return done.stderr.decode()

    assert "responded with 401: wrong api key" in said(healthchecks.url, "wrong")
    assert f"cannot reach {REFUSING}" in said(REFUSING)
    assert "responded with 404: wrong address?" in said(f"{healthchecks.url}/ping")
    assert "is not an address" in said("healthchecks.io")
    healthchecks.add("files")
    del healthchecks.checks[0]["ping_url"]
    healthchecks.checks[0]["unique_key"] = "a6c7b0a8a66bed0df66abfdab3c77736861703ee"
    assert "this API key is read-only" in said(healthchecks.url)
    machine.key = "wrong"
    assert "The API key is not valid" in said(healthchecks.url)


def test_a_uuid_of_another_organization_is_an_error_of_its_check(
    app: Flask,
    healthchecks: Healthchecks,
    imported: Callable[..., dict[str, str]],
    client: KeyClient,
    new_client: Callable[..., KeyClient],
) -> None:
    uuid = healthchecks.add("one")
    healthchecks.add("two")
    new_client("globex", "admin").put("/api/v1/jobs/theirs", json={"ping_uuid": uuid})
    shown = imported("--write", code=1)
    assert shown["one"].startswith("error: ")
    assert (shown["two"], list(jobs(client))) == ("created", ["two"])


def test_the_schedule_is_learned_from_the_past_runs(
    app: Flask,
    healthchecks: Healthchecks,
    imported: Callable[..., dict[str, str]],
    client: KeyClient,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    uuid = healthchecks.add("hourly", schedule="Mon..Sun *:00", tz="UTC")
    for hours in range(100, 0, -1):
        rid = f"00000000-0000-0000-0000-{hours:012}" if hours % 2 else None
        healthchecks.ping(uuid, hours - 0.5, "start", rid=rid)
        healthchecks.ping(uuid, hours - 0.6, "log", rid=rid)
        healthchecks.ping(uuid, hours - 0.75, "fail" if hours == 50 else "success", rid=rid)
    healthchecks.ping(uuid, 0.1, "start")  # runs at the moment
    answer = app.wsgi_app

    def swept(environ: Any, start_response: Any) -> Any:
        sweep(app)  # it sees each past run while it is open
        return answer(environ, start_response)

    monkeypatch.setattr(app, "wsgi_app", swept)
    assert imported("--learn") == {"hourly": "would be created, with 100 past runs"}
    assert imported("--learn", "--write") == {"hourly": "created, with 100 past runs"}
    sweep(app)
    job = client.get("/api/v1/jobs/hourly").json
    assert (job["status"], job["run_count"], job["failed_count"], job["lost_count"]) == ("ok", 100, 1, 0)
    assert (job["pin"], job["paused"]) == (None, False)
    assert job["interval_ms"] == 3_600_000
    clock.advance(minutes=20)
    sweep(app)
    assert client.get("/api/v1/jobs/hourly").json["status"] == "ok"
    run = client.get("/api/v1/jobs/hourly/runs").json["runs"][0]
    assert run["duration_ms"] == pytest.approx(900_000, abs=1000)
    assert client.get("/api/v1/incidents").json["incidents"] == []
    assert imported("--learn", "--write") == {"hourly": "is a job already"}
    assert client.get("/api/v1/jobs/hourly").json["run_count"] == 100


@pytest.mark.parametrize(
    ("status", "pings", "runs"),
    [
        ("up", [(3, "success"), (2, "success"), (0.9, "success")], 3),
        ("grace", [(3, "fail"), (2, "success"), (0.9, "success")], 3),
        ("started", [(3, "success"), (2, "success"), (0.9, "success"), (0.1, "start")], 3),
        ("up", [(30, "success"), (20, "success"), (15, "fail")], 0),
        ("up", [(4, "success"), (3, "success"), (2.5, "ign"), (1.4, "success")], 3),
        ("up", [(9, "success"), (8, "success"), (7, "success")], 0),
        ("up", [(1, "success")], 0),
        ("down", [(3, "success"), (2, "success"), (1, "fail")], 0),
        ("paused", [(3, "success"), (2, "success"), (1, "success")], 0),
        ("new", [], 0),
    ],
)
def test_no_job_is_in_trouble_because_of_its_past(
    app: Flask,
    healthchecks: Healthchecks,
    imported: Callable[..., dict[str, str]],
    client: KeyClient,
    status: str,
    pings: list[tuple[float, str]],
    runs: int,
) -> None:
    uuid = healthchecks.add("job", status=status)
    for hours, kind in pings:
        healthchecks.ping(uuid, hours, kind)
    paused = ", paused" if status == "paused" else ""
    assert imported("--learn", "--write") == {"job": f"created{paused}, with {runs} past runs"}
    sweep(app)
    job = client.get("/api/v1/jobs/job").json
    assert job["run_count"] == runs
    assert job["status"] in (["paused"] if paused else ["ok", "late"] if runs else ["new"])
    assert client.get("/api/v1/incidents").json["incidents"] == []


def test_runs_that_are_older_than_obs_keeps_them_are_left_out(
    healthchecks: Healthchecks, imported: Callable[..., dict[str, str]], client: KeyClient
) -> None:
    uuid = healthchecks.add("yearly")
    for days in (1200, 800, 200, 30):
        healthchecks.ping(uuid, days * 24)
    assert imported("--learn") == {"yearly": "would be created, with 4 past runs"}
    imported("--learn", "--write")
    kept = client.get("/api/v1/jobs/yearly").json
    assert 0 < kept["run_count"] < 4
    assert kept["paused"] is False


def test_the_installed_command_has_it_beside_the_import_of_an_export(
    healthchecks: Healthchecks, machine: Machine, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    healthchecks.add("files")
    monkeypatch.setenv("OBS_URL", machine.url)
    monkeypatch.setenv("OBS_API_KEY", machine.key)
    arguments = ["import", "healthchecks", "--url", healthchecks.url, "--api-key", KEY]
    # In a process of its own: a client that shows a table ends at a SIGPIPE from then on.
    assert subprocess.run([sys.executable, "-m", "obs", *arguments], check=False).returncode == 0
    assert "export" in CliRunner().invoke(main, ["import", "--help"]).output
    assert "import healthchecks" in CliRunner().invoke(main, ["--help"]).output
