"""CORS: which web pages of other origins may use the API, and that nothing changes while the setting is empty."""

from collections.abc import Callable

import pytest
from flask import Flask

from obs.config import ConfigError
from tests.conftest import KeyClient

PAGE = "https://status.example.com"
OTHER = "http://localhost:3000"
JOBS = "/api/v1/jobs"
PING = "/api/v1/heartbeat/backup/ping"
PREFLIGHT = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "x-api-key,content-type"}


@pytest.fixture
def acme(make_app: Callable[..., Flask], new_client: Callable[..., KeyClient]) -> KeyClient:
    return new_client("acme", "heartbeat:write", "query:read", app=make_app(CORS_ORIGINS=f"{PAGE} {OTHER}"))


@pytest.mark.parametrize("path", [JOBS, PING, "/in/acme/api/v1/jobs", "/in/acme/api/v1/heartbeat/backup/end"])
@pytest.mark.parametrize("origin", [PAGE, OTHER])
def test_a_preflight_needs_no_key(acme: KeyClient, path: str, origin: str) -> None:
    acme.key = None
    answer = acme.options(path, headers={**PREFLIGHT, "Origin": origin})
    assert (answer.status_code, answer.data) == (204, b"")
    assert answer.headers["Access-Control-Allow-Origin"] == origin
    assert {"GET", "POST", "PUT", "PATCH", "DELETE"} <= set(answer.headers["Access-Control-Allow-Methods"].split(", "))
    assert answer.headers["Access-Control-Allow-Headers"] == "x-api-key,content-type"
    assert (answer.headers["Vary"], answer.headers["Access-Control-Max-Age"]) == ("Origin", "3600")


def test_a_preflight_records_nothing(acme: KeyClient) -> None:
    acme.options(PING, headers={**PREFLIGHT, "Origin": PAGE})
    assert acme.get(JOBS).json["jobs"] == []


@pytest.mark.parametrize("path", [JOBS, PING, f"{JOBS}/unknown", "/api/v1/nothing", f"{PING}?status=what"])
def test_responses_and_errors_can_be_read(acme: KeyClient, path: str) -> None:
    answer = acme.get(path, headers={"Origin": PAGE})
    assert answer.headers.getlist("Access-Control-Allow-Origin") == [PAGE]
    assert answer.headers["Access-Control-Expose-Headers"] == "*"  # all: such requests have no cookies
    assert "Origin" in answer.headers.getlist("Vary")


def test_a_request_without_a_key_is_refused_and_the_page_can_read_why(acme: KeyClient) -> None:
    acme.key = None
    answer = acme.get(JOBS, headers={"Origin": PAGE})
    assert (answer.status_code, answer.headers["Access-Control-Allow-Origin"]) == (401, PAGE)


@pytest.mark.parametrize("origin", ["https://evil.example.com", f"{PAGE}.evil.com", f"{PAGE}:8443", "null", ""])
def test_other_origins_get_no_headers_but_vary(acme: KeyClient, origin: str) -> None:
    for answer in (
        acme.get(JOBS, headers={"Origin": origin} if origin else {}),
        acme.options(JOBS, headers={**PREFLIGHT, "Origin": origin}),
    ):
        assert not [name for name in dict(answer.headers) if name.startswith("Access-Control")]
        assert "Origin" in answer.headers.getlist("Vary")


def test_any_origin(make_app: Callable[..., Flask], new_client: Callable[..., KeyClient]) -> None:
    client = new_client("acme", app=make_app(CORS_ORIGINS="*"))
    for answer in (
        client.get(JOBS, headers={"Origin": "https://anywhere.example"}),
        client.options(JOBS, headers={**PREFLIGHT, "Origin": "null"}),
    ):
        assert answer.headers["Access-Control-Allow-Origin"] == "*"
        assert "Access-Control-Allow-Credentials" not in answer.headers


@pytest.mark.parametrize("path", ["/", "/sign-in", "/healthz", "/metrics", "/api/openapi.json"])
def test_only_the_api_is_shared(acme: KeyClient, path: str) -> None:
    headers = acme.get(path, headers={"Origin": PAGE}).headers
    assert not [name for name in dict(headers) if name.startswith("Access-Control")]


def test_nothing_is_shared_by_default(client: KeyClient) -> None:
    for answer in (
        client.get(JOBS, headers={"Origin": PAGE}),
        client.options(JOBS, headers={**PREFLIGHT, "Origin": PAGE}),
        client.options(PING, headers={**PREFLIGHT, "Origin": PAGE}),
    ):
        assert not [name for name in dict(answer.headers) if name.startswith("Access-Control")]
        assert "Origin" not in answer.headers.getlist("Vary")


@pytest.mark.parametrize(
    "setting", ["example.com", "https://example.com/", "https://*.example.com", f"{PAGE},{OTHER}/x"]
)
def test_what_is_not_an_origin_is_refused_at_the_start(make_app: Callable[..., Flask], setting: str) -> None:
    with pytest.raises(ConfigError, match="CORS_ORIGINS must be origins"):
        make_app(CORS_ORIGINS=setting)


def test_pushes_of_other_monitors_stay_as_they_are(acme: KeyClient) -> None:
    pushed = acme.get("/api/push/6ba7b810-9dad-41d1-80b4-00c04fd430c8", headers={"Origin": PAGE})
    assert pushed.headers.getlist("Access-Control-Allow-Origin") == ["*"]
