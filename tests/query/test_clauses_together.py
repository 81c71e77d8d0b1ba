"""HAVING, FILL, COMPARE WITH, TOP, ORDER BY, LIMIT and OFFSET together mean what a few lines of Python say."""

import sqlite3
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given, strategies as st

from obs.heartbeat.runs import STATUSES
from obs.times import DAY_MS, HOUR_MS, MINUTE_MS, format_ms, parse_iso
from tests.query.test_any_statement import examples

Ask = Callable[..., dict[str, Any]]
Row = dict[str, Any]

START = parse_iso("2026-06-18T00:00:00Z")
HOSTS = (None, "db1", "web1")
GROUPS = ("job", "status", "host")


class Run(NamedTuple):
    time: int
    job: str
    status: str
    host: str | None
    duration_ms: int | None


def _runs() -> list[Run]:
    """For two days, a run about every 20 minutes, with gaps of hours."""
    runs = []
    for number in range(150):
        moment = START + number * 19 * MINUTE_MS
        if moment // (5 * HOUR_MS) % 3:
            duration = None if number % 4 == 0 else number * 7_919 % 97 * 1_000
            status = STATUSES[number * 7 % 5 % 4]
            runs.append(Run(moment, f"job-{number * 3 % 7 % 3}", status, HOSTS[number % 5 % 3], duration))
    return runs


RUNS = _runs()

MOMENTS = [START + hours * HOUR_MS for hours in (30, 25, 31, 37, 38, 2, 46)]
"""Of annotations: an incident, and then deploys."""


class Statement(NamedTuple):
    by: tuple[str, ...]
    hours: int
    every: int
    fill: str
    back: int
    having: str
    order: tuple[str, ...]
    top: int | None
    limit: int | None
    offset: int

    def __str__(self) -> str:
        clauses = [
            ("BY", ", ".join(self.by)),
            ("EVERY", f"{self.every}h" if self.every else ""),
            ("FILL", self.fill if self.every else ""),
            ("COMPARE WITH", f"{self.back}h AGO" if self.back else ""),
            ("HAVING", self.having),
            ("ORDER BY", ", ".join(self.order)),
            ("TOP", str(self.top or "") if self.by else ""),
            ("LIMIT", "" if self.limit is None else str(self.limit)),
            ("OFFSET", str(self.offset or "")),
            ("SINCE", f"'{format_ms(START + DAY_MS)}' UNTIL '{format_ms(START + DAY_MS + self.hours * HOUR_MS)}'"),
        ]
        written = " ".join(f"{name} {text}" for name, text in clauses if text)
        # The groups are listed in another order than in BY.
        columns = ["count(*) AS n", "max(duration_ms) AS d", *reversed(self.by)]
        return f"SELECT {', '.join(columns)} FROM runs {written}"


def _greater(row: Row, left: str, right: str) -> bool:
    return None not in (row[left], row[right]) and row[left] > row[right]


HAVING: dict[str, Callable[[Row], bool]] = {
    "": lambda row: True,
    "n > 1": lambda row: row["n"] > 1,
    "n = 0": lambda row: row["n"] == 0,
    "d > 30s": lambda row: row["d"] is not None and row["d"] > 30_000,
    "d IS NULL": lambda row: row["d"] is None,
    "NOT d > 30s": lambda row: row["d"] is not None and row["d"] <= 30_000,
    "min(duration_ms) < 20s": lambda row: row["least"] is not None and row["least"] < 20_000,
}
HAVING_COMPARED: dict[str, Callable[[Row], bool]] = {
    "n_previous > n": lambda row: _greater(row, "n_previous", "n"),
    "n_previous = 0": lambda row: row["n_previous"] == 0,
    "d > d_previous": lambda row: _greater(row, "d", "d_previous"),
    "d_previous IS NULL AND n > 0": lambda row: row["d_previous"] is None and row["n"] > 0,
}
ORDERS: dict[str, Callable[[Row], Any]] = {
    "n": lambda row: row["n"],
    "d DESC": lambda row: row["d"],
    "-n": lambda row: None if row["n"] is None else -row["n"],
    "min(duration_ms)": lambda row: row["least"],
}


def _measured(runs: list[Run]) -> Row:
    durations = [run.duration_ms for run in runs if run.duration_ms is not None]
    return {"n": len(runs), "d": max(durations, default=None), "least": min(durations, default=None)}


def _rank(value: Any) -> tuple[bool, Any]:
    """Nulls are the smallest values."""
    return value is not None, value


def _largest(groups: list[Row], count: int, statement: Statement) -> list[Row]:
    """The groups with the largest counts; of equal ones, the first."""
    groups.sort(key=lambda row: [_rank(row[name]) for name in statement.by])
    groups.sort(key=lambda row: row["n"], reverse=True)
    return groups[:count]


def _cells(statement: Statement, back_ms: int) -> dict[tuple[int, tuple[Any, ...]], Row]:
    """What the runs of each bucket and group measure, `back_ms` before the window."""
    runs: dict[Any, list[Run]] = {}
    for run in RUNS:
        moment = run.time + back_ms
        if START + DAY_MS <= moment < START + DAY_MS + statement.hours * HOUR_MS:
            length = (statement.every or 10_000) * HOUR_MS
            start = moment - moment % length if statement.every else 0
            runs.setdefault((start, tuple(getattr(run, name) for name in statement.by)), []).append(run)
    if not statement.by and not statement.every:
        runs.setdefault((0, ()), [])
    return {key: _measured(found) for key, found in runs.items()}


def _keys(statement: Statement, now: Any, then: Any) -> Iterator[tuple[int, tuple[Any, ...]]]:
    seen = set(now) if statement.top is not None else {*now, *then}
    if not statement.every or statement.fill == "NONE":
        yield from seen
        return
    length = statement.every * HOUR_MS
    first = (START + DAY_MS) // length * length
    groups = {group for _, group in seen} if statement.by else {()}
    yield from product(range(first, START + DAY_MS + statement.hours * HOUR_MS, length), groups)


def _filled(statement: Statement, rows: list[Row], read: Any, suffix: str) -> None:
    last: dict[Any, tuple[Any, ...]] = {}
    names = [name + suffix for name in ("n", "d", "least")]
    for row in sorted(rows, key=lambda row: row["t"]):
        group = tuple(row[name] for name in statement.by)
        if (row["t"], group) not in read:
            none = (None, None, None)
            fill = {"PREVIOUS": last.get(group, none), "NULL": none, "7": (7, 7, 7)}[statement.fill]
            row |= zip(names, fill, strict=True)
        last[group] = tuple(row[name] for name in names)


def expected(statement: Statement) -> list[list[Any]]:
    now, then = _cells(statement, 0), _cells(statement, statement.back * HOUR_MS) if statement.back else {}
    if statement.top is not None and statement.every:
        cells = _cells(statement._replace(every=0), 0)
        whole = [dict(zip(statement.by, group, strict=True)) | cell for (_, group), cell in cells.items()]
        chosen = _largest(whole, statement.top, statement)
        groups = {tuple(row[name] for name in statement.by) for row in chosen}
        now = {key: cell for key, cell in now.items() if key[1] in groups}
    rows = []
    for start, group in _keys(statement, now, then):
        row = {"t": start} | dict(zip(statement.by, group, strict=True)) | now.get((start, group), _measured([]))
        row |= {f"{name}_previous": value for name, value in then.get((start, group), _measured([])).items()}
        if (HAVING | HAVING_COMPARED)[statement.having](row):
            rows.append(row)
    if statement.every and statement.fill not in ("", "NONE"):
        _filled(statement, rows, now, "")
        _filled(statement, rows, then, "_previous")
    rows.sort(key=lambda row: (row["t"], [_rank(row[name]) for name in statement.by]))
    if statement.top is not None and not statement.every:
        chosen = _largest(list(rows), statement.top, statement)
        rows = [row for row in rows if row in chosen] if statement.order else chosen
    for order in reversed(statement.order):
        rows.sort(key=lambda row: _rank(ORDERS[order](row)), reverse=order.endswith("DESC"))
    rows = rows[statement.offset :][: statement.limit]
    rows.sort(key=lambda row: row["t"])
    return [_shown(statement, row) for row in rows]


def _shown(statement: Statement, row: Row) -> list[Any]:
    names = [name + suffix for name in ("n", "d") for suffix in (("", "_previous") if statement.back else ("",))]
    cells = [row[name] for name in (*names, *reversed(statement.by))]
    return [format_ms(row["t"]), *cells] if statement.every else cells


@st.composite
def statements(draw: st.DrawFn) -> Statement:
    back = draw(st.sampled_from([0, 5, 12, 24]))
    by = draw(st.lists(st.sampled_from(GROUPS), unique=True, max_size=2).map(tuple))
    return Statement(
        by=by,
        hours=draw(st.sampled_from([1, 7, 23])),
        every=draw(st.sampled_from([0, 1, 4])),
        fill=draw(st.sampled_from(["", "NONE", "NULL", "PREVIOUS", "7"])),
        back=back,
        having=draw(st.sampled_from([*HAVING, *(HAVING_COMPARED if back else ())])),
        order=draw(st.lists(st.sampled_from(sorted(ORDERS)), max_size=2).map(tuple)),
        top=draw(st.none() | st.integers(1, 4)) if by else None,
        limit=draw(st.none() | st.integers(0, 9)),
        offset=draw(st.sampled_from([0, 0, 1, 5])),
    )


_COMPARED = Statement((), 7, 1, "7", 24, "", (), None, None, 0)


@pytest.fixture
def app(make_app: Any) -> Any:
    return make_app(QUERY_RATE_PER_MINUTE=10**9)


@pytest.fixture
def answers(write: Any, ask: Ask) -> Ask:
    def fill(db: sqlite3.Connection) -> None:
        db.executemany("INSERT INTO attributions (id, host) VALUES (?, ?)", [(1, HOSTS[1]), (2, HOSTS[2])])
        db.executemany(
            "INSERT INTO jobs (id, name, created_at, last_heartbeat_at, last_event_id) VALUES (?, ?, 0, 0, 0)",
            [(number, f"job-{number}") for number in range(3)],
        )
        db.executemany(
            "INSERT INTO runs (job_id, status, started_at, duration_ms, attribution_id, heartbeat_at)"
            " VALUES (?, ?, ?, ?, ?, 0)",
            [
                (int(run.job[-1]), STATUSES.index(run.status), run.time, run.duration_ms, HOSTS.index(run.host) or None)
                for run in RUNS
            ],
        )

        db.executemany(
            "INSERT INTO annotations (name, title, start_time, created_at, updated_at) VALUES (?, ?, ?, 0, 0)",
            [("deploy/web" if title else "incident", f"v{title}", moment) for title, moment in enumerate(MOMENTS)],
        )

    write(fill)
    return ask


@examples(0.3)
@given(statements())
@example(_COMPARED._replace(having="n = 0"))
@example(_COMPARED._replace(having="n > 1"))
@example(_COMPARED._replace(having="n_previous = 0"))
@example(_COMPARED._replace(fill="PREVIOUS", having="d > 30s", by=("job",)))
@example(Statement(("status", "host"), 23, 0, "", 12, "", (), None, 4, 0))
@example(Statement(("status", "host"), 23, 4, "", 0, "", (), None, 4, 0))
@example(Statement(("job", "host"), 23, 0, "", 0, "", (), 4, None, 1))
def test_clauses_together(answers: Ask, statement: Statement) -> None:
    assert answers(str(statement))["rows"] == expected(statement), str(statement)


@pytest.mark.parametrize(
    ("statement", "order"),
    [
        ("SELECT min(time) AS n, job FROM runs BY job ORDER BY {}", "1 DESC"),
        ("SELECT min(time) AS n FROM runs BY job ORDER BY {}", "2 DESC"),
        ("SELECT min(time) AS n FROM runs BY job ORDER BY {} COMPARE WITH 1h AGO", "3 DESC"),
        ("SELECT min(time) AS n FROM runs BY job EVERY 1d FILL NONE ORDER BY {} LIMIT 2", "3"),
        ("SELECT min(time) AS n FROM runs EVERY 1h ORDER BY {} LIMIT 3", "1 DESC"),
        ("SELECT * FROM runs ORDER BY {}", "4 DESC"),
    ],
)
def test_a_number_in_order_by_is_a_column_of_the_result(answers: Ask, statement: str, order: str) -> None:
    window = "SINCE '2026-06-18' UNTIL '2026-06-20'"
    columns = answers(f"{statement.format(1)} {window}")["columns"]
    number, *descending = order.split()
    named = answers(f"{statement.format(' '.join([columns[int(number) - 1], *descending]))} {window}")
    assert answers(f"{statement.format(order)} {window}") == named
    assert answers(f"{statement.format('1')} {window}") != named


HAVING_AROUND: dict[str, Callable[[Row], bool]] = {
    "": lambda row: True,
    "n_after > n_before": lambda row: row["n_after"] > row["n_before"],
    "d_change_pct > 0": lambda row: row["d_change_pct"] is not None and row["d_change_pct"] > 0,
    "NOT d_before > 50s": lambda row: row["d_before"] is not None and row["d_before"] <= 50_000,
    "title > 'v2'": lambda row: row["title"] > "v2",
}
ORDERS_AROUND: dict[str, Callable[[Row], Any]] = {
    "n_before": lambda row: row["n_before"],
    "d_change_pct DESC": lambda row: row["d_change_pct"],
    "title DESC": lambda row: row["title"],
    "4": lambda row: row["n_before"],
}


def _change_pct(before: int | None, after: int | None) -> float | None:
    return None if after is None or not before else (after - before) / before * 100


@examples(0.1)
@given(
    hours=st.integers(1, 7),
    having=st.sampled_from(sorted(HAVING_AROUND)),
    orders=st.lists(st.sampled_from(sorted(ORDERS_AROUND)), max_size=2),
    limit=st.none() | st.integers(0, 6),
    offset=st.integers(0, 2),
    until=st.integers(25, 50),
)
def test_clauses_together_with_around(
    answers: Ask, hours: int, having: str, orders: list[str], limit: int | None, offset: int, until: int
) -> None:
    rows = []
    for title, moment in list(enumerate(MOMENTS))[1:]:
        if DAY_MS <= moment - START < until * HOUR_MS:
            row: Row = {"time": moment, "title": f"v{title}"}
            for side, first in (("before", moment - hours * HOUR_MS), ("after", moment)):
                runs = [run for run in RUNS if run.job == "job-1" and first <= run.time < first + hours * HOUR_MS]
                row |= {f"{name}_{side}": value for name, value in _measured(runs).items()}
            row |= {f"{name}_change_pct": _change_pct(row[f"{name}_before"], row[f"{name}_after"]) for name in "nd"}
            rows.append(row)
    rows = sorted(filter(HAVING_AROUND[having], rows), key=lambda row: row["time"])
    for order in reversed(orders):
        rows.sort(key=lambda row: _rank(ORDERS_AROUND[order](row)), reverse=order.endswith("DESC"))
    names = [f"{name}_{side}" for name in "nd" for side in ("before", "after", "change_pct")]
    shown = [
        [format_ms(row["time"]), "deploy/web", row["title"], *(pytest.approx(row[name]) for name in names)]
        for row in rows[offset:][:limit]
    ]
    clauses = [
        f"HAVING {having}" if having else "",
        f"ORDER BY {', '.join(orders)}" if orders else "",
        "" if limit is None else f"LIMIT {limit}",
        f"OFFSET {offset}" if offset else "",
    ]
    statement = (
        f"SELECT count(*) AS n, max(duration_ms) AS d FROM runs WHERE job = 'job-1' AROUND 'deploy' WITHIN {hours}h"
        f" {' '.join(clauses)} SINCE '{format_ms(START + DAY_MS)}' UNTIL '{format_ms(START + until * HOUR_MS)}'"
    )
    assert answers(statement)["rows"] == shown, statement
