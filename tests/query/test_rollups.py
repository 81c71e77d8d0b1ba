"""Rollups give the same results as the rows of runs, whatever changes the rows meanwhile."""

import itertools
import math
import re
import sqlite3
import statistics
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from flask import Flask
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from obs.heartbeat.runs import Kind
from obs.heartbeat.service import roll_up
from obs.heartbeat.store import rollups as store
from obs.services import services
from obs.tenancy import auth
from obs.times import DAY_MS, HOUR_MS, format_ms
from tests.conftest import ACME, START, Clock

Ask = Callable[..., dict[str, Any]]
Write = Callable[[Callable[[sqlite3.Connection], Any]], Any]

ALL = "count(*), count(duration_ms), sum(duration_ms), avg(duration_ms), min(duration_ms), max(duration_ms)"
LATE = "count(late_ms), sum(late_ms), avg(late_ms), min(late_ms), max(late_ms), p90(late_ms)"
LENGTHS = "count(*), count(length(message)), sum(length(message)), avg(length(message)), max(length(message))"
# No rollup has the id of a run: with {only} = "id > 0" the rows are read, with "TRUE" rollups can be.
STATEMENTS = [
    f"SELECT {ALL}, any(duration_ms) FROM runs WHERE {{only}}",
    f"SELECT {ALL} FROM runs WHERE {{only}} EVERY 1h",
    f"SELECT {ALL}, p95(duration_ms) FROM runs WHERE {{only}} EVERY 15m FILL NONE",
    f"SELECT {ALL} FROM runs WHERE {{only}} BY status EVERY 5m FILL NONE TIMEZONE 'Asia/Kolkata'",
    f"SELECT {ALL} FROM runs WHERE {{only}} AND status != 'success' EVERY 1d FILL 0",
    f"SELECT {ALL} FROM runs WHERE {{only}} AND job = 'b' EVERY 6h",
    f"SELECT {ALL} FROM runs WHERE {{only}} AND job LIKE '%' BY job",
    f"SELECT {ALL} FROM runs WHERE {{only}} BY job, status ORDER BY count DESC LIMIT 5",
    "SELECT count(*), max(duration_ms) FROM runs WHERE {only} BY job EVERY 1d",
    "SELECT p95(duration_ms), median(duration_ms), approx_p50(duration_ms), approx_p99(duration_ms), count(*)"
    " FROM runs WHERE {only} EVERY 2h",
    "SELECT p95(duration_ms), percentile(duration_ms, 99.9) FILTER (WHERE status = 'failed') FROM runs"
    " WHERE {only} BY status",
    "SELECT p50(duration_ms) FROM runs WHERE {only} BY job",
    "SELECT 100.0 * count(*) FILTER (WHERE status IN ('failed', 'lost')) / count(*) AS bad,"
    " sum(duration_ms) FILTER (WHERE job != 'a') FROM runs WHERE {only} EVERY 3h",
    "SELECT count(*), avg(duration_ms) FROM runs WHERE {only} BY hour(time)",
    "SELECT count(*) FROM runs WHERE {only} AND weekday(time) < 6 BY weekday(time), status",
    "SELECT date(time) AS day, job, count(*) FROM runs WHERE {only} BY day, job",
    "SELECT count(*), sum(duration_ms) FROM runs WHERE {only} EVERY 1d TIMEZONE 'Europe/Berlin'",
    "SELECT count(*) FROM runs WHERE {only} BY job EVERY 1d TIMEZONE 'Asia/Kolkata'",
    "SELECT count(*), max(duration_ms) FROM runs WHERE {only} EVERY 1mo TIMEZONE 'Asia/Kolkata'",
    "SELECT count(*), p95(duration_ms) FROM runs WHERE {only} BY status EVERY 1mo TIMEZONE 'Europe/Berlin'",
    "SELECT count(*), max(duration_ms) FROM runs WHERE {only} BY job EVERY 1w",
    "SELECT histogram(duration_ms, 1m) AS bin, count(*), max(gap_ms) FROM runs WHERE {only} BY bin",
    "SELECT histogram(duration_ms, 1m) AS bin, count(*), count(DISTINCT job), max(host) FROM runs WHERE {only} BY bin",
    "SELECT histogram(late_ms, 7s) AS bin, job, count(*) FILTER (WHERE status = 'failed') AS failed FROM runs"
    " WHERE {only} BY bin, job HAVING count(*) > 0 ORDER BY failed DESC",
    "SELECT histogram(duration_ms, 10m) AS bin, count(*) FROM runs WHERE {only} BY bin, host EVERY 1d TOP 2",
    "SELECT histogram(duration_ms, 1m) AS bin, count(*), avg(duration_ms) FROM runs WHERE {only} BY bin",
    "SELECT histogram(duration_ms, 1s) AS bin, count(*), max(histogram(duration_ms, 2s)) FROM runs WHERE {only} BY bin",
    "SELECT count(*), max(gap_ms) FILTER (WHERE job = 'a'), max(histogram(duration_ms, 7)) FROM runs WHERE {only}",
    "SELECT count(*) FROM runs WHERE {only} AND gap_ms > 1h BY extract(job, '[ab]'), json(host, '$.a')",
    "SELECT sum(duration_ms) AS s, count(*) FROM runs WHERE {only} BY job EVERY 1d TOP 1",
    "SELECT count(*), job FROM runs WHERE {only} BY job HAVING count(*) > 1 AND job != 'c'",
    "SELECT count(*), avg(duration_ms) FROM runs WHERE {only} BY job COMPARE WITH 1d AGO",
    "SELECT rate(count(*), 1m), rate(sum(duration_ms), 1h) FROM runs WHERE {only} EVERY 1h COMPARE WITH 1d AGO",
    "SELECT CASE WHEN status = 'success' THEN job ELSE 'bad' END AS what, count(*) FROM runs WHERE {only} BY what",
    "SELECT count(*), avg(duration_ms), p50(duration_ms) FROM runs WHERE {only} BY host, status",
    "SELECT count(DISTINCT job), count(DISTINCT host) FROM runs WHERE {only} EVERY 1d",
    "SELECT last(status), last(exit_code), max(time), min(time), first(status) FROM runs WHERE {only} BY job",
    "SELECT count(exit_code), any(host), min(job), max(status) FROM runs WHERE {only} BY service EVERY 6h",
    "SELECT count(*) FROM runs WHERE {only} AND (exit_code > 0 OR host = 'db1') BY exit_code, job EVERY 1d TOP 2",
    "SELECT sum(duration_ms), count(*) FROM runs WHERE {only} BY host, exit_code EVERY 6h TOP 2 FILL NONE",
    "SELECT count(*), p95(duration_ms) FROM runs WHERE {only} BY hour(time), status EVERY 1d TOP 3",
    "SELECT count(DISTINCT status) FILTER (WHERE exit_code IS NULL), last(job) FILTER (WHERE status = 'failed')"
    " FROM runs WHERE {only} BY project",
    "SELECT count(*), p95(duration_ms) FROM runs WHERE {only} BY hour(time), job TIMEZONE 'America/New_York'",
    "SELECT stddev(duration_ms), stddev(late_ms), count(*) FROM runs WHERE {only} BY job, status",
    "SELECT stddev(duration_ms), stddev(late_ms) FILTER (WHERE status = 'failed') FROM runs WHERE {only} EVERY 1d",
    f"SELECT {LATE}, avg(duration_ms) FROM runs WHERE {{only}} BY job EVERY 1d",
    f"SELECT {LATE}, last(host) FROM runs WHERE {{only}} BY host, status",
    f"SELECT {LATE}, any(late_ms) FILTER (WHERE status = 'failed') AS f FROM runs WHERE {{only}} EVERY 30m FILL NONE",
]
OF_EVENTS = [
    f"SELECT {LENGTHS} FROM events WHERE {{only}} BY job, kind",
    f"SELECT {LENGTHS}, p50(length(message)) FROM events WHERE {{only}} BY host EVERY 1d",
    f"SELECT {LENGTHS}, stddev(length(message)) FROM events WHERE {{only}} EVERY 1h",
    "SELECT count(*), max(length(message)) FROM events WHERE {only} AND kind != 'end' EVERY 15m FILL NONE",
    "SELECT last(kind), first(kind), max(time) FROM events WHERE {only} BY job",
    "SELECT stddev(length(message)), sum(length(message)) FROM events WHERE {only} BY job, kind",
    "SELECT count(*), count(DISTINCT kind) FROM events WHERE {only} BY hour(time), project TIMEZONE 'Europe/Berlin'",
    "SELECT count(*), avg(length(message)) FROM events WHERE {only} AND length(message) > 3 BY job",
    "SELECT CASE WHEN length(message) < 4 THEN 'short' WHEN length(message) < 9 THEN job END AS size, count(*)"
    " FROM events WHERE {only} BY size EVERY 1d TOP 2",
    f"SELECT {LENGTHS} FROM logs WHERE {{only}} BY job",
    f"SELECT {LENGTHS}, min(length(message)) FROM logs WHERE {{only}} EVERY 6h FILL NONE",
    "SELECT count(*) FROM logs WHERE {only} AND length(message) BETWEEN 2 AND 5 BY service EVERY 1d",
]
# {a} and {b} are conditions on durations.
SPLIT = [
    f"SELECT {ALL}, any(host), p50(duration_ms) FROM runs WHERE {{only}} AND ({{a}}) BY job",
    f"SELECT {ALL} FROM runs WHERE {{only}} AND ({{a}}) EVERY 6h FILL NONE",
    "SELECT count(*) FILTER (WHERE {a}) AS slow, sum(duration_ms) FILTER (WHERE {b}),"
    " p95(duration_ms) FILTER (WHERE {a}), min(duration_ms) FILTER (WHERE {b}), count(duration_ms) FILTER (WHERE {b}),"
    " count(*) FROM runs WHERE {only}",
    "SELECT count(*) FILTER (WHERE {a}) AS slow, avg(duration_ms) FILTER (WHERE {a} AND status = 'failed'),"
    " count(DISTINCT host) FILTER (WHERE {b}) FROM runs WHERE {only} BY job, status ORDER BY slow DESC",
    "SELECT CASE WHEN {a} THEN 'quick' WHEN {b} THEN job END AS pace, count(*), max(duration_ms), count(DISTINCT job)"
    " FROM runs WHERE {only} BY pace HAVING count(*) FILTER (WHERE {b}) != 1",
    "SELECT CASE WHEN {a} THEN 'quick' WHEN {b} THEN host END AS pace, count(*) FROM runs WHERE {only} BY pace"
    " EVERY 1d TOP 2",
    "SELECT max(if({a}, exit_code, 1)), count(if({b}, 1, NULL)), min(if({a}, job, host)) FROM runs WHERE {only}"
    " BY host EVERY 1d TOP 2",
    "SELECT count(*), sum(duration_ms) FROM runs WHERE {only} AND ({a}) BY weekday(time) COMPARE WITH 1d AGO",
    "SELECT stddev(duration_ms), count(*) FILTER (WHERE {b}) AS n FROM runs WHERE {only} AND ({a}) BY service, status",
    "SELECT histogram(duration_ms, 1m) AS bin, count(*) FROM runs WHERE {only} AND ({a}) BY bin",
    "SELECT histogram(late_ms, 1m) AS bin, count(*) FILTER (WHERE {b}) FROM runs WHERE {only} BY bin EVERY 1d",
    "SELECT stddev(duration_ms) FILTER (WHERE {a}) AS s, sum(duration_ms) FROM runs WHERE {only} EVERY 6h",
]
LARGEST = [
    "SELECT id, duration_ms, time FROM runs WHERE {only} AND ({a}) ORDER BY duration_ms DESC, id LIMIT {n}",
    "SELECT job, duration_ms / 1000 AS seconds FROM runs WHERE {only} ORDER BY seconds DESC, id LIMIT {n} OFFSET 2",
    "SELECT id FROM runs WHERE {only} AND job = 'b' AND host = 'db1' ORDER BY duration_ms DESC, id LIMIT {n}",
    "SELECT id, late_ms FROM runs WHERE {only} AND late_ms IS NOT NULL ORDER BY late_ms DESC, id LIMIT {n}",
    "SELECT id FROM runs WHERE {only} AND duration_ms > {n}s AND ({a}) ORDER BY time DESC, id",
    "SELECT id, job FROM runs WHERE {only} AND job = 'b' AND late_ms >= 7s ORDER BY job, id LIMIT {n}",
    "SELECT id FROM runs WHERE {only} AND {a} ORDER BY duration_ms, id LIMIT 3",
]
WINDOWS = [
    "LAST 5d",
    "LAST 31h",
    "SINCE NOW - 3d UNTIL NOW - 90m",
    "SINCE '2026-06-19T00:10:00Z' UNTIL '2026-06-21T09:59:59.999Z'",
    "SINCE '2026-06-19' UNTIL '2026-06-22'",
]
HOUR = "1h by exit_code and host and job and project and service and status"
DAY = "1d by exit_code and host and job and project and service and status"
WEEK = "7d by exit_code and host and job and project and service and status"
PLACE_HOUR, PLACE_DAY = (f"{unit} by exit_code and host and project and service and status" for unit in ("1h", "1d"))
EVENTS_HOUR = "1h by host and job and kind and project and service"
EVENTS_DAY = "1d by host and job and kind and project and service"
SCOPES = ("heartbeat:write", "query:read", "admin")
_names = itertools.count()

_times = st.integers(-4 * 24 * 60, 0) | st.sampled_from([-60, -61, -59, -120, -24 * 60])  # minutes from now
_durations = st.none() | st.sampled_from([0, 1, 999, 60_000, 2_678_400_000]) | st.integers(0, 10**7)
_jobs = st.sampled_from("abc")
_runs = st.integers(0, 5)
_beats = st.one_of(
    st.tuples(st.just("record"), _jobs, _times, _durations, st.sampled_from(["success", "failed"])),
    st.tuples(st.just("start"), _jobs, _runs, _times),
    st.tuples(st.just("end"), _jobs, _runs, _times, _durations),
)
_raw = st.sampled_from(
    [
        "UPDATE runs SET duration_ms = -5 WHERE id % 2 = 0",
        "UPDATE runs SET duration_ms = NULL, status = 3 WHERE id = (SELECT max(id) FROM runs)",
        "UPDATE runs SET started_at = started_at - 7200000 WHERE id = (SELECT min(id) FROM runs)",
        "UPDATE OR IGNORE runs SET job_id = (SELECT min(id) FROM jobs) WHERE id % 3 = 0",
        "DELETE FROM runs WHERE id % 3 = 1",
        "UPDATE runs SET exit_code = 7 WHERE id % 4 = 1",
        "UPDATE runs SET attribution_id = NULL WHERE id % 4 = 2",
        "UPDATE runs SET duration_ms = 4294967296 WHERE id % 2 = 1",
        "UPDATE jobs SET name = name || '/' || id WHERE id = (SELECT max(id) FROM jobs)",
        "UPDATE runs SET late_ms = id * 7919 % 100000 WHERE id % 3 = 0",
        "UPDATE runs SET late_ms = -1 WHERE id = (SELECT max(id) FROM runs)",
        "UPDATE runs SET duration_ms = 3037000500 + id WHERE id % 4 = 0",
        "UPDATE events SET message = substr('a' || char(0) || 'ünïcödé', 1, 1 + id % 9) WHERE id % 3 = 0",
        "UPDATE events SET received_at = received_at - 7200000 * (id % 5)",
        "UPDATE events SET kind = 1 WHERE id % 2 = 0",
        "DELETE FROM events WHERE id % 4 = 1",
        f"UPDATE runs SET duration_ms = {2**39} WHERE id = (SELECT max(id) FROM runs)",
    ]
)
_limits = st.sampled_from(["0", "1", "999", "1s", "1m", "999.5", "2678400000", "4294967296", "1e300", "2h"])
_limits |= st.integers(0, 10**7).map(str)
_conditions = st.recursive(
    st.one_of(
        st.builds("duration_ms {} {}".format, st.sampled_from(["<", "<=", ">", ">=", "=", "!="]), _limits),
        st.builds("duration_ms {}BETWEEN {} AND {}".format, st.sampled_from(["", "NOT "]), _limits, _limits),
        st.builds("duration_ms {}IN ({}, {})".format, st.sampled_from(["", "NOT "]), _limits, _limits),
        st.sampled_from(["duration_ms IS NULL", "duration_ms IS NOT NULL", "status = 'failed'"]),
    ),
    lambda inner: (
        st.builds("({} {} {})".format, inner, st.sampled_from(["AND", "OR"]), inner)
        | st.builds("NOT ({})".format, inner)
    ),
    max_leaves=3,
)
_others = st.one_of(
    st.tuples(st.just("advance"), st.integers(1, 200)),
    st.tuples(st.just("task"), st.sampled_from(["purge", "sweep"])),
    st.tuples(st.just("delete"), _jobs),
    st.tuples(st.just("sql"), _raw),
)
_stories = st.lists(
    st.tuples(st.lists(_beats, max_size=12), st.lists(_others, max_size=2), st.booleans()), min_size=1, max_size=4
)


@pytest.mark.slow
@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(story=_stories, statements=st.sets(st.sampled_from(STATEMENTS), min_size=4, max_size=4), data=st.data())
def test_rollups_give_the_results_of_the_rows(
    long_app: Flask, clock: Clock, new_client: Any, story: Any, statements: set[str], data: st.DataObject
) -> None:
    clock.now_ms = START
    name = f"org{next(_names)}"
    client = new_client(name, *SCOPES, app=long_app)
    tenancy: auth.Tenancy = services(long_app).tenancy
    org = tenancy.keyring.organization(name)
    assert org is not None
    for beats, others, rolls in story:
        for beat in beats:
            _send(client, clock, beat)
        for kind, *what in others:
            if kind == "advance":
                clock.advance(minutes=what[0])
            elif kind == "task":
                services(long_app).background.tasks[what[0]].run()
            elif kind == "delete":
                assert client.delete(f"/api/v1/jobs/{what[0]}").status_code in (204, 404)
            else:
                tenancy.databases.write(org, partial(_execute, sql=what[0]))
        if rolls:
            roll_up(tenancy.databases, org, clock(), 4)
        window = data.draw(st.sampled_from(WINDOWS))
        conditions = {name: data.draw(_conditions) for name in "ab"}
        drawn = [data.draw(st.sampled_from(each)) for each in (SPLIT, LARGEST)]
        count = data.draw(st.integers(0, 4))
        late = SPLIT[data.draw(st.integers(0, len(SPLIT) - 1))].replace("duration_ms", "late_ms")
        late_conditions = {name: each.replace("duration_ms", "late_ms") for name, each in conditions.items()}
        split = [*(each.format(only="{only}", n=count, **conditions) for each in drawn)]
        split.append(late.format(only="{only}", **late_conditions))
        for statement in [*sorted(statements), *split, data.draw(st.sampled_from(OF_EVENTS))]:
            answers = [
                client.post("/api/v1/dsl", json={"query": f"{statement.format(only=only)} {window}"}).json
                for only in ("TRUE", _from_rows(statement))
            ]
            assert answers[0]["columns"] == answers[1]["columns"]
            assert answers[0]["rows"] == _close(answers[1]["rows"], statement), statement


def _from_rows(statement: str) -> str:
    """A condition that holds for all rows, and that no rollup knows."""
    return "id > 0" if "FROM runs" in statement else "coalesce(run_id, 0) >= 0"


def _close(rows: list[list[Any]], statement: str) -> list[list[Any]]:
    """The rows, whose fractions may differ in the last digits where deviations are computed in another way."""
    if "stddev" not in statement:
        return rows
    return [[pytest.approx(cell, 1e-9) if isinstance(cell, float) else cell for cell in row] for row in rows]


def _execute(db: sqlite3.Connection, sql: str) -> None:
    db.execute(sql)


def _count(db: sqlite3.Connection, table: str) -> int:
    return int(db.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


def _send(client: Any, clock: Clock, beat: Any) -> None:
    match beat:
        case ("record", job, minutes, duration, status):
            path, fields = f"{job}/end", {"duration_ms": duration, "status": status}
            if duration is not None and duration % 2:
                fields |= {"exit_code": duration % 3 + (status == "failed")}
        case ("start", job, run, minutes):
            path, fields = f"{job}/start", {"run_id": run}
        case ("end", job, run, minutes, duration):
            path, fields = f"{job}/end", {"run_id": run, "duration_ms": duration}
    fields["time"] = format_ms(clock() + minutes * 60_000)
    response = client.post(
        f"/api/v1/heartbeat/{path}",
        query_string={name: value for name, value in fields.items() if value is not None},
        headers={"X-Platform-Host": f"db{minutes % 3}", "X-Platform-Service": "store"} if minutes % 4 else {},
    )
    assert response.status_code == 200, response.json


@pytest.fixture(autouse=True)
def no_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call rolls up everything there is, however slow the machine is."""
    monkeypatch.setattr("obs.heartbeat.service._ROLLING_UP_SECONDS", math.inf)


@pytest.fixture
def long_app(make_app: Any) -> Flask:
    app: Flask = make_app(QUERY_RATE_PER_MINUTE=10**9, HEARTBEAT_RATE_PER_MINUTE=10**9, RUN_RETENTION_DAYS=4)
    return app


@pytest.mark.slow
@pytest.mark.parametrize(
    "late", ["UPDATE runs SET duration_ms = 5 WHERE id = 77", "DELETE FROM runs WHERE id % 90 = 0"]
)
def test_weeks_give_the_results_of_the_rows(long_app: Flask, clock: Clock, new_client: Any, late: str) -> None:
    """Sixteen days of four jobs, with a run every 100 minutes; weeks begin on Thursdays."""
    client, tenancy = new_client("weeks", *SCOPES, app=long_app), services(long_app).tenancy
    org = tenancy.keyring.organization("weeks")
    assert org is not None
    for job in "abcd":
        clock.advance(minutes=1)
        client.post(f"/api/v1/heartbeat/{job}/end", headers={"X-Platform-Host": f"db{job}", "X-Platform-Service": "s"})
    runs = [
        (number % 4 + 1, (1, 1, 2, 1, 3)[number % 5], START - number * 6_000_000, number * 7919 % 200_000 or None)
        for number in range(16 * 14)
    ]
    add = "INSERT INTO runs (job_id, status, started_at, duration_ms, exit_code, attribution_id, heartbeat_at, late_ms)"
    add += " VALUES (?1, ?2, ?3, ?4, ?2 - 1, ?1, 0, nullif(?4 % 99991, 7919))"
    tenancy.databases.write(org, lambda db: db.executemany(add, runs))
    log = "INSERT INTO events (job_id, kind, received_at, time, message, attribution_id)"
    log += " VALUES (?1, ?2 % 3 + 1, ?3, ?3, nullif(substr('message', 1, ?4 % 8), ''), ?1)"
    tenancy.databases.write(org, lambda db: db.executemany(log, runs))

    def ask(statement: str, only: str) -> Any:
        return client.post("/api/v1/dsl", json={"query": f"{statement.format(only=only)} LAST 16d"}).json["rows"]

    def explained() -> str:
        return str(ask("EXPLAIN SELECT count(*) FROM runs BY job", ""))

    conditions = {"a": "duration_ms > 50000", "b": "duration_ms BETWEEN 1m AND 2m"}
    split = [each.format(only="{only}", **conditions) for each in SPLIT]
    statements = [*STATEMENTS, *OF_EVENTS, *split, *(each.replace("duration_ms", "late_ms") for each in split)]
    roll_up(tenancy.databases, org, clock(), 20)
    assert f"1 x {WEEK}, between 2026-06-11T00:00:00.000Z and 2026-06-18T00:00:00.000Z" in explained()
    for change, rolls in ((late, False), ("SELECT 1", True)):
        tenancy.databases.write(org, partial(_execute, sql=change))
        roll_up(tenancy.databases, org, clock(), 20) if rolls else None
        assert (WEEK in explained()) == rolls
        for statement in statements:
            assert ask(statement, "TRUE") == _close(ask(statement, _from_rows(statement)), statement), statement
    for table in ("runs", "events"):
        tenancy.databases.write(org, partial(_execute, sql=f"DELETE FROM {table} WHERE id > 4"))
    roll_up(tenancy.databases, org, clock(), 20)
    assert tenancy.databases.write(org, partial(_count, table="series_by_week")) == 0


@pytest.fixture
def history(write: Write) -> None:
    """Three days of two jobs, each with a run every ten minutes; every seventh run failed."""
    runs = [
        (job, 2 if number % 7 == 0 else 1, START - 3 * DAY_MS + number * 600_000, 1_000 * job + number)
        for number in range(3 * 144)
        for job in (1, 2)
    ]

    def fill(db: sqlite3.Connection) -> None:
        db.executemany(
            "INSERT INTO jobs (id, name, created_at, last_heartbeat_at, last_event_id) VALUES (?, ?, 0, ?, 0)",
            [(1, "backup", START), (2, "mail", START)],
        )
        db.executemany(
            "INSERT INTO runs (job_id, status, started_at, duration_ms, heartbeat_at) VALUES (?, ?, ?, ?, 0)", runs
        )

    write(fill)


def _roll_up(app: Flask) -> None:
    services(app).background.tasks["rollups"].run()


def _explained(ask: Ask, statement: str) -> list[str]:
    return [row[1] for row in ask(f"EXPLAIN {statement}")["rows"] if row[0] == "rollup"]


@pytest.mark.usefixtures("history")
def test_explain_says_what_is_read_from_rollups(app: Flask, ask: Ask, clock: Clock) -> None:
    statement = "SELECT count(*) FROM runs EVERY 1h LAST 2d"
    assert _explained(ask, statement) == []
    _roll_up(app)
    clock.advance(minutes=37)
    # The last hour is read from the rows: at its end it was not rolled up yet.
    assert _explained(ask, statement) == [
        "46 x 1h by status, between 2026-06-19T11:00:00.000Z and 2026-06-21T09:00:00.000Z",
        "4 x 5m by status, between 2026-06-19T10:40:00.000Z and 2026-06-19T11:00:00.000Z",
        "the rows of 2026-06-19T10:37:00.000Z/2026-06-19T10:40:00.000Z, "
        "2026-06-21T09:00:00.000Z/2026-06-21T10:37:00.000Z",
    ]


@pytest.mark.usefixtures("history")
def test_totals_of_several_jobs_are_the_same_from_rollups_as_from_rows(app: Flask, ask: Ask) -> None:
    statement = "SELECT status, count(*), sum(duration_ms), min(duration_ms), max(duration_ms) FROM runs BY status"
    window = "BETWEEN '2026-06-18T10:00:00Z' AND '2026-06-21T09:00:00Z'"
    from_rows = ask(f"{statement} {window}")["rows"]
    _roll_up(app)
    assert _explained(ask, f"{statement} {window}") != []
    assert ask(f"{statement} {window}")["rows"] == from_rows
    assert len(from_rows) == 2


@pytest.mark.usefixtures("history")
@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("SELECT count(*) FROM runs EVERY 1h", ["1h by status"]),
        ("SELECT p95(duration_ms), count(*) FROM runs WHERE status = 'failed' EVERY 1d", ["1h by status"]),
        ("SELECT stddev(late_ms), median(late_ms) FROM runs EVERY 1d", ["1h by status"]),
        ("SELECT max(late_ms), count(*) FROM runs WHERE late_ms > 1m BY job", [DAY, HOUR]),
        ("SELECT count(*), avg(length(message)) FROM logs EVERY 1d", ["1h by kind"]),
        ("SELECT sum(length(message)) FROM events WHERE kind = 'log' BY job", [EVENTS_DAY, EVENTS_HOUR]),
        ("SELECT avg(duration_ms) FROM runs BY job", [DAY, HOUR]),
        ("SELECT avg(duration_ms) FROM runs WHERE job = 'mail' EVERY 6h", [HOUR]),
        ("SELECT count(*) FROM runs EVERY 1d TIMEZONE 'Europe/Berlin'", ["1h by status"]),
        ("SELECT count(*) FROM runs BY job EVERY 1d TIMEZONE 'Europe/Berlin'", [HOUR]),
        ("SELECT count(*) FROM runs BY hour(time), job", [HOUR]),
        ("SELECT count(*) FROM runs BY weekday(time), job", [DAY, HOUR]),
        ("SELECT count(*) FROM runs BY hour(time) TIMEZONE 'Europe/Berlin'", ["1h by status"]),
        ("SELECT p95(duration_ms), stddev(duration_ms) FROM runs BY job", [DAY, HOUR]),
        ("SELECT count(*) FROM runs WHERE exit_code = 1", [PLACE_DAY, PLACE_HOUR]),
        ("SELECT count(*) FROM runs BY host", [PLACE_DAY, PLACE_HOUR]),
        ("SELECT count(DISTINCT job), last(exit_code), max(time) FROM runs BY service EVERY 1d", [DAY, HOUR]),
        ("SELECT count(exit_code), min(job) FROM runs WHERE host = 'a' OR project IS NULL", [DAY, HOUR]),
        ("SELECT count(*) FILTER (WHERE duration_ms > 5) FROM runs", ["1h by status"]),
        ("SELECT avg(duration_ms) FROM runs WHERE duration_ms BETWEEN 5 AND 1m BY job", [DAY, HOUR]),
        (
            "SELECT histogram(duration_ms, 1m) AS bin, count(*) FROM runs WHERE status = 'failed' BY bin",
            ["1h by status"],
        ),
        (
            "SELECT histogram(late_ms, 1s) AS bin, job, count(*) FROM runs WHERE late_ms IS NOT NULL BY bin, job",
            [DAY, HOUR],
        ),
        (
            "SELECT CASE WHEN duration_ms > 1m THEN 'slow' END AS pace, p95(duration_ms) FROM runs BY pace",
            ["1h by status"],
        ),
        ("SELECT count(*) FROM runs EVERY 1d TIMEZONE 'Asia/Kolkata'", ["5m by status"]),
        ("SELECT p95(duration_ms), count(*) FROM runs BY status EVERY 30m", ["5m by status"]),
        # what rollups cannot answer exactly
        ("SELECT count(*) FROM runs EVERY 1m", []),
        ("SELECT count(*) FROM runs BY job EVERY 30m", []),
        ("SELECT count(*) FROM runs BY hour(time) TIMEZONE 'Asia/Kolkata'", []),
        ("SELECT max(late_ms), last(run_id) FROM runs", []),
        ("SELECT max(late_ms) FROM runs WHERE duration_ms > 5", []),
        ("SELECT count(*) FROM runs WHERE duration_ms > 5 OR late_ms > 5", []),
        ("SELECT last(duration_ms) FROM runs WHERE duration_ms > 5", []),
        ("SELECT count(message) FROM logs", []),
        ("SELECT histogram(duration_ms, 999) AS bin, count(*) FROM runs BY bin", []),
        ("SELECT histogram(duration_ms, 1m) AS bin, avg(duration_ms) FROM runs BY bin", []),
        ("SELECT histogram(duration_ms, 1m) AS bin, count(*) FROM runs WHERE late_ms > 5 BY bin", []),
        ("SELECT histogram(length(message), 1000) AS bin, count(*) FROM logs BY bin", []),
        ("SELECT count(*) FROM events WHERE length(message) > 9 BY job", []),
        ("SELECT p95(length(message)) FROM logs", []),
        ("SELECT count(*) FROM logs WHERE message CONTAINS 'full' BY job", []),
        ("SELECT sum(duration_ms / 7) FROM runs", []),
        ("SELECT count(DISTINCT duration_ms) FROM runs", []),
        ("SELECT first(duration_ms) FROM runs", []),
        ("SELECT count(*) FROM runs WHERE time > '2026-06-20'", []),
        ("SELECT count(*) FILTER (WHERE duration_ms / 2 > 5) FROM runs", []),
        ("SELECT count(*) FROM runs WHERE duration_ms > late_ms", []),
        ("SELECT last(status), count(*) FROM runs WHERE duration_ms > 5", []),
        ("SELECT max(time) FILTER (WHERE duration_ms > 5) FROM runs", []),
        ("SELECT job, duration_ms FROM runs", []),
    ],
)
def test_rollups_are_used_where_they_are_exact(app: Flask, ask: Ask, statement: str, expected: list[str]) -> None:
    _roll_up(app)
    grains = [text for text in _explained(ask, f"{statement} LAST 60h") if not text.startswith("the rows")]
    assert [text.partition(" x ")[2].partition(",")[0] for text in grains] == expected


BY_TIME = "PRIMARY KEY (hour=? AND series_id"
BY_SERIES = "COVERING INDEX series_by_hour_counts (series_id=? AND hour"
VALUES_BY_SERIES = "INDEX series_by_hour_counts (series_id=? AND hour"
DAYS = "COVERING INDEX series_by_day_counts (series_id=? AND day"
VALUES_OF_DAYS = "PRIMARY KEY (series_id=? AND day"


@pytest.mark.usefixtures("history")
@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("SELECT count(*), max(duration_ms) FROM runs EVERY 1h", {BY_SERIES}),
        ("SELECT p95(duration_ms) FROM runs EVERY 1h", {BY_TIME}),
        ("SELECT max(late_ms) FROM runs WHERE late_ms >= 0", {BY_SERIES}),
        ("SELECT count(*) FROM runs BY job", {DAYS, BY_TIME}),
        ("SELECT p95(duration_ms) FROM runs BY job", {VALUES_OF_DAYS, BY_TIME}),
        ("SELECT count(*) FROM runs WHERE duration_ms > 1s BY job", {VALUES_OF_DAYS, BY_TIME}),
        ("SELECT avg(duration_ms) FROM runs BY host EVERY 1d", {DAYS, BY_TIME}),
        ("SELECT stddev(duration_ms), last(status) FROM runs BY job EVERY 6h", {BY_SERIES}),
        ("SELECT count(*) FROM runs WHERE job = 'mail' EVERY 6h", {BY_SERIES}),
        ("SELECT p50(duration_ms) FROM runs WHERE job = 'mail' EVERY 6h", {VALUES_BY_SERIES}),
        ("SELECT count(*) FROM runs WHERE status = 'failed' BY job", {DAYS, BY_TIME}),
        ("SELECT count(*) FROM runs WHERE exit_code > 0 BY job", {DAYS, BY_SERIES}),
        ("SELECT count(*) FROM runs WHERE status = 'failed' BY job, hour(time)", {BY_SERIES}),
    ],
)
def test_cells_are_read_in_the_order_that_suits_a_statement(
    app: Flask, ask: Ask, write: Write, statement: str, expected: set[str]
) -> None:
    write(lambda db: db.execute("UPDATE runs SET late_ms = 5 WHERE duration_ms < 2000"))
    before = ask(f"{statement} LAST 60h")["rows"]
    _roll_up(app)
    assert ask(f"{statement} LAST 60h")["rows"] == before
    steps = [row[1] for row in ask(f"EXPLAIN {statement} LAST 60h")["rows"] if row[0] == "plan"]
    found = [step.removeprefix("SEARCH cells USING ") for step in steps if "SEARCH cells" in step]
    assert {re.split("[<>]", step)[0] for step in found} == expected


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
    from_rows = [_close(ask(statement)["rows"], statement) for statement in statements]
    _roll_up(app)
    assert all(_explained(ask, statement) for statement in statements)
    assert [_close(ask(statement)["rows"], statement) for statement in statements] == from_rows


@pytest.mark.usefixtures("history")
def test_a_day_with_too_many_runs_is_tried_once(
    app: Flask, ask: Ask, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    statement = "SELECT avg(duration_ms) FROM runs BY job LAST 60h"
    databases = services(app).tenancy.databases
    with monkeypatch.context() as patched:
        patched.setattr(store, "LARGEST_BLOB", 100)  # less than the durations of a day
        _roll_up(app)
        assert not any(" x 1d" in text for text in _explained(ask, statement))
        written = databases.last_write(ACME)
        _roll_up(app)
        assert databases.last_write(ACME) == written
    write(lambda db: db.execute("UPDATE runs SET duration_ms = 1"))
    _roll_up(app)
    assert any(" x 1d" in text for text in _explained(ask, statement))


@pytest.mark.usefixtures("history")
def test_only_the_groups_of_top_are_read(app: Flask, ask: Ask, client: Any) -> None:
    client.post("/api/v1/heartbeat/mail/end?time=2026-06-20T08:20:00Z&duration_ms=1000")
    statement = "SELECT count(*) FROM runs BY job EVERY 12h TOP 1 LAST 60h"
    before = ask(statement)["rows"]
    assert {row[1] for row in before} == {"mail"}
    assert sum(row[2] for row in before) == 361
    _roll_up(app)
    explained = dict(ask(f"EXPLAIN {statement}")["rows"])
    assert explained["groups"] == "1 with the largest values over the window, which are read first"
    assert "backup" not in explained["parameters"]
    assert ask(statement)["rows"] == before


@pytest.mark.usefixtures("history")
@pytest.mark.parametrize(
    ("condition", "hours", "count"),
    [
        ("duration_ms > 2424", [8, 9], 7),
        ("duration_ms > 2424.5 AND status = 'success'", [8, 9], 6),
        ("job = 'mail' AND duration_ms >= 2431", [9], 1),
        ("duration_ms > 2431", None, 0),
        ("(duration_ms > 2425 OR job = 'mail')", [], 360),
    ],
)
def test_runs_above_a_threshold_are_read_from_the_hours_that_have_them(
    app: Flask, ask: Ask, condition: str, hours: list[int] | None, count: int
) -> None:
    statement = f"SELECT job, duration_ms FROM runs WHERE {condition} LAST 60h"
    before = ask(statement)["rows"]
    assert (len(before), _explained(ask, statement)) == (count, [])
    _roll_up(app)
    assert ask(statement)["rows"] == before
    parts = "".join(_explained(ask, statement)).partition("the rows of ")[2].split(", ")
    read = [part for part in parts if part and len(set(part.split("/"))) == 2]
    if hours is None:
        assert (len(parts), read) == (1, [])
    else:
        assert read == [f"2026-06-21T{each:02}:00:00.000Z/2026-06-21T{each + 1:02}:00:00.000Z" for each in hours]


@pytest.mark.usefixtures("history")
def test_hours_are_not_chosen_while_many_rows_are_not_rolled_up(
    app: Flask, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after an update that rolls up all hours again, the latest day first."""
    statement = "SELECT job, duration_ms FROM runs WHERE duration_ms > 2424 LAST 60h"
    _roll_up(app)
    before = ask(statement)["rows"]
    for rows, is_chosen in ((13, True), (12, False)):  # twelve runs began in the last hour, which is not rolled up yet
        monkeypatch.setattr("obs.query.execution.rows.MANY_ROWS", rows)
        assert bool(_explained(ask, statement)) == is_chosen
        assert ask(statement)["rows"] == before


@pytest.mark.usefixtures("history")
def test_the_slowest_runs_are_read_from_the_hours_that_have_them(app: Flask, ask: Ask) -> None:
    statement = "SELECT job, duration_ms FROM runs ORDER BY duration_ms DESC LIMIT 3 LAST 60h"
    before = ask(statement)["rows"]
    assert _explained(ask, statement) == []
    _roll_up(app)
    hour = "2026-06-21T{:02}:00:00.000Z/2026-06-21T{:02}:00:00.000Z"
    hours = ", ".join(hour.format(each, each + 1) for each in (7, 8, 9))
    assert _explained(ask, statement) == [f"where the largest values are: the rows of {hours}"]
    assert ask(statement)["rows"] == before == [["mail", 2431], ["mail", 2430], ["mail", 2429]]
    # Each hour has one largest value, and there are 61.
    assert _explained(ask, statement.replace("LIMIT 3", "LIMIT 62")) == []
    assert len(ask(statement.replace("LIMIT 3", "LIMIT 62"))["rows"]) == 62


@pytest.mark.usefixtures("history")
def test_a_late_change_is_read_from_the_rows_until_the_hour_is_rolled_up_again(
    app: Flask, ask: Ask, client: Any, clock: Clock
) -> None:
    statement = "SELECT count(*), max(duration_ms) FROM runs WHERE job = 'mail' EVERY 1h LAST 4h"
    _roll_up(app)
    before = ask(statement)["rows"]
    client.post("/api/v1/heartbeat/mail/end?time=2026-06-21T07:20:00Z&duration_ms=99000")
    (left,) = [text for text in _explained(ask, statement) if text.startswith("the rows")]
    assert "2026-06-21T07:00:00.000Z/2026-06-21T08:00:00.000Z" in left
    after = ask(statement)["rows"]
    assert after[1] == [before[1][0], before[1][1] + 1, 99_000]
    assert after[:1] + after[2:] == before[:1] + before[2:]
    _roll_up(app)
    (left,) = [text for text in _explained(ask, statement) if text.startswith("the rows")]
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
    _roll_up(app)
    assert [row[1] for row in ask(statement)["rows"]] == [before[0][1], before[1][1] + 1, before[2][1]]
    assert any("T08:00:00.000Z/" in text for text in _explained(ask, statement))


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
    assert _explained(ask, statement)
    assert ask(statement)["rows"] == [[13]]


@pytest.mark.slow
@pytest.mark.usefixtures("history")
def test_deleted_runs_leave_the_rollups(app: Flask, new_client: Any, ask: Ask, write: Write, clock: Clock) -> None:
    _roll_up(app)
    assert new_client("acme", *SCOPES).delete("/api/v1/jobs/mail").status_code == 204
    statement = "SELECT count(*) FROM runs BY job LAST 60h"
    assert ask(statement)["rows"] == [["backup", 360]]
    _roll_up(app)
    assert _explained(ask, statement)
    assert ask(statement)["rows"] == [["backup", 360]]
    clock.advance(days=200)
    services(app).background.tasks["purge"].run()
    _roll_up(app)
    tables = ("rolled_up_hours", "rolled_up_days", "rolled_up_weeks", "series", "series_by_hour", "series_by_day")
    for table in (*tables, "series_by_five_minutes", "series_by_week"):
        assert write(partial(_count, table=table)) == 0, table


@pytest.mark.usefixtures("history")
def test_a_standard_deviation_is_that_of_the_rows(app: Flask, ask: Ask) -> None:
    statement = "SELECT job, status, stddev(duration_ms), count(*) FROM runs BY job, status LAST 60h"
    from_rows = ask(statement)["rows"]
    _roll_up(app)
    assert _explained(ask, statement)
    assert ask(statement)["rows"] == _close(from_rows, statement)


@pytest.mark.usefixtures("history")
@pytest.mark.parametrize("base", [0, 10**6, 2**31, 2**33])
def test_a_small_deviation_of_long_durations_is_exact(app: Flask, ask: Ask, write: Write, base: int) -> None:
    durations = [base + number % 3 for number in range(864)]
    write(partial(_execute, sql=f"UPDATE runs SET duration_ms = {base} + id % 3"))
    _roll_up(app)
    statement = "SELECT stddev(duration_ms) FROM runs LAST 90h"
    assert _explained(ask, statement)
    assert ask(statement)["rows"] == [[pytest.approx(statistics.stdev(durations), 1e-12)]]
