"""Heartbeats past their retention are deleted in batches; jobs stay."""

import sqlite3
from collections.abc import Callable
from typing import Any

from flask import Flask

from obs.services import services
from obs.storage.databases import in_batches
from obs.tenancy import auth
from tests.conftest import ACME, Clock, KeyClient
from tests.heartbeat.conftest import Sender

Rows = Callable[..., list[dict[str, Any]]]
RunOf = Callable[..., dict[str, Any]]


def _purge(app: Flask) -> None:
    services(app).background.tasks["purge"].run()


def _counts(rows: Rows) -> tuple[int, int, int]:
    jobs, runs, events = (rows(f"SELECT count(*) AS n FROM {table}")[0]["n"] for table in ("jobs", "runs", "events"))
    return jobs, runs, events


def test_what_is_older_than_the_retention_goes_and_the_job_stays(
    app: Flask, by_path: Sender, client: KeyClient, clock: Clock, rows: Rows
) -> None:
    by_path("start")
    by_path("end")
    by_path("log", message="loose")
    clock.advance(days=1)
    kept = by_path("ping").json["run_id"]
    clock.advance(days=89)
    _purge(app)
    assert _counts(rows) == (1, 2, 4)
    clock.advance(ms=1)
    _purge(app)
    assert _counts(rows) == (1, 1, 1)
    assert client.get(f"/api/v1/runs/{kept}").status_code == 200
    assert client.get("/api/v1/jobs/backup").json["run_count"] == 2


def test_the_retention_is_a_setting(
    make_app: Callable[..., Flask], new_client: Callable[..., KeyClient], clock: Clock
) -> None:
    app = make_app(RUN_RETENTION_DAYS=2)
    client = new_client("acme", app=app)
    number = client.post("/api/v1/heartbeat/backup/ping").json["run_id"]
    clock.advance(days=2)
    _purge(app)
    assert client.get(f"/api/v1/runs/{number}").status_code == 200
    clock.advance(ms=1)
    _purge(app)
    assert client.get(f"/api/v1/runs/{number}").status_code == 404


def test_a_run_still_open_keeps_its_timeline(
    make_app: Callable[..., Flask], new_client: Callable[..., KeyClient], clock: Clock
) -> None:
    """Or its end would not know that it had begun."""
    app = make_app(RUN_RETENTION_DAYS=1)
    client = new_client("acme", app=app)
    started = client.post("/api/v1/heartbeat/backup/start?run_id=a").json
    clock.advance(days=3)
    _purge(app)
    assert client.post("/api/v1/heartbeat/backup/start?run_id=a").json == started
    ended = client.post("/api/v1/heartbeat/backup/end?run_id=a").json
    assert ended is not None
    run = client.get(f"/api/v1/runs/{ended['run_id']}").json
    assert run is not None
    assert run["duration_ms"] == 3 * 86_400_000
    assert [event["kind"] for event in run["timeline"]] == ["start", "end"]


def test_a_run_is_kept_from_its_end_on(app: Flask, by_path: Sender, clock: Clock, rows: Rows) -> None:
    by_path("start")
    clock.advance(days=5)
    by_path("end")
    clock.advance(days=86)
    _purge(app)
    assert len(rows("SELECT id FROM runs")) == 1


def test_more_than_a_batch_is_deleted_and_writes_go_in_between(app: Flask, client: KeyClient, rows: Rows) -> None:
    tenancy: auth.Tenancy = services(app).tenancy

    def fill(db: sqlite3.Connection) -> None:
        db.execute(
            "INSERT INTO jobs (name, created_at, last_heartbeat_at, last_event_id, run_count) VALUES ('x', 0, 0, 0, 0)"
        )
        db.executemany(
            "INSERT INTO events (job_id, kind, received_at, time) VALUES (1, 1, ?, 0)", ((n,) for n in range(20_000))
        )

    tenancy.databases.write(ACME, fill)
    limits = []

    def delete(db: sqlite3.Connection, limit: int) -> int:
        limits.append(limit)
        return db.execute("DELETE FROM events WHERE id IN (SELECT id FROM events LIMIT ?)", (limit,)).rowcount

    assert in_batches(tenancy.databases, ACME, delete) == 20_000
    assert rows("SELECT id FROM events") == []
    assert limits[0] == 10
    assert len(limits) > 2
    assert max(limits) <= 5_000


def test_purging_one_organization_spares_the_others(
    app: Flask, client: KeyClient, other_client: KeyClient, clock: Clock, caplog: Any
) -> None:
    tenancy: auth.Tenancy = services(app).tenancy
    number = other_client.post("/api/v1/heartbeat/backup/ping").json["run_id"]
    tenancy.databases.forget(ACME)
    tenancy.databases.path(ACME).write_bytes(b"not a database at all" * 100)
    clock.advance(days=91)
    _purge(app)
    assert other_client.get(f"/api/v1/runs/{number}").status_code == 404
    assert "acme" in caplog.text


def test_the_name_of_a_host_goes_with_its_last_heartbeat(
    app: Flask, client: KeyClient, clock: Clock, rows: Rows
) -> None:
    def ping(host: str) -> None:
        assert client.post("/api/v1/heartbeat/backup/ping", headers={"X-Platform-Host": host}).status_code == 200

    def hosts() -> set[str | None]:
        services(app).background.tasks["index of messages"].run()
        _purge(app)
        return {row["host"] for row in rows("SELECT host FROM attributions WHERE host IS NOT NULL")}

    ping("old")
    clock.advance(days=1)
    ping("new")
    clock.advance(days=89)
    assert hosts() == {"old", "new"}
    clock.advance(ms=1)
    assert hosts() == {"new"}
    clock.advance(days=100)
    assert hosts() == {"new"}, "the job still has it"
    ping("old")
    assert hosts() == {"old"}


def test_a_host_that_comes_back_after_the_retention_keeps_its_name(
    app: Flask, client: KeyClient, clock: Clock, rows: Rows
) -> None:
    """Its new heartbeat is not indexed yet, and the job has another host since."""
    for host in ("old", "new"):
        client.post("/api/v1/heartbeat/backup/ping", headers={"X-Platform-Host": host})
    services(app).background.tasks["index of messages"].run()
    clock.advance(days=91)
    for host in ("old", "new"):
        client.post("/api/v1/heartbeat/backup/ping", headers={"X-Platform-Host": host})
    _purge(app)
    assert client.get("/api/v1/jobs/backup/runs?limit=2").json["runs"][1]["host"] == "old"
