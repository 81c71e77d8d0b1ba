"""Results agree with a few lines of Python that know the rows, but nothing of the SQL."""

import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, strategies as st

from obs.heartbeat.runs import STATUSES
from obs.times import DAY_MS, HOUR_MS, MINUTE_MS, format_ms, parse_iso
from tests.query.test_any_statement import examples

Ask = Callable[..., dict[str, Any]]

CHANGES = {
    "Europe/Berlin": ["2025-10-26T01:00:00Z", "2026-03-29T01:00:00Z"],
    "America/New_York": ["2025-11-02T06:00:00Z", "2026-03-08T07:00:00Z"],
    "America/Havana": ["2025-11-02T05:00:00Z", "2026-03-08T05:00:00Z"],
    "Australia/Lord_Howe": ["2026-04-04T15:00:00Z", "2025-10-04T15:30:00Z"],
    "Antarctica/Troll": ["2025-10-26T01:00:00Z", "2026-03-29T01:00:00Z"],
    "Pacific/Chatham": ["2026-04-04T14:00:00Z", "2025-09-27T14:00:00Z"],
    "Asia/Kolkata": ["2026-01-01T00:00:00Z"],
    "Africa/Cairo": ["2025-10-30T21:00:00Z", "2026-04-23T22:00:00Z"],
}
"""When the clocks of some zones change."""
INTERVALS = {"5m": 5, "15m": 15, "30m": 30, "1h": 60, "2h": 120, "6h": 360, "1d": 1440}
"""In minutes."""


class Run(NamedTuple):
    job: int
    status: str
    started_at: int
    duration_ms: int | None


def _runs() -> list[Run]:
    """A run every 7 minutes for 40 hours around each clock change, in three jobs, some without a duration."""
    runs = []
    for moment in sorted({parse_iso(each) for changes in CHANGES.values() for each in changes}):
        for number in range(343):
            status = STATUSES[number * 7 % 4]
            duration = None if number % 5 == 0 else (number * 7_919) % 90_500 + 1
            runs.append(Run(number % 3 + 1, status, moment - 20 * HOUR_MS + number * 7 * MINUTE_MS, duration))
    return runs


RUNS = _runs()


@pytest.fixture
def app(make_app: Any) -> Any:
    return make_app(QUERY_RATE_PER_MINUTE=10**9)


@pytest.fixture
def answers(ask: Ask, write: Any) -> Ask:
    def fill(db: sqlite3.Connection) -> None:
        db.executemany(
            "INSERT INTO jobs (id, name, created_at, last_heartbeat_at, last_event_id) VALUES (?, ?, 0, 0, 0)",
            [(number, f"job-{number}") for number in (1, 2, 3)],
        )
        db.executemany(
            "INSERT INTO runs (job_id, status, started_at, duration_ms, heartbeat_at) VALUES (?, ?, ?, ?, 0)",
            [(run.job, STATUSES.index(run.status), run.started_at, run.duration_ms) for run in RUNS],
        )

    write(fill)
    return ask


def _local(moment: int, zone: ZoneInfo) -> int:
    shown = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=moment)).astimezone(zone)
    return round((shown.replace(tzinfo=None) - datetime(1970, 1, 1)).total_seconds() * 1000)  # noqa: DTZ001


def _buckets(start: int, end: int, minutes: int, zone: ZoneInfo) -> Iterator[tuple[int, int]]:
    """Start of each bucket, and what the clocks show there, found minute by minute."""
    length = minutes * MINUTE_MS
    moment = start - 3 * DAY_MS
    latest, previous = _local(moment, zone) // length, _local(moment, zone)
    while moment < end:
        shown = _local(moment, zone)
        label, is_jump = shown // length, shown != previous + MINUTE_MS
        is_new = label > latest if length >= DAY_MS else label != latest or (is_jump and shown % length == 0)
        if is_new and moment > start - 3 * DAY_MS:
            latest = label
            yield moment, label
        moment, previous = moment + MINUTE_MS, shown


def _within(starts: Sequence[int], start: int) -> list[int]:
    first = max(place for place, each in enumerate(starts) if each <= start)
    return list(starts[first:])


@pytest.mark.slow
@examples(0.05)
@given(
    zone_and_change=st.sampled_from([(zone, change) for zone, changes in CHANGES.items() for change in changes]),
    interval=st.sampled_from(sorted(INTERVALS)),
    before=st.integers(1, 19 * 60),
    after=st.integers(1, 19 * 60),
    fills=st.booleans(),
)
def test_buckets_around_clock_changes(
    answers: Ask, zone_and_change: tuple[str, str], interval: str, before: int, after: int, fills: bool
) -> None:
    name, change = zone_and_change
    start, end = parse_iso(change) - before * MINUTE_MS, parse_iso(change) + after * MINUTE_MS
    starts = _within([each for each, _ in _buckets(start, end, INTERVALS[interval], ZoneInfo(name))], start)
    expected = []
    for place, each in enumerate(starts):
        until = starts[place + 1] if place + 1 < len(starts) else end
        covered = min(until, end) - max(each, start)
        count = sum(max(each, start) <= run.started_at < until for run in RUNS if run.started_at < end)
        if count or fills:
            expected.append([format_ms(each), count, pytest.approx(count * HOUR_MS / covered)])
    window = f"BETWEEN '{format_ms(start)}' AND '{format_ms(end)}'"
    fill = "" if fills else "FILL NONE"
    statement = f"SELECT count(*), rate(count(*), 1h) FROM runs EVERY {interval} {window} TIMEZONE '{name}' {fill}"
    assert answers(statement)["rows"] == expected


@examples(0.05)
@given(
    zone=st.sampled_from([*CHANGES, "UTC", ""]),
    length=st.sampled_from(
        [("1mo", 1), ("2 months", 2), ("3mo", 3), ("7mo", 7), ("1y", 12), ("2 years", 24), ("3y", 36)]
    ),
    start=st.integers(parse_iso("2023-12-30T00:00:00Z"), parse_iso("2026-06-01T00:00:00Z")),
    days=st.floats(0.001, 900),
)
@example(zone="Europe/Berlin", length=("1mo", 1), start=parse_iso("2025-10-31T23:00:00Z"), days=31)
@example(zone="", length=("1mo", 1), start=parse_iso("2026-04-01T00:00:00Z"), days=61)
def test_buckets_of_months(answers: Ask, zone: str, length: tuple[str, int], start: int, days: float) -> None:
    written, months = length
    end = min(start + round(days * DAY_MS) + 1, parse_iso("2026-06-21T10:00:00Z"))
    starts = []
    for number in range(0, 57 * 12, months):
        midnight = datetime(1970 + number // 12, number % 12 + 1, 1, tzinfo=ZoneInfo(zone or "UTC"))
        starts.append(round(midnight.timestamp()) * 1000)
    expected = []
    for each in (starts := [one for one in _within(starts, start) if one < end]):
        until = min([*(one for one in starts if one > each), end])
        expected.append([format_ms(each), sum(max(each, start) <= run.started_at < until for run in RUNS)])
    window = f"BETWEEN '{format_ms(start)}' AND '{format_ms(end)}'"
    rows = answers(f"SELECT count(*) FROM runs EVERY {written} {window} {f'TIMEZONE {zone!r}' if zone else ''}")["rows"]
    assert rows == expected


def test_months_are_compared_with_what_was_before_each(answers: Ask) -> None:
    """Each bucket is compared with the same length of time, shifted back."""
    start, end, back = "2025-11-15T00:00:00Z", "2026-04-20T00:00:00Z", 200 * DAY_MS
    rows = answers(f"SELECT count(*) FROM runs EVERY 1mo COMPARE WITH 200d AGO BETWEEN '{start}' AND '{end}'")["rows"]
    bounds = [parse_iso(start), *(parse_iso(row[0]) for row in rows[1:]), parse_iso(end)]
    for (_, now, then), first, after in zip(rows, bounds, bounds[1:], strict=False):
        assert now == sum(first <= run.started_at < after for run in RUNS)
        assert then == sum(first - back <= run.started_at < after - back for run in RUNS)
    assert [row[0][:10] for row in rows] == [f"{month}-01" for month in ("2025-11", "2025-12", *_MONTHS_OF_2026[:4])]
    assert any(row[2] for row in rows)


_MONTHS_OF_2026 = [f"2026-{month:02}" for month in range(1, 13)]


@pytest.mark.parametrize(
    ("now", "window", "since"),
    [
        ("2026-03-31T12:00:00Z", "LAST 1mo", "2026-02-28T12:00:00.000Z"),
        ("2024-03-31T12:00:00Z", "LAST 1 month", "2024-02-29T12:00:00.000Z"),
        ("2024-02-29T12:00:00Z", "LAST 1y", "2023-02-28T12:00:00.000Z"),
        ("2026-01-15T00:00:00Z", "SINCE NOW - 13mo", "2024-12-15T00:00:00.000Z"),
        ("2026-04-15T10:00:00Z", "LAST 1mo TIMEZONE 'Europe/Berlin'", "2026-03-15T11:00:00.000Z"),
        ("2026-04-15T10:00:00Z", "SINCE 2 months ago UNTIL 1 month ago", "2026-02-15T10:00:00.000Z"),
        ("2026-04-15T10:00:00Z", "SINCE TODAY - 1mo TIMEZONE 'Europe/Berlin'", "2026-03-14T23:00:00.000Z"),
        ("2026-04-15T10:00:00Z", "WHERE time > NOW - 1mo", "2026-03-15T10:00:00.001Z"),
        ("2026-04-15T10:00:00Z", "WHERE time <= NOW - 1mo AND time >= '2026-03-01'", "2026-03-01T00:00:00.000Z"),
    ],
)
def test_a_month_before(client: Any, clock: Any, now: str, window: str, since: str) -> None:
    clock.set(now)
    answer = client.post("/api/v1/dsl", json={"query": f"SELECT count(*) FROM runs {window}"})
    start, _, end = answer.headers["X-Query-Window"].partition("/")
    assert start == since
    assert end != start


@pytest.mark.parametrize(
    ("statement", "column"),
    [
        ("SELECT id FROM runs WHERE duration_ms > 1mo LAST 1d", 41),
        ("SELECT count(*) FROM runs COMPARE WITH 1 month AGO LAST 1d", 40),
        ("SELECT count(*) FROM runs AROUND 'a' WITHIN 1y LAST 1d", 45),
        ("SELECT rate(count(*), 1mo) FROM runs LAST 1d", 23),
        ("SELECT histogram(duration_ms, 1mo) FROM runs LAST 1d", 31),
    ],
)
def test_a_month_has_no_fixed_length(ask: Ask, statement: str, column: int) -> None:
    error = ask(statement, 400)
    assert (error["error"], error["errors"]["query"][0]["column"]) == ("oql_bad_duration", column)


def test_too_many_months_are_refused(ask: Ask, app: Any) -> None:
    window = "BETWEEN '1970-01-01' AND '9999-06-01'"
    assert ask(f"SELECT count(*) FROM runs EVERY 1mo {window}", 422)["limit"] == "max_rows"
    assert ask("SELECT count(*) FROM runs EVERY 1mo LAST 9999y", 400)["error"] == "oql_bad_duration"
    assert ask("SELECT count(*) FROM runs LAST 99y", 400)["error"] == "oql_bad_time"
    last = "BETWEEN '9999-11-01' AND '9999-12-31T23:59:59Z'"
    assert ask(f"SELECT count(*) FROM runs EVERY 1mo {last}", 400)["error"] == "oql_bad_time"


@pytest.mark.parametrize("interval", ["15m", "30m", "1h"])
@pytest.mark.parametrize("days", ["25T22:00:00Z", "26T23:00:00Z"], ids=["the day itself", "the day after"])
def test_comparison_with_a_day_on_which_an_hour_occurs_twice(answers: Ask, interval: str, days: str) -> None:
    """Each bucket is compared with what the clocks showed a day before, and each earlier run counts once."""
    zone = ZoneInfo("Europe/Berlin")
    start = parse_iso(f"2025-10-{days}")
    end = parse_iso("2025-10-26T23:00:00Z") if days.startswith("25") else start + DAY_MS
    window = f"BETWEEN '{format_ms(start)}' AND '{format_ms(end)}'"
    rows = answers(f"SELECT count(*) FROM runs EVERY {interval} COMPARE WITH 1d AGO {window} TIMEZONE 'Europe/Berlin'")[
        "rows"
    ]
    length = INTERVALS[interval] * MINUTE_MS
    shown_then: dict[int, int] = defaultdict(int)
    for run in RUNS:
        if _local(start, zone) - DAY_MS <= _local(run.started_at, zone) < _local(end, zone) - DAY_MS:
            shown_then[_local(run.started_at, zone) // length] += 1
    seen = set()
    for t, _, previous in rows:
        label = (_local(parse_iso(t), zone) - DAY_MS) // length
        assert previous == (0 if label in seen else shown_then[label]), t
        seen.add(label)


@pytest.mark.parametrize("every", ["", "EVERY 1d", "EVERY 1h"])
def test_comparison_of_days_of_which_one_has_no_midnight(answers: Ask, write: Any, every: str) -> None:
    """In Cairo, 24 April 2026 began at 01:00. Whole days are compared with whole days, whichever of them it is."""
    midnights = [parse_iso(f"2026-04-{day}T{hour}:00Z") for day, hour in [(21, 22), (22, 22), (23, 22), (24, 21)]]
    runs = [sum(first <= run.started_at < end for run in RUNS) for first, end in pairwise(midnights)]
    first = (midnights[1] + 30 * MINUTE_MS,)  # in the hour that the next day does not have
    write(
        lambda db: db.execute("INSERT INTO runs (job_id, status, started_at, heartbeat_at) VALUES (1, 1, ?, 0)", first)
    )
    runs[1] += 1
    assert len(set(runs)) == 3
    for start, end in [(1, 3), (1, 2), (2, 3)]:
        window = f"BETWEEN '{format_ms(midnights[start])}' AND '{format_ms(midnights[end])}' TIMEZONE 'Africa/Cairo'"
        rows = answers(f"SELECT count(*) FROM runs {every} COMPARE WITH 1d AGO {window}")["rows"]
        assert sum(row[-2] for row in rows) == sum(runs[start:end])
        assert sum(row[-1] for row in rows) == sum(runs[start - 1 : end - 1])
        if every == "EVERY 1d":
            assert [row[2] for row in rows] == runs[start - 1 : end - 1]


@pytest.mark.parametrize("operator", ["<", "<=", ">", ">="])
@pytest.mark.parametrize("status", STATUSES)
def test_statuses_are_ordered_as_texts(answers: Ask, operator: str, status: str) -> None:
    compare = {"<": str.__lt__, "<=": str.__le__, ">": str.__gt__, ">=": str.__ge__}[operator]
    expected = sorted({run.status for run in RUNS if compare(run.status, status)})
    window = "SINCE '2025-09-01' UNTIL '2026-06-01'"
    rows = answers(f"SELECT count(*) FROM runs WHERE status {operator} '{status}' BY status {window}")["rows"]
    assert [row[0] for row in rows] == expected
    filtered = answers(f"SELECT count(*) FILTER (WHERE status {operator} '{status}') FROM runs {window}")["rows"]
    assert filtered == [[sum(compare(run.status, status) for run in RUNS)]]
    series = answers(f"SELECT count(*) FROM runs BY status EVERY 1w ORDER BY status DESC LIMIT 1 {window}")["rows"]
    assert series[0][1] == max(STATUSES)


@examples(0.03)
@given(
    top=st.integers(1, 12),
    limit=st.none() | st.integers(1, 12),
    by=st.sampled_from([("job", "status"), ("job",), ("status", "hour")]),
    order=st.sampled_from(["c DESC", "m", "m DESC, c", "-c", "max(duration_ms) - min(duration_ms) DESC"]),
    compared=st.booleans(),
)
@example(top=10, limit=None, by=("status", "hour"), order="max(duration_ms) - min(duration_ms) DESC", compared=True)
def test_top_chooses_the_largest_groups_whatever_the_order(
    answers: Ask, top: int, limit: int | None, by: tuple[str, ...], order: str, compared: bool
) -> None:
    groups: dict[tuple[Any, ...], list[Run]] = defaultdict(list)
    for run in RUNS:
        values = {"job": f"job-{run.job}", "status": run.status, "hour": run.started_at // HOUR_MS % 24}
        groups[tuple(values[each] for each in by)].append(run)
    measured = []
    for key, runs in sorted(groups.items()):
        durations = [run.duration_ms for run in runs if run.duration_ms is not None]
        measured.append((key, len(runs), sum(durations) / len(durations), max(durations) - min(durations)))
    chosen = sorted(measured, key=lambda each: -each[1])[:top]
    chosen.sort(key=lambda each: each[0])
    keys: dict[str, Callable[[Any], Any]] = {
        "c DESC": lambda each: -each[1],
        "m": lambda each: each[2],
        "m DESC, c": lambda each: (-each[2], each[1]),
        "-c": lambda each: -each[1],
        "max(duration_ms) - min(duration_ms) DESC": lambda each: -each[3],
    }
    chosen.sort(key=keys[order])
    names = ", ".join("hour(time)" if each == "hour" else each for each in by)
    compare = "COMPARE WITH 400d AGO" if compared else ""
    rows = answers(
        f"SELECT count(*) AS c, avg(duration_ms) AS m FROM runs BY {names} TOP {top} ORDER BY {order} {compare}"
        f" {'' if limit is None else f'LIMIT {limit}'} SINCE '2025-09-01' UNTIL '2026-06-01'"
    )["rows"]
    expected = [[*key, count, *([0] if compared else []), pytest.approx(mean)] for key, count, mean, _ in chosen]
    assert [row[:-1] if compared else row for row in rows] == expected[:limit]


@examples(0.03)
@given(
    left=st.decimals(-90_500, 90_500, places=3),
    right=st.decimals(-60, 60, places=3),
    form=st.sampled_from(["{} % {}", "{} * 1000 / 1000 % {}", "{} % ({} * 1000 / 1000)"]),
)
def test_fractions_keep_their_rest(answers: Ask, left: Any, right: Any, form: str) -> None:
    ((found,),) = answers(f"SELECT max({form.format(left, right)}) FROM runs SINCE '2025-09-01'")["rows"]
    if not right:
        assert found is None
    else:
        rest = abs(Fraction(left)) % abs(Fraction(right)) * (-1 if left < 0 else 1)
        near = abs(found - float(rest)) < 1e-6
        assert near or abs(abs(found - float(rest)) - abs(float(right))) < 1e-6, (found, float(rest))


def test_a_duration_that_was_divided_keeps_its_rest(answers: Ask) -> None:
    assert answers("SELECT max(90500ms / 1000 % 60) FROM runs SINCE '2025-09-01'")["rows"] == [[30.5]]
    durations = [run.duration_ms for run in RUNS if run.duration_ms is not None]
    ((found,),) = answers("SELECT avg(duration_ms) % 1000 FROM runs SINCE '2025-09-01'")["rows"]
    assert found == pytest.approx(sum(durations) / len(durations) % 1000)


def test_zero_is_never_negative(answers: Ask) -> None:
    rows = answers("SELECT round(-0.4), 0 * -1.5, ceil(-0.2) FROM runs LIMIT 1 SINCE '2025-09-01'")["rows"]
    assert [str(cell) for cell in rows[0]] in (["0.0", "0.0", "0"], ["0.0", "0.0", "0.0"])


@pytest.mark.parametrize(
    ("statement", "rows"),
    [
        ("SELECT count(*), sum(duration_ms) FROM runs WHERE job = 'none' BY job", []),
        ("SELECT count(*), sum(duration_ms), avg(duration_ms) FROM runs WHERE job = 'none'", [[0, None, None]]),
        ("SELECT count(*) FROM runs WHERE job = 'none' EVERY 1d", [["2026-01-01T00:00:00.000Z", 0]]),
        ("SELECT count(*) FROM runs WHERE job = 'none' BY job EVERY 1d", []),
        ("SELECT count(*) FROM runs WHERE job = 'none' BY job COMPARE WITH 1d AGO", []),
        ("SELECT count(*) FROM runs HAVING count(*) < 0", []),
    ],
)
def test_empty_groups(answers: Ask, statement: str, rows: list[Any]) -> None:
    answer = answers(f"{statement} BETWEEN '2026-01-01' AND '2026-01-02'")
    assert answer["rows"] == rows
    assert answer["output_type"] != "single_value" or len(rows) == 1


def test_a_result_without_its_row_is_a_table(answers: Ask) -> None:
    for clause in ("HAVING count(*) > 1000000", "LIMIT 0"):
        answer = answers(f"SELECT count(*) FROM runs {clause} SINCE '2025-09-01'")
        assert (answer["output_type"], answer["rows"]) == ("table", [])


def test_groups_can_be_ordered_and_chosen_by_what_changed(answers: Ask) -> None:
    middle = parse_iso("2025-10-26T01:00:00Z")
    statement = (
        "SELECT count(*) FILTER (WHERE status = 'failed') AS n FROM runs BY job COMPARE WITH 15h AGO"
        f" BETWEEN '{format_ms(middle)}' AND '{format_ms(middle + 10 * HOUR_MS)}'"
    )
    failed = [run for run in RUNS if run.status == "failed"]
    expected: list[Any] = []
    for job in (1, 2, 3):
        now, then = (
            sum(run.job == job and 0 <= run.started_at - start < 10 * HOUR_MS for run in failed)
            for start in (middle, middle - 15 * HOUR_MS)
        )
        expected.append([f"job-{job}", now, then])
    assert answers(statement)["rows"] == expected
    worse = sorted(expected, key=lambda row: row[2] - row[1])
    assert answers(f"{statement} ORDER BY n - n_previous DESC")["rows"] == worse
    assert (
        answers(f"{statement} ORDER BY n_change_pct LIMIT 2")["rows"]
        == sorted(expected, key=lambda row: (row[1] - row[2]) / row[2])[:2]
    )
    assert answers(f"{statement} HAVING n < n_previous")["rows"] == [row for row in expected if row[1] < row[2]]
