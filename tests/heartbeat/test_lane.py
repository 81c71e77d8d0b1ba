"""Usual heartbeats are answered in front of Flask, exactly as Flask's own routes would answer them."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from flask import Flask
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from werkzeug.test import Client, TestResponse

from obs.heartbeat.runs import KINDS
from tests.conftest import Clock, KeyClient

BASE = "/api/v1/heartbeat"
Ask = Callable[..., None]


@pytest.fixture
def alike(app: Flask, new_client: Callable[..., KeyClient]) -> Ask:
    """Sends a request as usual and, for another organization, to Flask alone, and holds the answers together."""
    usual, other = new_client("acme"), new_client("globex")
    flask = Client(partial(Flask.wsgi_app, app))

    def ask(method: str, path: str, headers: dict[str, str] | None = None, **kwargs: Any) -> None:
        keyed = {"X-API-Key": str(other.key), **(headers or {})}
        answers = (
            usual.open(path, method=method, headers=headers, **kwargs),
            flask.open(path, method=method, headers=keyed, **kwargs),
        )
        assert _told(answers[0]) == _told(answers[1])

    return ask


def _told(answer: TestResponse) -> tuple[int, Any, dict[str, str]]:
    body = answer.json if answer.is_json and answer.data else answer.text
    if isinstance(body, dict) and "request_id" in body:
        pytest.fail(f"a fault of the service: {body}")
    headers = {name: value for name, value in answer.headers if name not in ("Content-Length", "Vary")}
    return answer.status_code, _without_organization(body), headers


def _without_organization(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_organization(part) for name, part in value.items()}
    return value.replace("acme", "ORG").replace("globex", "ORG") if isinstance(value, str) else value


@pytest.mark.parametrize(
    ("method", "path", "kwargs"),
    [
        ("POST", f"{BASE}/backup/ping", {}),
        ("GET", f"{BASE}/backup/ping", {}),
        ("HEAD", f"{BASE}/backup/ping", {}),
        ("PUT", f"{BASE}/backup/ping", {}),
        ("OPTIONS", f"{BASE}/backup/ping", {}),
        ("GET", f"{BASE}/backup/end", {}),
        ("GET", f"{BASE}/ping", {}),
        ("POST", f"{BASE}/photos/backup/start/end", {}),
        ("POST", f"{BASE}/backup/ping/", {}),
        ("POST", f"{BASE}//ping", {}),
        ("POST", f"{BASE}//a//ping", {}),
        ("POST", f"{BASE}/backup/pong", {}),
        ("POST", f"{BASE}/", {}),
        ("POST", f"{BASE}/ping", {}),
        ("POST", f"{BASE}/ping", {"json": {"name": "backup", "message": "well"}}),
        ("POST", f"{BASE}/end", {"json": {"name": "backup", "exit_code": 3, "duration_ms": 1500}}),
        ("POST", f"{BASE}/end", {"json": {"name": "backup", "exit_code": "3"}}),
        ("POST", f"{BASE}/end", {"data": b'{"name": "backup"}', "content_type": "application/vnd.x+json; a=b"}),
        ("POST", f"{BASE}/end", {"data": b'{"name": "backup"}', "content_type": "text/plain"}),
        ("POST", f"{BASE}/end", {"data": b'{"name": "backup"}'}),
        ("POST", f"{BASE}/end", {"data": b"{", "content_type": "application/json"}),
        ("POST", f"{BASE}/log", {"json": {"name": "backup", "message": "m" * 10_240}}),
        ("POST", f"{BASE}/log", {"json": {"name": "backup", "message": "m" * 10_241}}),
        ("POST", f"{BASE}/log", {"json": {"name": "backup", "message": "m" * 200_000}}),
        ("POST", f"{BASE}/log", {"json": {"name": "backup", "message": "m" * 2_000_000}}),
        ("POST", f"{BASE}/backup/log", {"data": "half way"}),
        ("POST", f"{BASE}/backup/log", {"data": b"\xff\x00"}),
        ("POST", f"{BASE}/backup/log", {"data": "m" * 10_240}),
        ("POST", f"{BASE}/backup/log", {"data": "m" * 10_241}),
        ("POST", f"{BASE}/backup/log", {"data": "m" * 2_000_000}),
        ("POST", f"{BASE}/backup/log?message=a", {"data": "b"}),
        ("POST", f"{BASE}/backup/end?status=fail&exit_code=2&duration_ms=10", {}),
        ("POST", f"{BASE}/backup/end?status=fail&status=ok", {}),
        ("POST", f"{BASE}/backup/end?status=", {}),
        ("POST", f"{BASE}/backup/end?colour=red", {}),
        ("POST", f"{BASE}/backup/end?run_id=%FF%00", {}),
        ("POST", f"{BASE}/backup/ping?time=2026-06-21T09:59:59+00:00", {}),
        ("POST", f"{BASE}/backup/ping?time=tomorrow", {}),
        ("POST", f"{BASE}/b%C3%A4ckup/ping", {}),
        ("POST", f"{BASE}/b%FFckup/ping", {}),
        ("POST", f"{BASE}/%20backup/ping", {}),
        ("POST", f"{BASE}/backup/ping", {"headers": {"X-API-Key": "nonsense"}}),
        ("POST", f"{BASE}/backup/ping", {"headers": {"X-API-Key": ""}}),
        ("POST", f"{BASE}/backup/ping", {"headers": {"X-Platform-Host": "h" * 201}}),
        ("POST", f"{BASE}/backup/ping", {"headers": {"X-Platform-Host": "web-1", "Idempotency-Key": "k"}}),
        ("POST", f"{BASE}/backup/ping", {"headers": {"Content-Length": "-1"}}),
        ("POST", f"{BASE}/backup/ping", {"headers": {"Content-Length": "many"}}),
    ],
)
def test_a_request_is_answered_as_flask_answers_it(alike: Ask, method: str, path: str, kwargs: dict[str, Any]) -> None:
    alike(method, path, **kwargs)
    alike(method, path, **kwargs)


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    requests=st.lists(
        st.tuples(
            st.sampled_from(["POST", "POST", "GET"]),
            st.sampled_from(["a", "b", "a/b", "\u00e4"]),
            st.sampled_from(KINDS),
            st.sampled_from(["", "?run_id=1", "?run_id=2", "?status=fail", "?exit_code=1", "?message=hello"]),
            st.sampled_from([b"", b"text", b"\xf0\x9f\x98\x80"]),
        ),
        max_size=12,
    )
)
def test_a_history_is_answered_as_flask_answers_it(
    alike: Ask, clock: Clock, requests: list[tuple[str, str, str, str, bytes]]
) -> None:
    for method, job, kind, query, body in requests:
        clock.advance(seconds=1)
        alike(method, f"{BASE}/{job}/{kind}{query}", data=body)


def test_a_request_out_of_the_usual_is_answered_by_flask(client: KeyClient, app: Flask) -> None:
    """The comparison above is between two ways: the usual request never comes to Flask's."""
    asked: list[str] = []
    app.before_request(lambda: asked.append("flask"))
    assert client.post(f"{BASE}/backup/ping").status_code == 200
    assert asked == []
    assert client.post(f"{BASE}/backup/log", data="m" * 100_000).status_code == 413
    assert asked == ["flask"]


def test_a_fault_of_the_service_is_told_in_the_one_shape(
    client: KeyClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("obs.ingest.intake.format_ms", lambda _: 1 / 0)
    answer = client.post(f"{BASE}/backup/ping")
    assert answer.status_code == 500
    assert answer.json["error"] == "internal_error"
    assert answer.headers["X-Request-Id"] == answer.json["request_id"]
    assert answer.json["request_id"] in caplog.text
    assert "ZeroDivisionError" in caplog.text


def test_the_metrics_name_the_endpoint(client: KeyClient) -> None:
    client.post(f"{BASE}/backup/ping")
    client.get(f"{BASE}/backup/ping")
    client.post(f"{BASE}/end", json={"name": "backup"})
    text = client.get("/metrics").text
    for endpoint in ("heartbeats.ping_by_path", "heartbeats.ping_by_get", "heartbeats.end_by_body"):
        assert f'obs_http_request_duration_seconds_count{{endpoint="{endpoint}",status="200"}} 1.0' in text
