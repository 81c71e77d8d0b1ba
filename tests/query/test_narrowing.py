"""Where the rollups know that few rows are asked for, only these are read."""

from functools import partial
from typing import Any

import pytest
from flask import Flask

from obs.times import HOUR_MS, parse_iso
from tests.query.conftest import Ask, Write, execute, explained, roll_up_all


@pytest.mark.usefixtures("history")
def test_only_the_groups_of_top_are_read(app: Flask, ask: Ask, client: Any) -> None:
    client.post("/api/v1/heartbeat/mail/end?time=2026-06-20T08:20:00Z&duration_ms=1000")
    statement = "SELECT count(*) FROM runs BY job EVERY 12h TOP 1 LAST 60h"
    before = ask(statement)["rows"]
    assert {row[1] for row in before} == {"mail"}
    assert sum(row[2] for row in before) == 361
    roll_up_all(app)
    explained = dict(ask(f"EXPLAIN {statement}")["rows"])
    assert explained["groups"] == "1 with the largest values over the window, which are read first"
    assert "backup" not in explained["parameters"]
    assert ask(statement)["rows"] == before


@pytest.mark.usefixtures("history")
@pytest.mark.parametrize(
    ("condition", "hours", "count"),
    [
        ("duration_ms > 2424", ["21T08", "21T09"], 7),
        ("duration_ms > 2424.5 AND status = 'success'", ["21T08", "21T09"], 6),
        ("job = 'mail' AND duration_ms >= 2431", ["21T09"], 1),
        ("duration_ms > 2431", None, 0),
        ("duration_ms < 1075 AND status = 'success'", ["18T22"], 3),
        ("duration_ms <= 999", None, 0),
        ("(duration_ms > 2425 OR job = 'mail')", [], 360),
    ],
)
def test_runs_above_a_threshold_are_read_from_the_hours_that_have_them(
    app: Flask, ask: Ask, condition: str, hours: list[str] | None, count: int
) -> None:
    statement = f"SELECT job, duration_ms FROM runs WHERE {condition} LAST 60h"
    before = ask(statement)["rows"]
    assert (len(before), explained(ask, statement)) == (count, [])
    roll_up_all(app)
    assert ask(statement)["rows"] == before
    parts = "".join(explained(ask, statement)).partition("the rows of ")[2].split(", ")
    read = [part for part in parts if part and len(set(part.split("/"))) == 2]
    if hours is None:
        assert (len(parts), read) == (1, [])
    else:
        spans = [[parse_iso(end) for end in part.split("/")] for part in read]
        assert spans == [[start, start + HOUR_MS] for start in (parse_iso(f"2026-06-{hour}:00:00Z") for hour in hours)]


@pytest.mark.usefixtures("history")
def test_rare_rows_are_read_from_the_times_that_have_them(app: Flask, ask: Ask, write: Write) -> None:
    statement = "SELECT job, duration_ms FROM runs WHERE exit_code = 7 AND status = 'success' LAST 60h"
    write(partial(execute, sql="UPDATE runs SET exit_code = 7 WHERE duration_ms IN (2400, 2401, 2408)"))
    roll_up_all(app)
    assert explained(ask, statement) == ["only 2 times of jobs"]
    assert ask(statement)["rows"] == [["mail", 2400], ["mail", 2401], ["mail", 2408]]
    assert ask(statement.replace("= 7", "= 8"))["rows"] == []
    latest = statement.replace("LAST", "ORDER BY time DESC LIMIT 2 LAST")
    assert explained(ask, latest) == []  # these are found first
    assert ask(latest)["rows"] == [["mail", 2408], ["mail", 2401]]


@pytest.mark.usefixtures("history")
def test_common_rows_are_not_read_one_time_after_the_other(app: Flask, ask: Ask, write: Write) -> None:
    """Reading one of these times takes as long as reading thirty rows, and there are 720."""
    statement = "SELECT job, duration_ms FROM runs WHERE exit_code = 7 LAST 60h"
    for shortest, expected in ((2290, ["only 24 times of jobs"]), (2284, [])):
        write(partial(execute, sql=f"UPDATE runs SET exit_code = 7 WHERE duration_ms >= {shortest}"))
        roll_up_all(app)
        assert explained(ask, statement) == expected


@pytest.mark.usefixtures("history")
def test_hours_are_not_chosen_while_many_rows_are_not_rolled_up(
    app: Flask, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after an update that rolls up all hours again, the latest day first."""
    statement = "SELECT job, duration_ms FROM runs WHERE duration_ms > 2424 LAST 60h"
    roll_up_all(app)
    before = ask(statement)["rows"]
    for rows, is_chosen in ((13, True), (12, False)):  # twelve runs began in the last hour, which is not rolled up yet
        monkeypatch.setattr("obs.query.execution.narrow.MANY_ROWS", rows)
        assert bool(explained(ask, statement)) == is_chosen
        assert ask(statement)["rows"] == before


@pytest.mark.usefixtures("history")
def test_the_slowest_runs_are_read_from_the_hours_that_have_them(app: Flask, ask: Ask) -> None:
    statement = "SELECT job, duration_ms FROM runs ORDER BY duration_ms DESC LIMIT 3 LAST 60h"
    before = ask(statement)["rows"]
    assert explained(ask, statement) == []
    roll_up_all(app)
    hour = "2026-06-21T{:02}:00:00.000Z/2026-06-21T{:02}:00:00.000Z"
    hours = ", ".join(hour.format(each, each + 1) for each in (7, 8, 9))
    assert explained(ask, statement) == [f"only hours that have such rows: the rows of {hours}"]
    assert ask(statement)["rows"] == before == [["mail", 2431], ["mail", 2430], ["mail", 2429]]
    # Each hour has one largest value, and there are 61.
    assert explained(ask, statement.replace("LIMIT 3", "LIMIT 62")) == []
    assert len(ask(statement.replace("LIMIT 3", "LIMIT 62"))["rows"]) == 62
    # Without a value, a row is not among these, however few they are.
    few = statement.replace("FROM runs", "FROM runs WHERE duration_ms > 2429")
    assert explained(ask, few) == [f"only hours that have such rows: the rows of {hour.format(9, 10)}"]
    assert ask(few)["rows"] == [["mail", 2431], ["mail", 2430]]
    same = few.replace("SELECT job, duration_ms", "SELECT job, duration_ms / 1000.0 AS s").replace(
        "BY duration_ms", "BY s"
    )
    assert explained(ask, same) == explained(ask, few)
    assert ask(same)["rows"] == [["mail", 2.431], ["mail", 2.43]]
    good = few.replace("WHERE", "WHERE status = 'success' AND").replace("LIMIT 3", "LIMIT 2 OFFSET 1")
    assert (len(explained(ask, good)), ask(good)["rows"]) == (1, [["mail", 2430]])
    none = statement.replace("FROM runs", "FROM runs WHERE duration_ms > 2431")
    assert (len(explained(ask, none)), ask(none)["rows"]) == (1, [])


@pytest.mark.usefixtures("history")
def test_the_quickest_runs_are_read_from_the_hours_that_have_them_where_all_runs_have_a_duration(
    app: Flask, ask: Ask, write: Write
) -> None:
    statement = "SELECT job, duration_ms FROM runs WHERE status = 'success' ORDER BY duration_ms LIMIT 3 LAST 60h"
    before = ask(statement)["rows"]
    assert explained(ask, statement) == []
    roll_up_all(app)
    assert explained(ask, statement)[0].startswith("only hours that have such rows")
    assert ask(statement)["rows"] == before
    few = statement.replace("WHERE", "WHERE duration_ms < 1000000 AND")
    assert (explained(ask, few), ask(few)["rows"]) == (explained(ask, statement), before)
    assert [row[1] for row in before] == sorted(row[1] for row in before)
    write(partial(execute, sql="UPDATE runs SET duration_ms = NULL WHERE id % 400 = 7 AND status = 1"))
    roll_up_all(app)
    assert explained(ask, statement) == []
    assert ask(statement)["rows"][0][1] is None
