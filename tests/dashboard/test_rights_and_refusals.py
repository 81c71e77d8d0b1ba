"""Signing in as somebody else, keys that may do nothing, and what an error page carries beside its text."""

import re
from collections.abc import Callable

import pytest
from flask import Flask

from obs.services import services
from obs.tenancy import service, store
from tests.conftest import ACME, KeyClient
from tests.dashboard.conftest import Visitor


def _labels(app: Flask) -> list[str]:
    with services(app).tenancy.control.read() as db:
        return [key.label for key in store.keys_of(db, ACME)]


def test_signing_in_with_a_key_leaves_nothing_of_the_session_before(
    app: Flask, new_client: Callable[..., KeyClient]
) -> None:
    """A one-time link makes an admin of one organization; a key that reads, of another, follows in the same browser."""
    reader = new_client("acme")
    new_client("globex")
    visitor = Visitor(app)
    token = service.create_sign_in_link(services(app).tenancy, "globex")
    visitor.use_link(token)
    visitor.get("/settings")
    token_before = visitor.token
    assert visitor.post("/settings/keys", label="mine", scopes="query:read").status_code == 302
    assert visitor.sign_in(str(reader.key)).status_code == 302

    visitor.token = token_before
    assert visitor.post("/settings/keys", label="old form", scopes="query:read").status_code == 400
    visitor.get("/")
    assert visitor.post("/settings/keys", label="own form", scopes="query:read").status_code == 403
    assert not {"old form", "own form"} & set(_labels(app))


def test_a_channel_without_an_event_is_explained(admin: Visitor) -> None:
    fields = {"form": "webhook", "name": "mine", "url": "https://example.com/hook", "secret": "s" * 16}
    refused = admin.post("/alerts", **fields, reminder_hours="1,5")
    assert refused.status_code == 422
    problems = re.findall(r'<p class="problem"[^>]*>([^<]*)</p>', refused.text)
    assert sorted(problems) == ["Enter a number, e.g. 30.", "Pick an event."]


@pytest.mark.parametrize("scopes", [[], ["everything"], ["query:read", "Admin"]])
def test_a_key_needs_scopes_that_there_are(app: Flask, new_client: Callable[..., KeyClient], scopes: list[str]) -> None:
    admin = new_client("acme", "admin")
    before = _labels(app)
    answer = admin.post("/api/v1/keys", json={"label": "x", "scopes": scopes})
    assert (answer.status_code, answer.json["error"]) == (422, "invalid_field")
    assert "scopes" in answer.json["errors"]["json"]
    assert _labels(app) == before


def test_the_form_makes_no_key_without_a_scope(app: Flask, admin: Visitor) -> None:
    before = _labels(app)
    answer = admin.post("/settings/keys", label="x")
    assert answer.status_code == 422
    assert "scope" in answer.text
    assert _labels(app) == before


def test_only_admins_of_the_organization_get_the_form_of_a_channel(
    new_client: Callable[..., KeyClient], admin: Visitor, reader: Visitor, stranger: Visitor
) -> None:
    client = new_client("acme", "admin")
    hook = {"name": "hook", "webhook": {"url": "https://example.com/x"}}
    number = client.post("/api/v1/channels", json=hook).json["id"]
    assert "Save channel" in admin.get(f"/alerts?id={number}").text
    assert "Save channel" not in reader.get(f"/alerts?id={number}").text
    assert stranger.get(f"/alerts?id={number}").status_code == 404
    form = {"form": "webhook", "id": number, "name": "mine", "url": "https://example.com/***", "events": ["failed"]}
    assert [visitor.post("/alerts", **form).status_code for visitor in (reader, stranger)] == [403, 404]
    assert client.get(f"/api/v1/channels/{number}").json["name"] == "hook"


def test_a_page_that_is_not_there_for_a_method_names_those_that_it_takes(admin: Visitor) -> None:
    answer = admin.post("/incidents")
    assert (answer.status_code, answer.mimetype) == (405, "text/html")
    assert {"GET", "HEAD"} <= set(re.split(r", *", answer.headers["Allow"]))


def test_a_page_that_cannot_be_shown_now_says_when_to_come_back(app: Flask, reader: Visitor) -> None:
    databases = services(app).tenancy.databases
    databases.forget(ACME)
    databases.path(ACME).rename(databases.path(ACME).with_suffix(".away"))
    answer = reader.get("/")
    assert (answer.status_code, answer.mimetype) == (503, "text/html")
    assert int(answer.headers["Retry-After"]) > 0


def test_a_page_depends_on_the_session_and_does_not_send_its_cookie_again(reader: Visitor) -> None:
    answer = reader.get("/incidents")
    assert "Cookie" in answer.headers["Vary"]
    assert "Set-Cookie" not in reader.get("/incidents").headers
