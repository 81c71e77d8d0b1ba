"""Rolling up: what changes meanwhile, is too much for one rollup or is deleted is never in a result by mistake."""

import sqlite3
from functools import partial
from typing import Any

import pytest
from flask import Flask

from obs.heartbeat.runs import Kind
from obs.heartbeat.store import rollups as store
from obs.services import services
from obs.times import HOUR_MS
from tests.conftest import ACME, START, Clock
from tests.query.conftest import LENGTHS, SCOPES, Ask, Write, count_rows, explained, nearly, roll_up_all


@pytest.mark.usefixtures("history")
def test_many_messages_leave_the_rollups_of_runs_and_their_own(
    app: Flask, ask: Ask, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "LARGEST_BLOB", 100)  # less than the lengths of the messages of an hour
    messages: list[tuple[int, str | None]] = [
        (START - number * 60_000, "x" * (number % 50)) for number in range(3 * 1440)
    ]
    messages += [(START - HOUR_MS, "a\0b"), (START - HOUR_MS, None)]
    add = f"INSERT INTO events (job_id, kind, received_at, time, message) VALUES (1, {Kind.LOG:d}, ?, 0, ?)"
    write(lambda db: db.executemany(add, messages))
    statements = [
        "SELECT count(*), avg(duration_ms) FROM runs BY job EVERY 1h LAST 60h",
        f"SELECT {LENGTHS}, stddev(length(message)) FROM events BY job LAST 60h",
        f"SELECT {LENGTHS}, min(length(message)) FROM logs EVERY 1d LAST 60h",
    ]
    from_rows = [nearly(ask(statement)["rows"], statement) for statement in statements]
    roll_up_all(app)
    assert all(explained(ask, statement) for statement in statements)
    assert [nearly(ask(statement)["rows"], statement) for statement in statements] == from_rows


@pytest.mark.usefixtures("history")
def test_a_day_with_too_many_runs_is_tried_once(
    app: Flask, ask: Ask, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    statement = "SELECT avg(duration_ms) FROM runs BY job LAST 60h"
    databases = services(app).tenancy.databases
    with monkeypatch.context() as patched:
        patched.setattr(store, "LARGEST_BLOB", 100)  # less than the durations of a day
        roll_up_all(app)
        assert not any(" x 1d" in text for text in explained(ask, statement))
        written = databases.last_write(ACME)
        roll_up_all(app)
        assert databases.last_write(ACME) == written
    write(lambda db: db.execute("UPDATE runs SET duration_ms = 1"))
    roll_up_all(app)
    assert any(" x 1d" in text for text in explained(ask, statement))


@pytest.mark.usefixtures("history")
def test_a_late_change_is_read_from_the_rows_until_the_hour_is_rolled_up_again(
    app: Flask, ask: Ask, client: Any, clock: Clock
) -> None:
    statement = "SELECT count(*), max(duration_ms) FROM runs WHERE job = 'mail' EVERY 1h LAST 4h"
    roll_up_all(app)
    before = ask(statement)["rows"]
    client.post("/api/v1/heartbeat/mail/end?time=2026-06-21T07:20:00Z&duration_ms=99000")
    (left,) = [text for text in explained(ask, statement) if text.startswith("the rows")]
    assert "2026-06-21T07:00:00.000Z/2026-06-21T08:00:00.000Z" in left
    after = ask(statement)["rows"]
    assert after[1] == [before[1][0], before[1][1] + 1, 99_000]
    assert after[:1] + after[2:] == before[:1] + before[2:]
    roll_up_all(app)
    (left,) = [text for text in explained(ask, statement) if text.startswith("the rows")]
    assert "T07" not in left
    assert ask(statement)["rows"] == after


@pytest.mark.usefixtures("history")
def test_a_change_between_reading_and_writing_leaves_the_hour_to_the_rows(
    app: Flask, client: Any, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    statement = "SELECT count(*) FROM runs EVERY 1h LAST 3h"
    before = ask(statement)["rows"]
    read = store.read

    def reads(db: sqlite3.Connection, unit: store.Unit, number: int) -> Any:
        found = read(db, unit, number)
        if (unit, number) == ("hour", START // HOUR_MS - 2):
            client.post("/api/v1/heartbeat/mail/end?time=2026-06-21T08:20:00Z&duration_ms=1000")
        return found

    monkeypatch.setattr(store, "read", reads)
    roll_up_all(app)
    assert [row[1] for row in ask(statement)["rows"]] == [before[0][1], before[1][1] + 1, before[2][1]]
    assert any("T08:00:00.000Z/" in text for text in explained(ask, statement))


@pytest.mark.usefixtures("history")
def test_two_concurrent_roll_ups_do_not_corrupt_each_other(app: Flask, client: Any, ask: Ask, write: Write) -> None:
    """The first reads, a run changes, the second reads; then the first writes, and after it the second."""
    hour = START // HOUR_MS - 2
    write(lambda db: store.note_attempt(db, "hour", hour, 1))
    stale = write(lambda db: store.read(db, "hour", hour))
    client.post("/api/v1/heartbeat/mail/end?time=2026-06-21T08:20:00Z&duration_ms=1000")
    write(lambda db: store.note_attempt(db, "hour", hour, 2))
    fresh = write(lambda db: store.read(db, "hour", hour))
    assert not write(lambda db: store.keep(db, "hour", hour, stale, 1))
    assert write(lambda db: store.keep(db, "hour", hour, fresh, 2))
    statement = "SELECT count(*) FROM runs BETWEEN '2026-06-21T08:00:00Z' AND '2026-06-21T09:00:00Z'"
    assert explained(ask, statement)
    assert ask(statement)["rows"] == [[13]]


@pytest.mark.slow
@pytest.mark.usefixtures("history")
def test_deleted_runs_leave_the_rollups(app: Flask, new_client: Any, ask: Ask, write: Write, clock: Clock) -> None:
    roll_up_all(app)
    assert new_client("acme", *SCOPES).delete("/api/v1/jobs/mail").status_code == 204
    statement = "SELECT count(*) FROM runs BY job LAST 60h"
    assert ask(statement)["rows"] == [["backup", 360]]
    roll_up_all(app)
    assert explained(ask, statement)
    assert ask(statement)["rows"] == [["backup", 360]]
    clock.advance(days=200)
    services(app).background.tasks["purge"].run()
    roll_up_all(app)
    tables = ("rolled_up_hours", "rolled_up_days", "rolled_up_weeks", "series", "series_by_hour", "series_by_day")
    for table in (*tables, "series_by_five_minutes", "series_by_week"):
        assert write(partial(count_rows, table=table)) == 0, table
