"""A file that is damaged, missing, newer, read-only or locked is its own organization's trouble; the others go on."""

import json
import sqlite3
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from tests.crash.faults import Faults
from tests.crash.served import file_of, new_service

pytestmark = pytest.mark.compiler

PING = "/api/v1/heartbeat/backup/ping"
TROUBLES = ("garbage", "cut", "newer", "missing", "folder", "readonly")


class Troubled:
    """A running service; each organization but ``crash`` is named for what is wrong with its file."""

    def __init__(self, folder: Path) -> None:
        (folder / "disk").mkdir()
        self.service = new_service(folder / "disk")
        self.keys = self.service.add_organizations((*TROUBLES, "locked"))
        self._paths = {org: file_of(self.service.instance, org) for org in ("crash", *self.keys)}
        self.good = self.path("crash").read_bytes()
        for org in TROUBLES:
            self._spoil(org)
        self.service.environment = {
            **Faults(folder / "disk").environment,
            "FAULTS_READ_ONLY": str(self.path("readonly")),
            "OBS_BUSY_SECONDS": "1",
        }
        self.service.start()

    def path(self, org: str) -> Path:
        return self._paths[org]

    def ping(self, org: str) -> tuple[int, dict[str, str], bytes]:
        return self.service.ask("POST", PING, self.keys[org])

    def _spoil(self, org: str) -> None:
        path = self.path(org)
        match org:
            case "garbage":
                path.write_bytes(b"not a database at all" * 1_000)
            case "cut":
                path.write_bytes(self.good[: len(self.good) // 2])
            case "newer":
                with closing(sqlite3.connect(path)) as db, db:
                    db.execute(
                        "INSERT INTO _sqlite_migrations (migration_set, name, applied_at)"
                        " SELECT migration_set, 'from_the_future', applied_at FROM _sqlite_migrations LIMIT 1"
                    )
            case "missing":
                path.unlink()
            case "folder":
                path.unlink()
                path.mkdir()


@pytest.fixture(scope="module")
def troubled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Troubled]:
    troubled = Troubled(tmp_path_factory.mktemp("troubled"))
    yield troubled
    troubled.service.kill()


def test_the_service_starts_and_serves_the_others(troubled: Troubled) -> None:
    service = troubled.service
    assert service.ask("POST", PING)[0] == 200
    assert service.get("/api/v1/jobs/backup")[0] == 200


@pytest.mark.parametrize("org", TROUBLES)
def test_the_organization_is_told(troubled: Troubled, org: str) -> None:
    status, headers, body = troubled.ping(org)
    assert (status, json.loads(body)["error"]) == (503, "storage_unavailable")
    assert int(headers["retry-after"]) > 0
    if org == "newer":
        assert "newer version" in json.loads(body)["message"]
    assert troubled.service.ask("POST", PING)[0] == 200


@pytest.mark.parametrize("org", TROUBLES)
def test_the_log_says_which_once(troubled: Troubled, org: str) -> None:
    for _ in range(5):
        troubled.ping(org)
    said = [line for line in troubled.service.logged().splitlines() if f"/{org}." in line or f" {org} " in line]
    assert said, troubled.service.logged()
    assert len(said) <= 4, said
    assert "Traceback" not in troubled.service.logged()


def test_readyz_and_metrics_count_them(troubled: Troubled) -> None:
    for org in TROUBLES:
        troubled.ping(org)
    status, body = troubled.service.get("/readyz")
    assert (status, json.loads(body)) == (200, {"status": "ready", "unusable_organizations": len(TROUBLES)})
    metrics = troubled.service.get("/metrics")[1].decode()
    assert f"obs_unusable_files {len(TROUBLES)}.0" in metrics


@pytest.mark.slow
@pytest.mark.parametrize("org", [org for org in TROUBLES if org != "readonly"])
def test_the_dashboard_shows_a_page(troubled: Troubled, org: str) -> None:
    """A person signed in to an organization in trouble sees what it is, and no trace."""
    service = troubled.service
    cookie = service.sign_in(org)
    for path in ("/", "/job?name=backup", "/annotations", "/projects", "/incidents", "/query", "/settings"):
        status, headers, body = service.ask("GET", path, headers={"Cookie": cookie})
        page = body.decode()
        assert headers["content-type"] == "text/html; charset=utf-8"
        assert status in ((200, 503) if path in ("/query", "/settings") else (503,)), (path, page)
        assert "cannot be used" in page or "is missing" in page or "newer version" in page or status == 200


def test_a_locked_file_is_told_and_does_not_hold_up_the_others(troubled: Troubled) -> None:
    """Clients of the locked organization hammer it meanwhile with more requests than the service has threads."""
    with closing(sqlite3.connect(troubled.path("locked"), isolation_level=None)) as holder:
        assert troubled.ping("locked")[0] == 200
        holder.execute("BEGIN IMMEDIATE")
        stop = threading.Event()

        def hammer(_: int) -> set[tuple[int, str, bool]]:
            seen = set()
            while not stop.is_set():
                status, headers, body = troubled.ping("locked")
                seen.add((status, json.loads(body).get("error", ""), "retry-after" in headers))
            return seen

        with ThreadPoolExecutor(80) as pool:
            hammering = [pool.submit(hammer, number) for number in range(80)]
            begun = time.monotonic()
            assert [troubled.service.ask("POST", PING)[0] for _ in range(30)] == [200] * 30
            seconds = time.monotonic() - begun
            stop.set()
            told = set().union(*(one.result() for one in hammering))
        assert told == {(503, "storage_busy", True)}
        assert seconds < 30  # each alone waited the whole busy time with the others, before
        assert troubled.service.get("/api/v1/jobs", troubled.keys["locked"])[0] == 200, "reading needs no lock"
        holder.execute("ROLLBACK")
    assert troubled.ping("locked")[0] == 200


def test_a_file_locked_against_reading_too(troubled: Troubled) -> None:
    """As a program in SQLite's exclusive locking mode does it; the service must wait for it to open the file."""
    path = troubled.path("locked")
    troubled.service.stop()
    with closing(sqlite3.connect(path, isolation_level=None)) as holder:
        holder.execute("PRAGMA locking_mode = EXCLUSIVE")
        holder.execute("BEGIN EXCLUSIVE")
        holder.execute("CREATE TABLE elsewhere (x)")
        holder.execute("COMMIT")
        troubled.service.start()
        with ThreadPoolExecutor(80) as pool:
            asked = [pool.submit(troubled.ping, "locked") for _ in range(160)]
            assert troubled.service.ask("POST", PING)[0] == 200
            answers = [one.result() for one in asked]
        assert {(status, json.loads(body)["error"]) for status, _, body in answers} == {(503, "storage_busy")}
        assert troubled.service.get("/api/v1/jobs", troubled.keys["locked"])[0] == 503
    assert troubled.ping("locked")[0] == 200


def test_a_file_that_is_put_back_is_used_again(troubled: Troubled) -> None:
    for org in ("missing", "garbage"):
        assert troubled.ping(org)[0] == 503
        troubled.path(org).write_bytes(troubled.good)
        assert troubled.ping(org)[0] == 200
    deadline = time.monotonic() + 60
    while f"obs_unusable_files {len(TROUBLES) - 2}.0" not in troubled.service.get("/metrics")[1].decode():
        assert time.monotonic() < deadline, troubled.service.logged()
