"""docs/oql.md agrees with the code."""

from collections.abc import Callable
from typing import Any

import pytest

from obs.query.language.functions import FUNCTIONS
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


def test_the_query_page_completes_every_function_and_keyword(client: Any) -> None:
    with client.get("/static/query.js") as response:
        script = response.text
    words = set(
        script[script.index("KEYWORDS =") : script.index("NAMES =")].replace('"', " ").replace("(", " ").split()
    )
    functions = {name for name in FUNCTIONS if not name.startswith("approx_")}
    assert functions | RESERVED | {"ESCAPE", "EXPLAIN", "DISTINCT", "TODAY"} <= words


def test_there_are_thirty_recipes() -> None:
    assert reference.PAGE.read_text().count("\n#### ") >= 30


@pytest.mark.usefixtures("shop")
def test_the_first_question_of_the_tutorial(ask: Ask) -> None:
    """Which jobs failed last night, in the organization of the tests."""
    answer = ask("SELECT job, time, exit_code FROM runs WHERE status IN ('failed', 'lost') LAST 12h")
    assert [row[0] for row in answer["rows"]] == ["report/weekly", "backup"]
