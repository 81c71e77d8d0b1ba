"""docs/oql.md agrees with the code."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from obs.query.language.scan import RESERVED
from tests.query import reference

Ask = Callable[..., dict[str, Any]]


@pytest.mark.parametrize("part", list(reference.parts()))
def test_the_reference_is_generated_from_the_code(part: str) -> None:
    """If this fails, run: python -m tests.query.reference"""
    found = reference.mark(part).search(reference.PAGE.read_text())
    assert found is not None
    assert found[0] == reference.parts()[part]


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize("statement", reference.statements())
def test_a_statement_of_the_page_can_be_answered(ask: Ask, statement: str) -> None:
    assert ask(statement)["columns"]


def test_the_query_page_completes_every_keyword(client: Any) -> None:
    with client.get("/static/query.js") as response:
        script = response.text
    keywords = script[script.index("KEYWORDS =") : script.index("FUNCTIONS =")]
    assert RESERVED | {"ESCAPE", "EXPLAIN", "DISTINCT", "TODAY"} <= set(re.findall(r"\w+", keywords))


def test_there_are_thirty_recipes() -> None:
    assert reference.PAGE.read_text().count("\n#### ") >= 30


@pytest.mark.usefixtures("shop")
def test_the_recipe_for_uptime_counts_the_part_of_each_incident_in_the_window(ask: Ask, write: Any) -> None:
    """From 2026-05-22 on, of: one that began before, one that lasts, a false alarm, and one that ended before."""
    rows = [
        (1, 0, "2026-05-20", "2026-05-25", None),
        (1, 0, "2026-06-18", None, "right"),
        (1, 1, "2026-05-24", "2026-05-26", None),
        (1, 0, "2026-06-02", "2026-06-04", "false_alarm"),
        (2, 1, "2026-05-01", "2026-05-22", None),
    ]
    add = (
        "INSERT INTO incidents (job_id, kind, started_at, ended_at, verdict, annotation_id)"
        " VALUES (?1, ?2, unixepoch(?3 || ' 10:00') * 1000, unixepoch(?4 || ' 10:00') * 1000, ?5, 0)"
    )
    write(lambda db: db.executemany(add, rows))
    (recipe,) = [one for one in reference.statements() if "uptime_pct" in one]
    assert ask(recipe)["rows"] == [["backup", pytest.approx(100 - 100 * (4 + 3) / 30)]]


@pytest.mark.usefixtures("shop")
def test_the_first_question_of_the_tutorial(ask: Ask) -> None:
    """Which jobs failed last night, in the organization of the tests."""
    answer = ask("SELECT job, time, exit_code FROM runs WHERE status IN ('failed', 'lost') LAST 12h")
    assert [row[0] for row in answer["rows"]] == ["report/weekly", "backup"]
