"""Rollups give the same results as the rows of runs, whatever the statement and whatever changes the rows meanwhile."""

import itertools
from functools import partial
from typing import Any

import pytest
from flask import Flask
from hypothesis import HealthCheck, given, settings, strategies as st

from obs.heartbeat.service import roll_up
from obs.services import services
from obs.tenancy import auth
from obs.times import format_ms
from tests.conftest import START, Clock
from tests.query.conftest import LENGTHS, SCOPES, count_rows, execute, nearly

ALL = "count(*), count(duration_ms), sum(duration_ms), avg(duration_ms), min(duration_ms), max(duration_ms)"
LATE = "count(late_ms), sum(late_ms), avg(late_ms), min(late_ms), max(late_ms), p90(late_ms)"
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
    f"SELECT {ALL} FROM runs WHERE {{only}} AND time > '2026-06-19T12:00:00Z' AND time <= NOW - 2h BY job, status",
    "SELECT count(*) FILTER (WHERE time >= NOW - 1d) AS new, p95(duration_ms) FILTER (WHERE time < NOW - 1d), count(*)"
    " FROM runs WHERE {only} BY host ORDER BY new DESC, host",
    "SELECT CASE WHEN time < '2026-06-20' THEN 'before' WHEN time >= NOW - 90m THEN job END AS phase, count(*),"
    " avg(if(time > '2026-06-18T07:03:00Z', duration_ms, NULL)), max(time), last(status) FROM runs WHERE {only}"
    " AND NOT time BETWEEN '2026-06-19T03:00:00Z' AND '2026-06-19T05:59:59.999Z' BY phase, status EVERY 1d TOP 3",
    "SELECT count(*), sum(if(time < '2026-06-20', 1, 0)) FROM runs WHERE {only} BY job EVERY 1d COMPARE WITH 1d AGO"
    " TIMEZONE 'Asia/Kolkata'",
    "SELECT count(*), sum(duration_ms) FROM runs WHERE {only} EVERY 1d TIMEZONE 'Europe/Berlin'",
    "SELECT count(*) FROM runs WHERE {only} BY job EVERY 1d TIMEZONE 'Asia/Kolkata'",
    "SELECT count(*), max(duration_ms) FROM runs WHERE {only} EVERY 1mo TIMEZONE 'Asia/Kolkata'",
    "SELECT count(*), p95(duration_ms) FROM runs WHERE {only} BY status EVERY 1mo TIMEZONE 'Europe/Berlin'",
    "SELECT count(*), max(duration_ms) FROM runs WHERE {only} BY job EVERY 1w",
    "SELECT count(*), max(duration_ms) FROM runs WHERE {only} BY job EVERY 1w TIMEZONE 'Asia/Kathmandu'",
    "SELECT count(*), p95(duration_ms), last(status) FROM runs WHERE {only} BY host EVERY 90m FILL NONE",
    "SELECT count(*), p95(duration_ms) FROM runs WHERE {only} BY hour(time), weekday(time) TIMEZONE 'Asia/Kathmandu'",
    "SELECT histogram(duration_ms, 1m) AS bin, count(*), max(gap_ms) FROM runs WHERE {only} BY bin",
    "SELECT histogram(duration_ms, 1m) AS bin, count(*), count(DISTINCT job), max(host) FROM runs WHERE {only} BY bin",
    "SELECT histogram(late_ms, 7s) AS bin, job, count(*) FILTER (WHERE status = 'failed') AS failed FROM runs"
    " WHERE {only} BY bin, job HAVING count(*) > 0 ORDER BY failed DESC",
    "SELECT floor(duration_ms / 60000) AS minutes, count(*) FROM runs WHERE {only} BY minutes, status",
    "SELECT floor(late_ms / 1m) * 2 AS m, count(*) FROM runs WHERE {only} AND late_ms > 5 BY floor(late_ms / 1m)",
    "SELECT floor(duration_ms / 1000), histogram(duration_ms, 1s), count(*) FROM runs WHERE {only} BY 1, 2",
    "SELECT round(duration_ms / 60000) AS m, count(*), max(host) FROM runs WHERE {only} BY m, job EVERY 1d TOP 3",
    "SELECT ceil(late_ms / 1001.0) AS s, count(*) FILTER (WHERE host = 'db1') FROM runs WHERE {only}"
    " AND late_ms IS NOT NULL BY s, weekday(time)",
    "SELECT round(duration_ms / 1001) AS s, count(*) AS n FROM runs WHERE {only} BY s HAVING n > 1 ORDER BY n DESC",
    "SELECT histogram(duration_ms, 1s) AS bin, count(histogram(duration_ms, 1s)) FILTER (WHERE host = 'db1')"
    " FROM runs WHERE {only} BY bin",
    "SELECT histogram(duration_ms, 1m), count(*) FILTER (WHERE hour(time) > 9) FROM runs WHERE {only}"
    " AND duration_ms IS NOT NULL AND (host = 'db1' OR duration_ms IS NULL OR status = 'failed') BY 1",
    "SELECT histogram(duration_ms, 1m), count(*) FILTER (WHERE hour(time) > 9) FROM runs WHERE {only}"
    " AND duration_ms IS NOT NULL AND host = 'db1' BY 1",
    "SELECT ceil(duration_ms / 2000) AS s, host, status, count(*) FROM runs WHERE {only} BY s, host, status TOP 5",
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
    "SELECT last(duration_ms) AS l, first(late_ms), last(ended_at), first(run_id), count(*), first(time), last(time)"
    " FROM runs WHERE {only} BY job HAVING l != 5 ORDER BY l DESC, job",
    "SELECT job, last(duration_ms) / 1000, last(late_ms) FILTER (WHERE status = 'failed'), any(time) FROM runs"
    " WHERE {only} BY job COMPARE WITH 1d AGO",
    "SELECT count(exit_code), any(host), min(job), max(status) FROM runs WHERE {only} BY service EVERY 6h",
    "SELECT count(*) FROM runs WHERE {only} AND (exit_code > 0 OR host = 'db1') BY exit_code, job EVERY 1d TOP 2",
    "SELECT sum(duration_ms), count(*) FROM runs WHERE {only} BY host, exit_code EVERY 6h TOP 2 FILL NONE",
    "SELECT count(*), p95(duration_ms) FROM runs WHERE {only} BY hour(time), status EVERY 1d TOP 3",
    "SELECT count(DISTINCT status) FILTER (WHERE exit_code IS NULL), last(job) FILTER (WHERE status = 'failed')"
    " FROM runs WHERE {only} BY project",
    "SELECT count(*), p95(duration_ms) FROM runs WHERE {only} BY hour(time), job TIMEZONE 'America/New_York'",
    "SELECT stddev(duration_ms), stddev(late_ms), count(*) FROM runs WHERE {only} BY job, status",
    "SELECT stddev(duration_ms), stddev(late_ms) FILTER (WHERE status = 'failed') FROM runs WHERE {only} EVERY 1d",
    "SELECT sum(if(status = 'failed', 1, 0)) AS bad, avg(exit_code), sum(-3) FROM runs WHERE {only} BY job EVERY 1d",
    "SELECT avg(duration_ms / 1000), max(duration_ms / 1000 / 60), p95(duration_ms * 2), sum(late_ms * 0.7 / 3),"
    " stddev(duration_ms * 1.5), any(late_ms / 7) FROM runs WHERE {only} BY status EVERY 6h",
    "SELECT sum(if(status = 'failed', duration_ms, 0)) AS bad, avg(if(status = 'success', duration_ms, NULL)),"
    " sum(CASE WHEN host = 'db1' THEN late_ms / 1000 END) FILTER (WHERE status != 'lost'), count(*),"
    " count(CASE WHEN exit_code > 0 THEN duration_ms END) FROM runs WHERE {only} BY job EVERY 1d TOP 2",
    "SELECT p95(if(status != 'lost', duration_ms, NULL)), sum(if(duration_ms > 1s, duration_ms / 7, 0)) / 60,"
    " max(CASE WHEN duration_ms < 2s THEN duration_ms END) FROM runs WHERE {only} BY host, status",
    "SELECT rate(sum(if(status = 'failed', duration_ms, 0)), 1h), count(*) FROM runs WHERE {only} BY job"
    " HAVING sum(if(host = 'db1', late_ms, 0)) >= 0",
    "SELECT avg(coalesce(late_ms, 0)), avg(coalesce(duration_ms, 0)) FILTER (WHERE status = 'lost'), sum(late_ms)"
    " FROM runs WHERE {only} BY host, status",
    "SELECT sum(coalesce(late_ms, 0)), sum(coalesce(duration_ms, 0)) FILTER (WHERE status = 'lost') / 1000,"
    " sum(coalesce(duration_ms / 7, 0)) FROM runs WHERE {only} BY job EVERY 6h",
    "SELECT sum(coalesce(late_ms, 0)) AS s FROM runs WHERE {only} AND late_ms > 5 BY host HAVING s > 0",
    "SELECT last(if(exit_code = 0, duration_ms, NULL)), sum(if(host = 'db1', late_ms, 0.0)) FROM runs WHERE {only}",
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
    "SELECT last(duration_ms), first(duration_ms), count(*) FROM runs WHERE {only} AND ({a}) AND host = 'db1' BY job",
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
    "SELECT sum(if({a}, exit_code, 1)), avg(if({b}, 5, exit_code)), avg(duration_ms / 60) FROM runs WHERE {only}",
    "SELECT count(*), sum(duration_ms) FROM runs WHERE {only} AND ({a}) BY weekday(time) COMPARE WITH 1d AGO",
    "SELECT stddev(duration_ms), count(*) FILTER (WHERE {b}) AS n FROM runs WHERE {only} AND ({a}) BY service, status",
    "SELECT histogram(duration_ms, 1m) AS bin, count(*) FROM runs WHERE {only} AND ({a}) BY bin",
    "SELECT histogram(late_ms, 1m) AS bin, count(*) FILTER (WHERE {b}) FROM runs WHERE {only} BY bin EVERY 1d",
    "SELECT histogram(duration_ms, 1m) AS bin, count(*) FROM runs WHERE {only} BY bin, ({a})",
    "SELECT stddev(duration_ms) FILTER (WHERE {a}) AS s, sum(duration_ms) FROM runs WHERE {only} EVERY 6h",
]
LARGEST = [
    "SELECT id, duration_ms, time FROM runs WHERE {only} AND ({a}) ORDER BY duration_ms DESC, id LIMIT {n}",
    "SELECT job, duration_ms / 1000 AS seconds FROM runs WHERE {only} ORDER BY seconds DESC, id LIMIT {n} OFFSET 2",
    "SELECT id FROM runs WHERE {only} AND job = 'b' AND host = 'db1' ORDER BY duration_ms DESC, id LIMIT {n}",
    "SELECT id FROM runs WHERE {only} AND status = 'success' ORDER BY duration_ms, id LIMIT {n} OFFSET 1",
    "SELECT id, late_ms FROM runs WHERE {only} AND late_ms IS NOT NULL ORDER BY late_ms DESC, id LIMIT {n}",
    "SELECT id FROM runs WHERE {only} AND duration_ms > {n}s AND ({a}) ORDER BY time DESC, id",
    "SELECT id FROM runs WHERE {only} AND duration_ms < {n}s AND ({a}) ORDER BY time DESC, id",
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
WEEK = "7d by exit_code and host and job and project and service and status"
_names = itertools.count()
_times = st.integers(-4 * 24 * 60, 0) | st.sampled_from([-60, -61, -59, -120, -24 * 60])  # minutes from now
_durations = st.none() | st.sampled_from([0, 1, 999, 60_000, 89_999, 90_000, 2_678_400_000]) | st.integers(0, 10**7)
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
        "UPDATE events SET kind = 1 WHERE id % 2 = 0 AND kind <> 0",  # an open run has a start
        "DELETE FROM events WHERE id % 4 = 1 AND kind <> 0",
        f"UPDATE runs SET duration_ms = {2**39} WHERE id = (SELECT max(id) FROM runs)",
    ]
)
_limits = st.sampled_from(["0", "1ms", "999ms", "1s", "1m", "999.5", "31d", "4294967296ms", "1e300", "2h"])
_limits |= st.integers(0, 10**7).map("{}ms".format)
_conditions = st.recursive(
    st.one_of(
        st.builds("duration_ms {} {}".format, st.sampled_from(["<", "<=", ">", ">=", "=", "!="]), _limits),
        st.builds(
            lambda negation, first, more: f"duration_ms {negation}BETWEEN {first} AND {first + more}",
            st.sampled_from(["", "NOT "]),
            st.sampled_from([0, 1, 999, 60_000, 2**32]) | st.integers(0, 10**7),
            st.integers(0, 10**7),
        ),
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
                tenancy.databases.write(org, partial(execute, sql=what[0]))
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
            assert answers[0]["rows"] == nearly(answers[1]["rows"], statement), statement


def _from_rows(statement: str) -> str:
    """A condition that holds for all rows, and that no rollup knows."""
    return "id > 0" if "FROM runs" in statement else "coalesce(run_id, 0) >= 0"


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


@pytest.fixture
def long_app(make_app: Any, no_hurry: None) -> Flask:
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
        tenancy.databases.write(org, partial(execute, sql=change))
        roll_up(tenancy.databases, org, clock(), 20) if rolls else None
        assert (WEEK in explained()) == rolls
        for statement in statements:
            assert ask(statement, "TRUE") == nearly(ask(statement, _from_rows(statement)), statement), statement
    for table in ("runs", "events"):
        tenancy.databases.write(org, partial(execute, sql=f"DELETE FROM {table} WHERE id > 4"))
    roll_up(tenancy.databases, org, clock(), 20)
    assert tenancy.databases.write(org, partial(count_rows, table="series_by_week")) == 0
