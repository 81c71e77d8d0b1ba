"""The errors for statements that cannot be answered."""

import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from obs.query.language.errors import OqlError
from obs.query.language.grammar import parse
from obs.query.language.scan import MOST_LEVELS

Ask = Callable[..., dict[str, Any]]


# a statement with the wrong part between « and », the error code, some of what is expected, the first suggestion
ERRORS = [
    ("SELECT «duration_mss» FROM runs LAST 1d", "oql_unknown_column", ["duration_ms"], "duration_ms"),
    ("SELECT count(*) FROM runs WHERE «stauts» = 'x' LAST 1d", "oql_unknown_column", ["status"], "status"),
    ("SELECT count(*) FROM «run» LAST 1d", "oql_unknown_source", ["runs", "events"], "runs"),
    ("SELECT «cuont»(*) FROM runs LAST 1d", "oql_unknown_function", ["count", "avg"], "count"),
    ("SELECT avg(«status») FROM runs LAST 1d", "oql_type_mismatch", ["a number or a duration"], None),
    ("SELECT count(*) FROM runs WHERE «status» LAST 1d", "oql_type_mismatch", ["a condition"], None),
    ("SELECT «rate»(count(*)) FROM runs LAST 1d", "oql_type_mismatch", [], None),
    ("SELECT rate(«duration_ms», 1h) FROM runs LAST 1d", "oql_type_mismatch", ["an aggregate"], None),
    ("SELECT rate(«rate(count(*), 1m)», 1h) FROM runs LAST 1d", "oql_type_mismatch", ["an aggregate"], None),
    ("SELECT count(*) FROM runs WHERE exit_code = «'one'» LAST 1d", "oql_type_mismatch", [], None),
    ("SELECT count(*) FROM runs WHERE exit_code = «NULL» LAST 1d", "oql_type_mismatch", [], None),
    ("SELECT count(*) FROM runs WHERE id = «99999999999999999999» LAST 1d", "oql_type_mismatch", [], None),
    ("SELECT count(*) FROM runs WHERE job = 'a' OR «'b'» LAST 1d", "oql_type_mismatch", ["a condition"], None),
    ("SELECT job FROM runs WHERE «startsWith»(job, 'b') LAST 1d", "oql_unknown_function", [], None),
    ("SELECT job FROM runs WHERE host «\u0131s» null LAST 1d", "oql_syntax", ["AND"], None),
    ("SELECT job FROM runs WHERE job «l\u0131ke» 'b%' LAST 1d", "oql_syntax", ["LIKE"], "LIKE"),
    ("SELECT job FROM runs WHERE job «\u0131n» ('mail') LAST 1d", "oql_syntax", ["IN"], None),
    ("SELECT job FROM runs WHERE job «\u017ftarts» with 'b' LAST 1d", "oql_syntax", ["STARTS"], "STARTS"),
    ("SELECT job FROM runs ORDER BY time «de\u017fc» LAST 1d", "oql_syntax", ["DESC"], "DESC"),
    ("SELECT d\u0131st\u0131nct «job» FROM runs LAST 1d", "oql_syntax", ["FROM"], None),
    ("«EXPLA\u0131N» SELECT job FROM runs LAST 1d", "oql_syntax", ["EXPLAIN"], None),
    ("SELECT count(*) FROM runs EVERY 5m FILL «PREV\u0131OUS» LAST 3h", "oql_syntax", ["PREVIOUS"], "PREVIOUS"),
    ("SELECT count(*) FROM runs SINCE «ye\u017fterday»", "oql_syntax", ["TODAY"], None),
    ("SELECT count(*) FROM runs COMPARE WITH «1mo» AGO LAST 1d", "oql_bad_duration", ["a duration"], None),
    ("SELECT count(*) FROM runs WHERE time > NOW - «'soon'»", "oql_bad_duration", ["a duration"], None),
    ("SELECT sum(«n») AS s, count(*) AS n FROM runs LAST 1d", "oql_unknown_column", [], None),
    ("SELECT count(*) AS n, sum(«n») FROM runs LAST 1d", "oql_syntax", [], None),
    ("SELECT count(*) FROM runs«»", "oql_no_time_window", ["LAST", "BETWEEN", "SINCE"], None),
    ("SELECT count(*) FROM runs LAST 1h «LAST» 2h", "oql_duplicate_clause", [], None),
    ("SELECT count(*) FROM runs LAST 1h «SINCE» NOW", "oql_duplicate_clause", [], None),
    ("SELECT count(*) FROM runs LIMIT 1 LAST 1h «LIMIT» 2", "oql_duplicate_clause", [], None),
    ("SELECT count(*), «count(*)» FROM runs LAST 1d", "oql_duplicate_column", [], None),
    ("SELECT count(*) AS «t» FROM runs EVERY 1h LAST 1d", "oql_duplicate_column", [], None),
    ("SELECT «job», count(*) FROM runs LAST 1d", "oql_not_grouped", ["an aggregate"], None),
    ("SELECT «job» FROM runs EVERY 1h LAST 1d", "oql_not_grouped", ["an aggregate"], None),
    ("SELECT count(*) FROM runs LAST «5 parsecs»", "oql_bad_duration", ["a duration"], None),
    ("SELECT count(*) FROM runs LAST «0s»", "oql_bad_duration", ["a duration"], None),
    ("SELECT count(*) FROM runs LAST «99999w»", "oql_bad_duration", ["a duration"], None),
    ("SELECT count(*) FROM runs EVERY «1.5h» LAST 1d", "oql_bad_duration", ["a duration"], None),
    ("SELECT count(*) FROM runs SINCE «'gestern'»", "oql_bad_time", ["a time"], None),
    ("SELECT count(*) FROM runs BETWEEN '2026-06-02' AND «'2026-06-01'»", "oql_bad_time", [], None),
    ("SELECT count(*) FROM runs LAST 1d TIMEZONE «'Europe/Berlim'»", "oql_bad_timezone", [], "Europe/Berlin"),
    ("SELECT count(*) FROM runs «WHER» status = 'x' LAST 1d", "oql_syntax", ["WHERE", "LAST", "the end"], "WHERE"),
    ("«SELEKT» count(*) FROM runs", "oql_syntax", ["SELECT"], "SELECT"),
    ("SELECT count(*) «runs» LAST 1d", "oql_syntax", ["FROM"], None),
    ("SELECT count(* «FROM» runs LAST 1d", "oql_syntax", [")"], None),
    ("SELECT count(*) FROM runs WHERE status = «LAST» 1d", "oql_syntax", ["a text in single quotes"], None),
    ("SELECT count(*) FROM runs WHERE status =«>» 'x' LAST 1d", "oql_syntax", ["a text in single quotes"], None),
    ("SELECT count(*) FROM runs WHERE job = «'x LAST 1d", "oql_syntax", ["'"], None),
    ("SELECT count(*) FROM runs LAST«»", "oql_syntax", ["a duration"], None),
    ("SELECT count(*) FROM runs LAST 1h«;» DROP TABLE runs", "oql_syntax", ["the end"], None),
    ("«»", "oql_syntax", ["SELECT", "SHOW"], None),
    ("SELECT count(*)\nFROM runs\nWHERE «nam» = 1\nLAST 1h", "oql_unknown_column", ["job"], None),
    ("SELECT count(*) FROM runs WHERE «count»(*) > 1 LAST 1d", "oql_syntax", [], None),
    ("SELECT sum(«count»(*)) FROM runs LAST 1d", "oql_syntax", [], None),
    ("SELECT id FROM runs WHERE status = «'sucess'» LAST 1d", "oql_type_mismatch", ["'failed'"], "'success'"),
    ("SELECT id FROM runs WHERE status IN ('lost', «'fail'») LAST 1d", "oql_type_mismatch", [], "'failed'"),
    ("SELECT job FROM events WHERE «'strat'» != kind LAST 1d", "oql_type_mismatch", ["'ping'"], "'start'"),
    ("SELECT job FROM jobs WHERE status = «'overdu'» LAST 1d", "oql_type_mismatch", ["'ok'"], "'overdue'"),
    ("SELECT " + "a," * 4_900 + "b «FRM» runs LAST 1d", "oql_syntax", ["FROM", ","], "FROM"),
    ("SELECT id FROM runs WHERE (((a) = 1 AND b«,» 5, c)) LAST 1d", "oql_syntax", [")", "AND", "an operator"], None),
    (
        "SELECT count(*)" + " + count(*)" * 150 + " AS n FROM runs ORDER BY " + "n, " * 33 + "«n», n LAST 1d",
        "oql_too_long",
        [],
        None,
    ),
    (
        "SELECT count(*) FROM runs WHERE " + "(" * 50 + "«(»" + "status = 'x'" + ")" * 51 + " LAST 1d",
        "oql_too_long",
        [],
        None,
    ),
]


def _parts(marked: str) -> tuple[str, int, str]:
    """The statement, where the wrong part begins, and the wrong part."""
    before, _, rest = marked.partition("«")
    wrong, closed, after = rest.partition("»")
    return before + wrong + after, len(before), wrong if closed else ""


@pytest.mark.parametrize(("marked", "word", "expected", "suggestion"), ERRORS, ids=[error[0][:90] for error in ERRORS])
def test_an_error_points_at_what_is_wrong(
    ask: Ask, marked: str, word: str, expected: list[str], suggestion: str | None
) -> None:
    statement, offset, wrong = _parts(marked)
    answer = ask(statement, 400)
    assert (answer["code"], answer["status"], answer["error"]) == (400, "Bad Request", word)
    (detail,) = answer["errors"]["query"]
    assert set(detail) == {"line", "column", "offset", "length", "found", "expected", "did_you_mean", "caret"}
    assert detail["offset"] == offset
    if wrong:
        assert (detail["found"], detail["length"]) == (wrong, len(wrong))
    assert set(expected) <= set(detail["expected"])
    assert suggestion is None or detail["did_you_mean"][0] == suggestion
    line, column = statement.count("\n", 0, offset) + 1, offset - (statement.rfind("\n", 0, offset) + 1) + 1
    assert (detail["line"], detail["column"]) == (line, column)
    shown, caret = detail["caret"].split("\n")
    place = caret.index("^")
    assert shown[place : place + len(wrong)] == wrong[:100]
    assert f"line {line}, column {column}" in answer["message"].lower()


def test_a_statement_that_is_too_long(ask: Ask) -> None:
    statement = "SELECT count(*) FROM runs LAST 1d".ljust(10_000)
    assert ask(statement)["rows"] == [[0]]
    assert ask(statement + " ", 400)["error"] == "oql_too_long"


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        (f"SELECT {'a' * 9_900} + FROM runs", "FROM"),
        (f"SELECT job FROM runs LAST 1d{' ' * 9_900}x", "x"),
        (f"SELECT job FROM runs LAST 1d{'/**/' * 2_400}x", "x"),
        (f"SELECT job FROM runs BETWEEN '{'x' * 9_000}', ", ","),
    ],
)
def test_a_long_word_or_gap_takes_less_time_than_as_many_characters_of_conditions(statement: str, found: str) -> None:
    """They are one token. A search that begins again at each character takes ten times as long as the conditions."""
    conditions = " AND ".join(f"duration_ms > {number}" for number in range(420))
    began = time.process_time()
    parse(f"SELECT job FROM runs WHERE {conditions} LAST 1d")
    between = time.process_time()
    with pytest.raises(OqlError, match=f"Unexpected '{found}'"):
        parse(statement)
    assert time.process_time() - between < between - began


def test_a_number_of_thousands_of_digits_is_too_large(ask: Ask) -> None:
    assert ask(f"SELECT {'1' * 9_000} FROM runs LAST 1d", 400)["error"] == "oql_type_mismatch"


MESSAGES = [
    (
        "SELECT count(*) FORM runs LAST 1d",
        "Line 1, column 17: Unexpected 'FORM'. Did you mean FROM? Expected one of: an operator, AS, ',', FROM.",
    ),
    (
        "SELECT count(*) FROM runs\nWHER status = 'x' LAST 1d",
        "Line 2, column 1: Unexpected 'WHER'. Did you mean WHERE? Expected one of: a clause, the end.",
    ),
    ("SELECT count(*) FROM runs LAST", "Line 1, column 31: Unexpected end of the statement. Expected a duration."),
    ("SELECT count(* FROM runs LAST 1d", "Line 1, column 16: Unexpected 'FROM'. Expected ')'."),
    (
        "SELECT abs(id + (2) FROM runs LAST 1d",
        "Line 1, column 21: Unexpected 'FROM'. Expected one of: an operator, ',', ')'.",
    ),
    (
        "SELECT CASE WHEN id = 1 THEN (2 END FROM runs LAST 1d",
        "Line 1, column 33: Unexpected 'END'. Did you mean AND? Expected one of: an operator, ')'.",
    ),
    ("SELECT idd FROM runs LAST 1d", "Line 1, column 8: runs has no column idd. Did you mean id?"),
]


@pytest.mark.parametrize(("statement", "message"), MESSAGES, ids=[statement for statement, _ in MESSAGES])
def test_a_message_suggests_before_it_lists(ask: Ask, statement: str, message: str) -> None:
    assert ask(statement, 400)["message"] == message


def test_the_first_of_several_errors_is_reported(ask: Ask) -> None:
    (detail,) = ask("SELECT abs(1 1), (2 2) FORM runs WHERE (3 3)", 400)["errors"]["query"]
    assert (detail["column"], detail["found"]) == (14, "1")
    (detail,) = ask("SELEKT abs(1 1) FROM runs LAST 1d", 400)["errors"]["query"]
    assert detail["found"] == "SELEKT"


# an expression that nests, what goes after each level of it, and how many levels every SQLite can read
NESTING = [
    ("(", ")", MOST_LEVELS),
    ("if(id = 0, 1, ", ")", MOST_LEVELS),
    ("CASE WHEN id = 0 THEN 1 ELSE ", " END", MOST_LEVELS),
    ("abs(", ")", 12),
    ("1 + abs(", ")", 12),
    ("round(", ", 2)", 12),
    ("coalesce(NULL, ", ")", 12),
    ("if(id > 0, ", ", 0)", 12),
    ("if(1 = ", ", 1, 0)", 12),
    ("CASE WHEN id > 0 THEN ", " END", 12),
    ("CASE WHEN id = 0 THEN 0 WHEN id > 0 THEN ", " ELSE 0 END", 12),
    ("CASE WHEN 1 = ", " THEN 1 END", 12),
    ("if(1 IN (2, ", "), 1, 0)", 6),
]


def _with_frames(frames: int, call: Callable[[], Any]) -> Any:
    """The result of `call`, with `frames` more frames on the stack."""
    return call() if frames == 0 else _with_frames(frames - 1, call)


@pytest.mark.slow
@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize(("opening", "closing", "levels"), NESTING, ids=[nesting[0] for nesting in NESTING])
def test_nesting_up_to_its_limit(ask: Ask, client: Any, opening: str, closing: str, levels: int) -> None:
    """The statement is answered, even from deep in a stack of requests. With more levels it is answered or refused."""
    assert sys.getrecursionlimit() == 1_000

    def statement(levels: int) -> str:
        return f"SELECT {opening * levels}1{closing * levels} AS x FROM runs WHERE id = 1 LAST 1d"

    assert len(_with_frames(150, lambda: ask(statement(levels)))["rows"]) == 1
    for more in range(levels + 1, MOST_LEVELS):
        answer = client.post("/api/v1/dsl", json={"query": statement(more)})
        assert answer.status_code == 200 or answer.json["error"] == "oql_too_long"
    assert ask(statement(MOST_LEVELS + 1), 400)["error"] == "oql_too_long"


def test_nesting_in_a_grouped_statement(ask: Ask) -> None:
    """Inside an aggregate, which is one level itself, in every clause that takes expressions."""
    nested = "if(TRUE, " * 11 + "1" + ", 0)" * 11
    aggregate = f"sum({nested}) FILTER (WHERE 1 = {nested})"
    statement = f"SELECT {aggregate} AS s FROM runs WHERE 1 = {nested} BY 1 + {nested} EVERY 1h HAVING {aggregate} > 0"
    assert ask(f"{statement} LAST 3h")["rows"] == []


@pytest.mark.usefixtures("shop")
def test_a_tree_with_the_most_levels(ask: Ask) -> None:
    """Sums are deep trees too. Where they are deeper than Python's stack, they are refused."""
    wide = "(" + "1" + " + 1" * 200 + ")"
    assert _with_frames(150, lambda: ask(f"SELECT count(*) FROM runs WHERE {wide} = 201 LAST 1d"))["rows"] == [[6]]
    deep = f"{'(' * 10}1{(' + 1' * 200 + ')') * 10}"
    assert ask(f"SELECT {deep} AS x FROM runs LAST 1d", 400)["error"] == "oql_too_long"
    for operator, value in ((" + 1", 201), (" - 1", -199), (" * 1", 1), (" / 1", 1.0), (" + 1 * 1", 101)):
        count = 100 if operator.count("1") == 2 else 200
        assert ask(f"SELECT 1{operator * count} AS x FROM runs WHERE id = 1 LAST 1d")["rows"] == [[value]]
        assert ask(f"SELECT 1{operator * (count + 1)} AS x FROM runs LAST 1d", 400)["error"] == "oql_too_long"


@pytest.mark.parametrize("step", ["(id = 1 AND ", "(id = 1 OR ", "NOT (", "(1 = 1) = (", "(TRUE AND FALSE OR "])
def test_twenty_five_levels_of_conditions_are_allowed(ask: Ask, client: Any, step: str) -> None:
    """More are answered or refused."""
    ask("SELECT count(*) FROM runs WHERE " + step * 25 + "id > 1" + ")" * 25 + " LAST 1d")
    deep = "SELECT count(*) FROM runs WHERE " + step * 49 + "id > 1" + ")" * 49 + " LAST 1d"
    answer = client.post("/api/v1/dsl", json={"query": deep})
    assert answer.status_code == 200 or answer.json["error"] == "oql_too_long"


@pytest.mark.parametrize("column", ["status", "host"])
@pytest.mark.parametrize("operator", ["LIKE", "ILIKE", "CONTAINS", "STARTS WITH"])
def test_a_long_pattern_is_allowed(ask: Ask, column: str, operator: str) -> None:
    assert ask(f"SELECT count(*) FROM runs WHERE {column} {operator} '{'_' * 9_000}x' LAST 1d")["rows"] == [[0]]


@pytest.mark.parametrize("operator", [" AND ", " OR "])
def test_a_thousand_conditions_are_allowed(ask: Ask, operator: str) -> None:
    assert ask(f"SELECT count(*) FROM runs WHERE {operator.join(['id=1'] * 1_000)} LAST 1d")["rows"] == [[0]]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "query"),
        ({"query": 1}, "query"),
        ({"query": None}, "query"),
        ({"query": ["SHOW SOURCES"]}, "query"),
        ({"query": "SHOW SOURCES", "tenant": "globex"}, "tenant"),
        ({"query": "SELECT '\ud800' FROM runs LAST 1d"}, "query"),
    ],
)
def test_a_body_that_is_not_one_statement_is_refused(client: Any, body: dict[str, Any], field: str) -> None:
    response = client.post("/api/v1/dsl", json=body)
    assert (response.status_code, response.json["error"]) == (422, "invalid_field")
    assert field in response.json["errors"]["json"]


def test_a_body_that_is_no_json_is_refused(client: Any) -> None:
    response = client.post("/api/v1/dsl", data="SHOW SOURCES")
    assert (response.status_code, response.json["error"]) == (415, "unsupported_media_type")
    response = client.post("/api/v1/dsl", data="{", content_type="application/json")
    assert (response.status_code, response.json["error"]) == (400, "invalid_json")
