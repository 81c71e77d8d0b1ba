"""A proxy that is trusted names the user who has signed in; nobody else can."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask

from obs.config import ConfigError
from tests.conftest import Clock
from tests.dashboard.conftest import NewClient, add_user, entries

PROXY = "10.0.0.1"


@pytest.fixture
def behind_proxy(make_app: Callable[..., Flask], new_client: NewClient) -> Flask:
    app = make_app(TRUSTED_PROXIES=PROXY, TRUSTED_AUTH_HEADER="Remote-User")
    new_client("acme", app=app)
    add_user(app, "ana", "admin")
    return app


def from_proxy(app: Flask, name: str, address: str = PROXY, **kwargs: Any) -> Any:
    visitor = app.test_client()
    headers = {"Remote-User": name, **kwargs.pop("headers", {})}
    return visitor.get("/settings", headers=headers, environ_overrides={"REMOTE_ADDR": address}, **kwargs)


def test_a_trusted_proxy_signs_users_in(behind_proxy: Flask) -> None:
    shown = from_proxy(behind_proxy, "Ana")
    assert shown.status_code == 200
    assert 'title="ana: admin access"' in shown.text
    assert "Sign out" not in shown.text  # the proxy does that


def test_the_header_of_anybody_else_is_ignored(
    behind_proxy: Flask, make_app: Callable[..., Flask], clock: Clock
) -> None:
    assert from_proxy(behind_proxy, "ana", "10.0.0.2").status_code == 302
    claimed = {"X-Forwarded-For": PROXY, "Forwarded": f"for={PROXY}"}
    assert from_proxy(behind_proxy, "ana", "10.0.0.2", headers=claimed).status_code == 302
    assert from_proxy(make_app(TRUSTED_PROXIES=PROXY), "ana").status_code == 302  # the setting is empty


def test_a_header_without_addresses_of_proxies_stops_the_start(make_app: Callable[..., Flask]) -> None:
    with pytest.raises(ConfigError, match="TRUSTED_AUTH_HEADER needs the addresses"):
        make_app(TRUSTED_AUTH_HEADER="Remote-User")


def test_a_proxy_that_names_an_unknown_user_gets_a_page_that_says_so(behind_proxy: Flask) -> None:
    for name in ("eve", "<b>"):
        answer = from_proxy(behind_proxy, name)
        assert (answer.status_code, answer.mimetype) == (403, "text/html")
        assert f"There is no user {name.replace('<', '&lt;').replace('>', '&gt;')}." in answer.text
    assert "obs user add ORG eve" in from_proxy(behind_proxy, "eve").text
    at = {"environ_overrides": {"REMOTE_ADDR": PROXY}, "headers": {"Remote-User": "eve"}}
    assert behind_proxy.test_client().get("/nope", **at).status_code == 404
    assert behind_proxy.test_client().post("/sign-in", **at).status_code == 400  # without the token of the form


def test_changes_of_a_user_whom_a_proxy_signed_in_need_the_token_of_the_form(behind_proxy: Flask) -> None:
    client, headers = behind_proxy.test_client(), {"Remote-User": "ana"}
    at = {"environ_overrides": {"REMOTE_ADDR": PROXY}, "headers": headers}
    key = {"label": "cron", "scopes": "heartbeat:write", "expires": ""}
    assert client.post("/settings/keys", data=key, **at).status_code == 400
    token = re.search(r'name="csrf_token" value="([^"]+)"', client.get("/settings", **at).text)
    assert token is not None
    assert client.post("/settings/keys", data={**key, "csrf_token": token[1]}, **at).status_code == 302
    assert "Copy your new key now" in client.get("/settings", **at).text
    assert entries(behind_proxy)[0][:2] == ("create key", "ana")


def test_an_ingest_address_has_no_pages(app: Flask, behind_proxy: Flask) -> None:
    for path in ("/in/acme/sign-in", "/in/acme/settings", "/in/acme/"):
        assert app.test_client().get(path).status_code == 404
        at = {"environ_overrides": {"REMOTE_ADDR": PROXY}, "headers": {"Remote-User": "ana"}}
        assert behind_proxy.test_client().get(path, **at).status_code == 404
