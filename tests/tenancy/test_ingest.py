"""The ingest address of an organization: by path, by host name, and which keys it accepts."""

from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask

from obs.config import ConfigError
from obs.server.middleware import IngestAddress
from tests.conftest import KeyClient

PING = "/api/v1/heartbeat/backup/ping"
NewClient = Callable[..., KeyClient]


def test_the_ingest_address_and_the_plain_path_both_work(client: KeyClient) -> None:
    for path in (f"/in/acme{PING}", PING):
        assert client.post(path).status_code == 200
    assert client.get("/in/acme/api/v1/jobs/backup").json["run_count"] == 2


@pytest.mark.parametrize("org", ["globex", "nobody", "ACME"])
def test_the_address_of_another_organization_is_rejected(client: KeyClient, other_client: KeyClient, org: str) -> None:
    answer = client.post(f"/in/{org}{PING}")
    assert answer.status_code == 403
    assert other_client.get("/api/v1/jobs").json == {"jobs": [], "next_cursor": None}
    assert client.get("/api/v1/jobs").json == {"jobs": [], "next_cursor": None}


def test_the_address_needs_a_key(app: Flask, client: KeyClient) -> None:
    assert app.test_client().post(f"/in/acme{PING}").status_code == 401


@pytest.mark.parametrize("form", ["start", "log", "end", "ping"])
def test_the_body_form_at_the_address(client: KeyClient, form: str) -> None:
    sent = client.post(f"/in/acme/api/v1/heartbeat/{form}", json={"name": "backup", "message": "m"})
    assert sent.status_code == 200


@pytest.fixture
def by_host(make_app: Callable[..., Flask], new_client: NewClient) -> KeyClient:
    app = make_app(INGEST_URL_TEMPLATE="https://{org}.ingest.example.com")
    new_client("globex", app=app)
    return new_client("acme", app=app)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("acme.ingest.example.com", 200),
        ("ACME.Ingest.example.com:443", 200),
        ("globex.ingest.example.com", 403),
        ("nobody.ingest.example.com", 403),
        ("obs.example.com", 200),
        ("acme.ingest.example.com.evil.example", 200),
        ("localhost:8080", 200),
    ],
)
def test_the_host_name_selects_the_organization(by_host: KeyClient, host: str, status: int) -> None:
    answer = by_host.post(PING, headers={"Host": host})
    assert answer.status_code == status
    assert (by_host.get("/api/v1/jobs").json["jobs"] != []) == (status == 200)


def test_with_a_host_template_the_path_form_does_not_exist(by_host: KeyClient) -> None:
    assert by_host.post(f"/in/acme{PING}").status_code == 404


@pytest.mark.parametrize(
    ("template", "base_url", "url"),
    [
        ("{base_url}/in/{org}", "http://127.0.0.1:8080", "http://127.0.0.1:8080/in/acme"),
        ("{base_url}/in/{org}/", "https://example.com/obs", "https://example.com/obs/in/acme"),
        ("https://{org}.ingest.example.com", "http://x", "https://acme.ingest.example.com"),
        ("https://example.com/t/{org}/v", "http://x", "https://example.com/t/acme/v"),
    ],
)
def test_the_address_of_an_organization(template: str, base_url: str, url: str) -> None:
    assert IngestAddress(template, base_url).url("acme") == url


@pytest.mark.parametrize(
    "template", ["", "{base_url}/in", "{org}", "/in/{org}", "{base_url}/{org}/{org}", "http://x?{org}"]
)
def test_an_invalid_template_is_rejected(make_app: Callable[..., Any], template: str) -> None:
    with pytest.raises(ConfigError, match="INGEST_URL_TEMPLATE"):
        make_app(INGEST_URL_TEMPLATE=template)
    with pytest.raises(ConfigError, match=r"obs\.example\.com/in/"):
        make_app(BASE_URL="obs.example.com")


def test_a_template_with_another_path(make_app: Callable[..., Flask], new_client: NewClient) -> None:
    client = new_client("acme", app=make_app(INGEST_URL_TEMPLATE="https://example.com/t/{org}/v"))
    assert client.post(f"/t/acme/v{PING}").status_code == 200
    assert client.post(f"/t/globex/v{PING}").status_code == 403


def test_a_base_url_with_a_path_that_the_proxy_strips(make_app: Callable[..., Flask], new_client: NewClient) -> None:
    client = new_client("acme", app=make_app(BASE_URL="https://example.com/obs/"))
    assert client.post(f"/in/acme{PING}").status_code == 200
