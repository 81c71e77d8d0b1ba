"""What a statement finds in texts: patterns, parts and numbers, compared with a few lines of Python."""

import json
import re
import sqlite3
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given, strategies as st

from obs.times import parse_iso
from tests.query.test_any_statement import examples

Ask = Callable[..., Any]
pytestmark = pytest.mark.usefixtures("shop")


@pytest.fixture
def value_of(make_app: Any, new_client: Any, request: Any) -> Ask:
    """The value of an expression with parameters, or the error."""
    client = new_client("acme", app=make_app(QUERY_RATE_PER_MINUTE=10**9))
    request.getfixturevalue("shop")

    def asked(expression: str, **params: Any) -> Any:
        statement = f"SELECT {expression} AS v FROM runs WHERE id = 1 LAST 1d"
        answer = client.post("/api/v1/dsl", json={"query": statement, "params": params}).json
        return answer["rows"][0][0] if "rows" in answer else answer["error"]

    return asked


# LIKE with ESCAPE


def _matches(text: str, pattern: str, escape: str) -> bool:
    if not pattern:
        return not text
    if escape and pattern[0] == escape and len(pattern) > 1:
        return text[:1] == pattern[1] and _matches(text[1:], pattern[2:], escape)
    if pattern[0] == "%":
        return any(_matches(text[place:], pattern[1:], escape) for place in range(len(text) + 1))
    return bool(text) and pattern[0] in ("_", text[0]) and _matches(text[1:], pattern[1:], escape)


@pytest.mark.slow
@examples(0.2)
@given(
    text=st.text("ab%_!.", max_size=6),
    pattern=st.text("ab%_!.", max_size=6),
    escape=st.sampled_from("!%_a") | st.just(""),
)
@example(text="100%", pattern="%!%", escape="!")
@example(text="a!", pattern="a!", escape="!")
def test_like_with_an_escape_character(value_of: Ask, text: str, pattern: str, escape: str) -> None:
    if escape and pattern.endswith(escape):
        return  # databases differ here; see the next test
    expected = _matches(text, pattern, escape)
    assert value_of(":t LIKE :p ESCAPE :e", t=text, p=pattern, e=escape) is expected
    assert value_of("upper(:t) ILIKE :p ESCAPE :e", t=text, p=pattern, e=escape) is _matches(
        text.upper().casefold(), pattern.casefold(), escape
    )


_STARTS = ["a%", "A%", "ab%", "Ö%", "ö%", "%", "%%", "a%%", "_%", "k%", "İ%", "i%", "!%a%", "a!!%", "b%a%", "%a%"]


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize("pattern", _STARTS)
def test_the_start_of_a_column_is_the_same_as_that_of_a_computed_text(ask: Ask, write: Any, pattern: str) -> None:
    """Which calls a function of Python for each row."""
    texts = ["a", "ab", "Ab", "ba", "Öl", "öl", "", "%a", "\u212aelvin", "\u0130x", "i", "a\0b", "\0a", "a!b"]
    add = "INSERT INTO events (job_id, kind, received_at, time, message) VALUES (1, 1, 1782035999000, 0, ?)"
    write(lambda db: db.executemany(add, [(text,) for text in texts]))
    for operator in ("LIKE", "NOT LIKE", "ILIKE", "NOT ILIKE"):
        found, expected = (
            ask(f"SELECT message FROM logs WHERE {text} {operator} '{pattern}' ESCAPE '!' LAST 1h")["rows"]
            for text in ("message", "concat(message, '')")
        )
        assert found == expected


def test_an_escape_character(ask: Ask, value_of: Ask) -> None:
    rows = ask(r"SELECT message FROM logs WHERE message LIKE '%100\%%' ESCAPE '\' LAST 1d")["rows"]
    assert rows == [["disk 100% full"]]
    assert ask("SELECT count(*) FROM logs WHERE message NOT LIKE '%\\_%' ESCAPE '\\' LAST 1d")["rows"] == [[1]]
    assert value_of("'a!' LIKE 'a!' ESCAPE '!'") is True
    assert ask("SELECT count(*) FROM logs WHERE message LIKE '%s%' ESCAPE '%' LAST 1d")["rows"] == [[0]]
    assert value_of("NULL = 1") == "oql_type_mismatch"
    error = ask("SELECT id FROM runs WHERE job LIKE 'a' ESCAPE 'ab' LAST 1d", 400)
    assert (error["error"], error["errors"]["query"][0]["column"]) == ("oql_type_mismatch", 47)
    assert ask("SELECT id FROM runs WHERE job CONTAINS 'a' ESCAPE 'a' LAST 1d", 400)["error"] == "oql_syntax"
    assert ask("SELECT id AS escape FROM runs ORDER BY escape LIMIT 1 LAST 1d")["rows"] == [[1]]


# extract


@examples(0.1)
@given(
    text=st.text("ab1.\n é", max_size=12),
    pattern=st.sampled_from(["a+", "(a)(b)?", "(x)?a", "[0-9]+", "b$", "^.", "(?:a|b)1", "(?i)A(B*)", "()", "é(.)"]),
)
def test_extract_is_the_first_group_or_the_match(value_of: Ask, text: str, pattern: str) -> None:
    found = re.search(pattern, text)
    if pattern == "b$" and text.endswith("b\n"):
        return  # in Python, $ is also before a line end
    assert value_of("extract(:t, :p)", t=text, p=pattern) == (found and found[1 if found.re.groups else 0])


def test_extract_reports_a_wrong_expression(ask: Ask) -> None:
    error = ask("SELECT extract(message, '(') FROM logs LAST 1d", 400)
    assert (error["error"], error["errors"]["query"][0]["column"]) == ("oql_syntax", 25)
    assert ask("SELECT extract(message, job) FROM logs LAST 1d", 400)["error"] == "oql_type_mismatch"


# json and number


_keys = st.sampled_from(["a", "b c", "", "ä.b", "x-y", "0"])
_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_keys, inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.slow
@examples(0.2)
@given(value=_values, steps=st.lists(_keys | st.integers(0, 3), max_size=3))
def test_json_is_what_stands_at_the_path(value_of: Ask, value: Any, steps: list[Any]) -> None:
    path, found = "$", value
    for step in steps:
        path += f"[{step}]" if isinstance(step, int) else f'."{step}"'
        is_list = isinstance(found, list) and isinstance(step, int) and step < len(found)
        is_there = is_list or (isinstance(found, dict) and step in found)
        found = found[step] if is_there else None
    answer = value_of("json(:t, :p)", t=json.dumps(value), p=path)
    if isinstance(found, str | None):
        assert answer == found
    else:
        assert json.loads(answer) == found
    if isinstance(found, int | float) and not isinstance(found, bool) and abs(found) < 2**53:
        assert value_of("number(json(:t, :p))", t=json.dumps(value), p=path) == found


@pytest.mark.parametrize("text", ["", "disk full", "{", "[1, 2", "nul", '{"a": 1} x', "[" * 100_00, "1" * 5_000])
def test_what_is_not_json_is_null(value_of: Ask, text: str) -> None:
    assert value_of("json(:t, '$.a')", t=text[:9_000]) is None


@pytest.mark.parametrize(
    ("text", "path", "found"),
    [
        ('{"a": {"b": [10, 20]}}', "$.a.b[1]", "20"),
        ('{"a-b": 1.50}', "$.a-b", "1.5"),
        ('{"a": true}', "$.a", "true"),
        ('{"a": "\\ud800"}', "$.a", "?"),
        ('{"a": 1e999}', "$.a", None),
        ('{"a": "text"}', "$.a[0]", None),
        ('["x"]', "$[0]", "x"),
        ("[5]", "$", "[5]"),
    ],
)
def test_a_value_in_json(value_of: Ask, text: str, path: str, found: str | None) -> None:
    assert value_of("json(:t, :p)", t=text, p=path) == found


@pytest.mark.parametrize(
    "path", ["", "a", "$a", "$.", "$[", "$[a]", "$..a", "$[-1]", "$.a b[", "$ .a", "$.a'"[:3] + "."]
)
def test_a_wrong_path_is_an_error(value_of: Ask, path: str) -> None:
    assert value_of("json('{}', :p)", p=path) == "oql_syntax"


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("12", 12), (" -0.5 ", -0.5), ("+1e3", 1000), (".5", 0.5), ("5.", 5), ("", None), ("1 ms", None), ("nan", None),
        ("inf", None), ("1_000", None), ("٣", None), ("1e999", None), ("0x10", None), ("9007199254740993", 2.0**53),
    ],
)  # fmt: skip
def test_a_text_as_a_number(value_of: Ask, text: str, number: float | None) -> None:
    assert value_of("number(:t)", t=text) == number


def test_numbers_in_messages_can_be_aggregated(ask: Ask, write: Any) -> None:
    def fill(db: sqlite3.Connection) -> None:
        for number, message in enumerate(['{"rows": 12, "at": {"host": "a"}}', '{"rows": 30}', "took 5 ms", None]):
            time = parse_iso("2026-06-21T09:30:00Z") + number
            add = "INSERT INTO events (job_id, kind, received_at, time, message) VALUES (3, 1, ?, 0, ?)"
            db.execute(add, (time, message))

    write(fill)
    window = "WHERE job = 'report/weekly' LAST 1h"
    rows = ask(f"SELECT sum(number(json(message, '$.rows'))) AS rows FROM logs {window}")["rows"]
    assert rows == [[42]]
    rows = ask(f"SELECT json(message, '$.at.host') AS at, count(*) FROM logs {window} BY at")["rows"]
    assert rows == [[None, 3], ["a", 1]]
    took = ask(f"SELECT max(number(extract(message, '(\\d+) ms'))) AS took FROM logs {window}")["rows"]
    assert took == [[5]]


def test_a_text_that_grows_too_long_is_refused(ask: Ask, write: Any) -> None:
    message = f"[{','.join(['1e9'] * 2_400)}]"
    add = "INSERT INTO events (job_id, kind, received_at, time, message) VALUES (3, 1, ?, 0, ?)"
    write(lambda db: db.execute(add, (parse_iso("2026-06-21T09:59:00Z"), message)))
    many = ", ',', ".join(["message"] * 90)
    ((length,),) = ask(f"SELECT length(concat({many})) FROM logs LAST 5m")["rows"]
    assert length > 800_000
    for text in (f"concat({many}, ',', {many})", f"json(concat('[', {many}, ']'), '$')"):
        assert ask(f"SELECT length({text}) FROM logs LAST 5m", 400)["error"] == "oql_too_long"


def test_a_pattern_that_sqlite_refuses_is_too_long(make_app: Any, new_client: Any, request: Any) -> None:
    client = new_client("acme", app=make_app(QUERY_MAX_LENGTH=100_000))
    request.getfixturevalue("shop")
    for length, status in ((40_000, 200), (60_000, 400)):
        query = f"SELECT count(*) FROM logs WHERE message LIKE '_{'a' * length}' LAST 1d"
        assert client.post("/api/v1/dsl", json={"query": query}).status_code == status


# histogram


@examples(0.1)
@given(value=st.integers(-(2**62), 2**62) | st.integers(-1_000, 1_000), width=st.integers(1, 10_000))
@example(value=-(2**63) + 1, width=10)
def test_the_bin_of_a_value(value_of: Ask, value: int, width: int) -> None:
    start = value // width * width
    assert value_of("histogram(:v, :w)", v=value, w=width) == (start if start >= -(2**63) else float(start))


def test_a_histogram(ask: Ask) -> None:
    answer = ask("SELECT histogram(duration_ms, 10s) AS bin, count(*) FROM runs WHERE duration_ms >= 0 BY bin LAST 1d")
    assert answer["rows"] == [[0, 2], [30_000, 1]]
    assert answer["output_type"] == "bar"
    for width, column in (("0", 31), ("- 5", 31), ("duration_ms", 31)):
        error = ask(f"SELECT histogram(duration_ms, {width}) FROM runs LAST 1d", 400)
        assert (error["error"], error["errors"]["query"][0]["column"]) == ("oql_type_mismatch", column)
