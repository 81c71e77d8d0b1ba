"""Parameters: values that are sent beside a statement. They stand for literals, and are never read as OQL."""

from typing import Any

import pytest
from hypothesis import example, given, strategies as st

from tests.query.test_any_statement import examples

pytestmark = pytest.mark.usefixtures("shop")


@pytest.fixture
def send(make_app: Any, new_client: Any, request: Any) -> Any:
    client = new_client("acme", app=make_app(QUERY_RATE_PER_MINUTE=10**9))
    request.getfixturevalue("shop")

    def sent(statement: str, params: Any, status: int = 200) -> Any:
        response = client.post("/api/v1/dsl", json={"query": statement, "params": params})
        assert response.status_code == status, response.json
        return response.json

    return sent


# a statement with parameters, their values, and the same statement with literals
STATEMENTS: list[tuple[str, dict[str, Any], str]] = [
    ("SELECT id FROM runs WHERE job = :j LAST 1d", {"j": "mail"}, "SELECT id FROM runs WHERE job = 'mail' LAST 1d"),
    (
        "SELECT id FROM runs WHERE status IN (:a, :b) AND NOT job LIKE :c LAST 1d",
        {"a": "failed", "b": "lost", "c": "m%"},
        "SELECT id FROM runs WHERE status IN ('failed', 'lost') AND NOT job LIKE 'm%' LAST 1d",
    ),
    (
        "SELECT id FROM runs WHERE status IN :bad AND job NOT IN :jobs LAST 1d",
        {"bad": ["failed", "lost"], "jobs": ["it's", ""]},
        "SELECT id FROM runs WHERE status IN ('failed', 'lost') AND job NOT IN ('it''s', '') LAST 1d",
    ),
    (
        "SELECT id, exit_code IN :codes AS x FROM runs WHERE coalesce(exit_code, 0) IN :codes LAST 1d",
        {"codes": [0, 3, 1.5]},
        "SELECT id, exit_code IN (0, 3, 1.5) AS x FROM runs WHERE coalesce(exit_code, 0) IN (0, 3, 1.5) LAST 1d",
    ),
    (
        "SELECT id, exit_code = :n AS x FROM runs WHERE duration_ms > - :d LAST 1d",
        {"n": 3, "d": 1.5},
        "SELECT id, exit_code = 3 AS x FROM runs WHERE duration_ms > - 1.5 LAST 1d",
    ),
    (
        "SELECT count(*) FROM runs WHERE duration_ms > :x AND ended_at > NOW - :y LAST 1d",
        {"x": "1s", "y": "90 minutes"},
        "SELECT count(*) FROM runs WHERE duration_ms > 1s AND ended_at > NOW - 90m LAST 1d",
    ),
    (
        "SELECT rate(count(*), :x) AS r FROM runs BY histogram(duration_ms, :y) AS d WHERE time > NOW - :z",
        {"x": "1h", "y": "1s", "z": "1d"},
        "SELECT rate(count(*), 1h) AS r FROM runs BY histogram(duration_ms, 1s) AS d WHERE time > NOW - 1d",
    ),
    ("SELECT id FROM runs SINCE :x AGO", {"x": "2h"}, "SELECT id FROM runs SINCE 2h AGO"),
    ("SELECT id FROM runs WHERE job = :x OR id = 3 LAST 1d", {"x": "7d"}, "SELECT id FROM runs WHERE id = 3 LAST 1d"),
    (
        "SELECT job FROM runs ORDER BY id LIMIT :n OFFSET :o LAST 1d",
        {"n": 2, "o": 1},
        "SELECT job FROM runs ORDER BY id LIMIT 2 OFFSET 1 LAST 1d",
    ),
    (
        "SELECT count(*) FROM runs BY job TOP :n SINCE :since UNTIL :until",
        {"n": 1, "since": "2026-06-20", "until": "2026-06-22"},
        "SELECT count(*) FROM runs BY job TOP 1 SINCE '2026-06-20' UNTIL '2026-06-22'",
    ),
    (
        "SELECT count(*) FROM runs WHERE time >= :since AND time < :until",
        {"since": "2026-06-21T08:00:00Z", "until": "2026-06-21T09:00:00Z"},
        "SELECT count(*) FROM runs WHERE time >= '2026-06-21T08:00:00Z' AND time < '2026-06-21T09:00:00Z'",
    ),
    (
        "SELECT count(*) FROM runs EVERY :every FILL :fill TIMEZONE :zone COMPARE WITH :back AGO LAST :window",
        {"every": "6 hours", "fill": -1.5, "zone": "Asia/Kolkata", "back": "7d", "window": "1d"},
        "SELECT count(*) FROM runs EVERY 6 hours FILL -1.5 TIMEZONE 'Asia/Kolkata' COMPARE WITH 7d AGO LAST 1d",
    ),
    (
        "SELECT count(*) FROM runs AROUND :prefix WITHIN :within LAST 1d",
        {"prefix": "deploy/", "within": "30m"},
        "SELECT count(*) FROM runs AROUND 'deploy/' WITHIN 30m LAST 1d",
    ),
    (
        "SELECT if(:yes, coalesce(:nothing, job), :no) AS x, percentile(duration_ms, :p) FROM runs BY job LAST 1d",
        {"yes": True, "nothing": None, "no": "none", "p": 50},
        "SELECT if(TRUE, coalesce(NULL, job), 'none') AS x, percentile(duration_ms, 50) FROM runs BY job LAST 1d",
    ),
    (
        "SELECT message FROM logs WHERE message =~ :re LAST 1d -- not :this, nor ':that'",
        {"re": "^disk"},
        "SELECT message FROM logs WHERE message =~ '^disk' LAST 1d",
    ),
    ("SELECT :a AS a, :a AS b FROM runs LIMIT 1 LAST 1d", {"a": 1}, "SELECT 1 AS a, 1 AS b FROM runs LIMIT 1 LAST 1d"),
]  # fmt: skip


@pytest.mark.parametrize(("statement", "params", "literal"), STATEMENTS, ids=[each for each, *_ in STATEMENTS])
def test_a_parameter_is_the_literal(send: Any, statement: str, params: Any, literal: str) -> None:
    answer = send(statement, params)
    assert answer["rows"] == send(literal, {})["rows"]
    assert answer["rows"]


# a statement, the values, the error code, its column, a part of its message
ERRORS: list[tuple[str, Any, str, int, str]] = [
    ("SELECT id FROM runs WHERE job = :job LAST 1d", {}, "oql_bad_parameter", 33, "The parameter job has no value."),
    ("SELECT id FROM runs WHERE job = :job LAST 1d", {"jobs": 1}, "oql_bad_parameter", 33, "Did you mean :jobs?"),
    ("SELECT id FROM runs LAST 1d", {"job": "x"}, "oql_bad_parameter", 28, "does not use the parameter job."),
    ("SELECT ':job' FROM runs -- :job\nLAST 1d", {"job": "x"}, "oql_bad_parameter", 8, "does not use"),
    ("SELECT id FROM :source LAST 1d", {"source": "runs"}, "oql_syntax", 16, "Unexpected ':source'."),
    ("SELECT :f(id) FROM runs LAST 1d", {"f": "max"}, "oql_syntax", 10, "Unexpected '('."),
    ("SELECT id FROM runs WHERE :c LAST 1d", {"c": "id = 1"}, "oql_type_mismatch", 27, "Expected a condition"),
    (
        "SELECT id FROM runs WHERE job = :n LAST 1d",
        {"n": 5},
        "oql_type_mismatch",
        33,
        "Expected a text, not an integer",
    ),
    ("SELECT id FROM runs WHERE status = :s LAST 1d", {"s": "ok"}, "oql_type_mismatch", 36, "status is never 'ok'."),
    ("SELECT id FROM runs LIMIT :n LAST 1d", {"n": "1"}, "oql_type_mismatch", 27, "has to be a whole number"),
    ("SELECT id FROM runs LIMIT :n LAST 1d", {"n": True}, "oql_type_mismatch", 27, "has to be a whole number"),
    ("SELECT id FROM runs LIMIT :n LAST 1d", {"n": -1}, "oql_type_mismatch", 27, "at least 0"),
    ("SELECT id FROM runs LAST :w", {"w": 24}, "oql_type_mismatch", 26, "a duration such as '24h'"),
    ("SELECT id FROM runs LAST :w", {"w": "1d WHERE 1 = 1"}, "oql_bad_duration", 26, "is not a duration"),
    ("SELECT id FROM runs TIMEZONE :z LAST 1d", {"z": None}, "oql_type_mismatch", 30, "has to be a text"),
    ("SELECT count(*) FROM runs EVERY 1h FILL :f LAST 1d", {"f": True}, "oql_type_mismatch", 41, "takes a number"),
    ("SELECT :n FROM runs LAST 1d", {"n": 2**63}, "oql_type_mismatch", 8, "The number is too large."),
    ("SELECT :n FROM runs LAST 1d", {"n": ["a"]}, "oql_type_mismatch", 8, "a text, a number, a boolean or null"),
    *(
        (
            "SELECT id FROM runs WHERE job IN :l LAST 1d",
            {"l": sent},
            "oql_type_mismatch",
            34,
            "a list of at least one text, number or boolean",
        )
        for sent in ("a", [], [None], [["a"]], {"a": 1}, ["a", "\ud800"])
    ),
    ("SELECT id FROM runs WHERE job IN :l LAST 1d", {"l": [1]}, "oql_type_mismatch", 34, "Expected a text"),
    ("SELECT id FROM runs WHERE status IN :l LAST 1d", {"l": ["no"]}, "oql_type_mismatch", 37, "never 'no'"),
    ("SELECT id FROM runs WHERE id IN :l LAST 1d", {"l": [2**63]}, "oql_type_mismatch", 33, "is too large"),
    ("SELECT :n FROM runs LAST 1d", {"n": "\ud800"}, "oql_type_mismatch", 8, "a text, a number, a boolean or null"),
    ("SELECT :n FROM runs LAST 1d", {"n": "x" * 10_000}, "oql_too_long", 28, "The limit is 10000."),
]


@pytest.mark.parametrize(("statement", "params", "code", "column", "message"), ERRORS)
def test_an_error_says_where_the_parameter_is(
    send: Any, statement: str, params: Any, code: str, column: int, message: str
) -> None:
    error = send(statement, params, 400)
    assert error["error"] == code
    assert message in error["message"]
    (detail,) = error["errors"]["query"]
    assert detail["column"] == column
    assert detail["caret"].split("\n")[1] == " " * (column - 1) + "^" * max(1, detail["length"])


@examples(0.1)
@given(
    value=st.none()
    | st.booleans()
    | st.integers(-(2**63) + 1, 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
@example(value="' OR 1=1 --")
@example(value=":value")
@example(value="\0")
def test_a_value_is_returned_as_it_was_sent(send: Any, value: Any) -> None:
    if len(str(value)) < 2_000:
        ((found,),) = send("SELECT :value AS v FROM runs WHERE id = 1 LAST 1d", {"value": value})["rows"]
        assert (found, type(found)) == (value, type(value))


@examples(0.05)
@given(value=st.text(max_size=50) | st.sampled_from(["backup", "mail", "x' OR 'a' = 'a", "%"]))
def test_a_text_only_equals_itself(send: Any, value: str) -> None:
    found = send("SELECT job FROM runs WHERE job = :value BY job LAST 1d", {"value": value})["rows"]
    assert found == [[job] for job in ("backup", "mail", "report/weekly") if job == value]


@pytest.mark.parametrize("condition", [":x = 'all' OR job = :x", "job LIKE :x", "job CONTAINS :x", ":x IS NULL"])
@pytest.mark.parametrize("value", ["job", "host", "*job*", "%job%"])
def test_a_text_may_be_what_would_hardly_be_written(send: Any, condition: str, value: str) -> None:
    """Such as the name of a column: somebody has typed it into a field of another program."""
    assert send(f"SELECT count(*) FROM runs WHERE {condition} LAST 1d", {"x": value})["rows"] in ([[0]], [[6]])


def test_values_of_different_types_are_not_confused(send: Any) -> None:
    for value in (1, True, 1.0, "1", None, 0, False):
        ((found,),) = send("SELECT :value AS v FROM runs WHERE id = 1 LAST 1d", {"value": value})["rows"]
        assert (found, type(found)) == (value, type(value))


def test_an_alert_takes_no_parameters(new_client: Any) -> None:
    client = new_client("acme", "admin")
    body = {"name": "a", "query": "SELECT count(*) FROM runs WHERE job = :job LAST 1h", "operator": ">", "threshold": 1}
    answer = client.post("/api/v1/alerts", json=body)
    assert answer.status_code == 422
    assert "The parameter job has no value." in answer.json["message"]
    assert answer.json["hint"] == "An alert takes no parameters: write the value."


def test_the_openapi_document_has_them(client: Any) -> None:
    schema = client.get("/api/openapi.json").json["components"]["schemas"]["Query"]["properties"]["params"]
    assert (schema["type"], schema["example"]) == ("object", {"job": "backup"})


def test_what_is_no_object_is_refused(client: Any) -> None:
    answer = client.post("/api/v1/dsl", json={"query": "SELECT id FROM runs LAST 1d", "params": ["a"]})
    assert (answer.status_code, answer.json["error"]) == (422, "invalid_field")
