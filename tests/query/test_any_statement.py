"""Whatever the statement, the response is a result or an error in its documented form, never an internal error."""

import json
import os
from typing import Any, NoReturn

import pytest
from hypothesis import HealthCheck, given, settings

from tests.query.statements import damaged, noise, statements

EXAMPLES = int(os.environ.get("OBS_QUERY_EXAMPLES", "2000"))
"""How many statements are tried. Set OBS_QUERY_EXAMPLES to try more."""
_DETAIL = {"line", "column", "offset", "length", "found", "expected", "did_you_mean", "caret"}


def examples(share: float) -> settings:
    """The settings of a test that tries its share of all examples."""
    return settings(
        max_examples=max(1, round(EXAMPLES * share)),
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
    )


@pytest.fixture
def send(make_app: Any, new_client: Any, request: Any) -> Any:
    app = make_app(QUERY_RATE_PER_MINUTE=10**9)
    client = new_client("acme", app=app)
    request.getfixturevalue("shop")

    def sent(statement: str) -> None:
        response = client.post("/api/v1/dsl", json={"query": statement})
        body = json.loads(response.data, parse_constant=_refuse)
        if response.status_code == 200:
            _check_result(body)
        elif response.status_code == 400:
            _check_error(body, statement)
        else:
            assert (response.status_code, body["error"]) in [(422, "query_limit_exceeded"), (422, "invalid_field")], (
                body
            )

    return sent


def _refuse(name: str) -> NoReturn:
    raise AssertionError(f"the response contains {name}")


def _check_result(body: dict[str, Any]) -> None:
    assert set(body) == {"output_type", "columns", "rows"}
    assert len(set(body["columns"])) == len(body["columns"])
    assert all(len(row) == len(body["columns"]) for row in body["rows"])
    assert len(body["rows"]) <= 10_000
    match body["output_type"]:
        case "timeseries":
            starts = [row[0] for row in body["rows"]]
            assert body["columns"][0] == "t"
            assert starts == sorted(starts)
        case "single_value":
            assert len(body["columns"]) == 1
            assert len(body["rows"]) <= 1
        case other:
            assert other in ("bar", "table")


def _check_error(body: dict[str, Any], statement: str) -> None:
    assert body["error"].startswith("oql_")
    assert body["message"]
    (detail,) = body["errors"]["query"]
    assert set(detail) == _DETAIL
    start = detail["offset"]
    assert statement[start : start + detail["length"]] == detail["found"]
    assert detail["line"] == statement.count("\n", 0, start) + 1
    assert "^" in detail["caret"].split("\n")[1]


@pytest.mark.slow
@examples(0.5)
@given(statement=statements())
def test_a_valid_statement(send: Any, statement: str) -> None:
    send(statement)


@pytest.mark.slow
@examples(0.3)
@given(statement=damaged())
def test_a_damaged_statement(send: Any, statement: str) -> None:
    send(statement)


@pytest.mark.slow
@examples(0.2)
@given(statement=noise)
def test_noise(send: Any, statement: str) -> None:
    send(statement)
