"""SHOW lists sources and columns, and EXPLAIN says how a statement is answered."""

from collections.abc import Callable
from typing import Any

import pytest

Ask = Callable[..., dict[str, Any]]
pytestmark = pytest.mark.usefixtures("shop")


def test_show_sources(ask: Ask) -> None:
    answer = ask("SHOW SOURCES")
    assert (answer["output_type"], answer["columns"]) == ("table", ["source", "row", "time"])
    assert [row[0] for row in answer["rows"]] == [
        "runs",
        "events",
        "logs",
        "jobs",
        "incidents",
        "deliveries",
        "annotations",
        "audit",
    ]


def test_show_columns(ask: Ask) -> None:
    answer = ask("SHOW COLUMNS FROM runs")
    assert answer["columns"] == ["column", "type", "description"]
    assert answer["rows"][0] == ["time", "time", "its start"]
    assert ["duration_ms", "duration", "How long it took."] in answer["rows"]


def test_explain_describes_the_query(ask: Ask) -> None:
    answer = ask("EXPLAIN SELECT count(*) FROM runs WHERE job = 'mail' EVERY 1h LAST 3h")
    assert (answer["output_type"], answer["columns"]) == ("table", ["what", "text"])
    said = dict(answer["rows"])
    assert said["window"] == "2026-06-21T07:00:00.000Z/2026-06-21T10:00:00.000Z"
    assert "mail" not in said["sql"]
    assert '"mail"' in said["parameters"]
    assert "runs_job" in " ".join(text for what, text in answer["rows"] if what == "plan")


@pytest.mark.parametrize(
    "clauses",
    [
        "BY job HAVING n_change_pct > 0 COMPARE WITH 1h AGO",
        "BY job ORDER BY n_previous DESC LIMIT 1 COMPARE WITH 1h AGO",
        "HAVING n_after > n_before AROUND 'deploy/' WITHIN 1h",
        "BY job EVERY 1h ORDER BY t DESC LIMIT 1 OFFSET 1",
    ],
)
def test_explain_shows_the_sql_that_runs_before_the_rows_are_put_together(ask: Ask, clauses: str) -> None:
    said = dict(ask(f"EXPLAIN SELECT count(*) AS n FROM runs {clauses} LAST 3h")["rows"])
    assert "HAVING" not in said["sql"]
    assert "OFFSET" not in said["sql"]
    assert " DESC" not in said["sql"]


def test_explain_shows_what_around_reads(ask: Ask) -> None:
    said = ask("EXPLAIN SELECT count(*) FROM runs AROUND 'deploy/' WITHIN 6h LAST 3d")["rows"]
    of_annotations, of_runs = [text for what, text in said if what == "sql"]
    assert "FROM annotations" in of_annotations
    assert "FROM runs" in of_runs
    assert ["around", "the rows of 6h before each annotation, and of 6h after it, instead of the window"] in said


def test_explain_shows_both_windows_that_are_compared(ask: Ask) -> None:
    said = ask("EXPLAIN SELECT count(*) FROM runs COMPARE WITH 1h AGO LAST 1h")["rows"]
    windows = [text for what, text in said if what == "window"]
    assert windows == [
        "2026-06-21T09:00:00.000Z/2026-06-21T10:00:00.000Z",
        "2026-06-21T08:00:00.000Z/2026-06-21T09:00:00.000Z",
    ]


@pytest.mark.parametrize(
    ("time", "window", "is_written_out"),
    [("time", "LAST 1y", True), ("ended_at", "LAST 1y", True), ("time", "LAST 9y", False)],
)
def test_the_clock_changes_of_a_window_are_written_into_the_sql(
    ask: Ask, time: str, window: str, is_written_out: bool
) -> None:
    """A function of Python for each row takes longer."""
    said = dict(
        ask(f"EXPLAIN SELECT count(*) FROM runs WHERE hour({time}) = 3 {window} TIMEZONE 'Europe/Berlin'")["rows"]
    )
    assert ("CASE" in said["sql"]) is is_written_out
