"""Other sites, other hosts and other tabs can do nothing with the pages and their sessions."""

import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from tests.conftest import KeyClient
from tests.dashboard.conftest import NewClient, Visitor

ELSEWHERE = [
    "//evil.example",
    "///evil.example",
    "/\\evil.example",
    "\\\\evil.example",
    "/\\/evil.example",
    "https:evil.example",
    "https:/evil.example",
    "http://evil.example",
    "javascript:alert(1)",
    "/\t/evil.example",
    "/\n/evil.example",
    "/\r\nSet-Cookie: a=b",
    "\t//evil.example",
    " //evil.example",
    "/\x00/evil.example",
    "evil.example",
    "@evil.example",
    "",
]


def _pages(app: Flask) -> Iterator[tuple[str, str]]:
    """Method and path of every page, with numbers and names filled in."""
    for rule in app.url_map.iter_rules():
        if not rule.rule.startswith("/api/v1/") and rule.endpoint.partition(".")[0] in ("dashboard", "docs"):
            path = rule.rule.replace("<path:filename>", "style.css" if "dashboard" in rule.endpoint else "docs.css")
            path = re.sub(r"<(?:[^:<>]*(?:\([^)]*\))?:)?(\w+)>", lambda found: VALUES.get(found[1], "1"), path)
            for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}:
                yield method, path


KINDS = {"kind": "csv", "verb": "delete", "what": "acknowledge", "action": "pause"}
VALUES = {"token": "none", "name": "swagger-ui.css", "number": "9", **KINDS}
POSTS_AT_LEAST = 15


def _cookie(visitor: Visitor) -> str:
    cookie = visitor.client.get_cookie("obs_session")
    assert cookie is not None
    return cookie.value


def test_every_page_has_its_security_headers(app: Flask, admin: Visitor, client: KeyClient) -> None:
    client.post("/api/v1/heartbeat/start", json={"name": "backup"})
    client.post("/api/v1/annotations", json={"name": "deploy/web", "title": "web"})
    kinds = set()
    for method, path in _pages(app):
        if method != "GET":
            continue
        answer = admin.get(path, buffered=True)
        kinds.add(answer.mimetype)
        assert answer.headers["X-Content-Type-Options"] == "nosniff", path
        assert "Cache-Control" in answer.headers, path
        if not re.match(r"/(static|library|api/docs/(static|dist))/", path):
            assert answer.headers["Cache-Control"] in ("no-store", "private, no-cache"), path
        if answer.mimetype == "text/html":
            policy = dict(part.strip().split(" ", 1) for part in answer.headers["Content-Security-Policy"].split(";"))
            assert policy["default-src"] == "'none'", path
            assert policy["script-src"] == "'self'", path
            assert policy["frame-ancestors"] == "'none'", path
            assert policy["base-uri"] == "'none'", path
            assert answer.headers["X-Frame-Options"] == "DENY", path
            assert not re.search(r"<script(?![^>]*(\bsrc=|type=.application/json.))|\son\w+=", answer.text), path
    assert {"text/html", "text/css", "application/json", "text/csv"} & kinds >= {"text/html", "text/css"}


@pytest.mark.parametrize("path", ["/api/v1/jobs", "/api/v1/keys", "/api/v1/annotations/1", "/api/v1/nothing"])
def test_caches_keep_no_response_of_the_api(new_client: NewClient, path: str) -> None:
    client = new_client("acme", "admin")
    client.post("/api/v1/annotations", json={"name": "deploy/web", "title": "web"})
    answer = client.get(path)
    assert answer.headers["Cache-Control"] in ("no-store", "private, no-cache")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_a_form_without_the_token_of_its_session_is_refused(
    app: Flask, admin: Visitor, stranger: Visitor, client: KeyClient
) -> None:
    client.post("/api/v1/heartbeat/ping", json={"name": "backup"})
    before = admin.get("/settings").text
    posts = [path for method, path in _pages(app) if method == "POST"]
    assert len(posts) >= POSTS_AT_LEAST
    for path in posts:
        for token in (None, "", "x", stranger.token):
            fields = {"name": "backup", "label": "x", "scopes": "admin"} | (
                {} if token is None else {"csrf_token": token}
            )
            answer = admin.client.post(path, data=fields)
            assert answer.status_code == 400, (path, token)
            assert "Your session changed" in answer.text
            assert "Go back and submit again." in answer.text
    assert client.get("/api/v1/jobs/backup").status_code == 200
    assert re.findall("<tr.*", admin.get("/settings").text) == re.findall("<tr.*", before)


def test_a_form_without_a_session_or_with_read_only_access_is_refused(app: Flask, reader: Visitor) -> None:
    for method, path in _pages(app):
        if method == "POST" and not path.startswith("/sign-"):
            assert Visitor(app).post(path).status_code == 401, path
            assert reader.post(path).status_code == 403, path


def test_every_page_requires_a_session(app: Flask) -> None:
    for method, path in _pages(app):
        if method == "GET" and not path.startswith(("/sign-in", "/static/", "/api/docs/")):
            answer = Visitor(app).get(path)
            assert answer.status_code == 302, path
            assert answer.location.startswith("/sign-in"), path


@pytest.mark.parametrize("elsewhere", ELSEWHERE)
def test_signing_in_leads_to_no_other_site(app: Flask, client: KeyClient, elsewhere: str) -> None:
    visitor = Visitor(app)
    visitor.get("/sign-in", query_string={"next": elsewhere})
    answer = visitor.post("/sign-in", key=str(client.key), next=elsewhere)
    assert answer.location == "/"
    assert "a" not in {cookie.partition("=")[0] for cookie in answer.headers.getlist("Set-Cookie")}


def test_a_session_from_before_signing_in_is_useless_afterwards(app: Flask, client: KeyClient) -> None:
    visitor = Visitor(app)
    visitor.get("/sign-in")
    planted = _cookie(visitor)
    visitor.sign_in(str(client.key))
    assert _cookie(visitor) != planted
    thief = Visitor(app)
    thief.client.set_cookie("obs_session", planted)
    assert thief.get("/").status_code == 302


def test_a_token_from_before_signing_in_is_refused_after(app: Flask, new_client: NewClient) -> None:
    visitor = Visitor(app)
    visitor.get("/sign-in")
    before = visitor.token
    visitor.sign_in(str(new_client("acme", "admin").key))
    visitor.token = before
    assert visitor.post("/settings/keys", label="x", scopes="query:read", expires="").status_code == 400


def test_a_method_that_a_page_does_not_accept_is_refused_with_those_that_it_does(admin: Visitor) -> None:
    refused = admin.client.put("/settings")
    assert (refused.status_code, refused.mimetype) == (405, "text/html")
    assert "GET" in refused.headers["Allow"]


def test_sessions_survive_a_restart_and_are_signed_with_a_long_secret(
    make_app: Callable[..., Flask], reader: Visitor, app: Flask
) -> None:
    restarted = make_app()
    assert restarted.secret_key == app.secret_key
    assert len(str(app.secret_key)) >= 43
    cookie = reader.client.get_cookie("obs_session")
    assert cookie is not None
    visitor = Visitor(restarted)
    visitor.client.set_cookie("obs_session", cookie.value)
    assert visitor.get("/").status_code == 200


def test_a_forged_session_is_ignored(app: Flask, client: KeyClient) -> None:
    visitor = Visitor(app)
    visitor.sign_in(str(client.key))
    payload, moment, signature = _cookie(visitor).rsplit(".", 2)
    for forged in (
        f"{payload}.{moment}.{'A' * len(signature)}",
        f"{payload[:-2]}xx.{moment}.{signature}",
        "x",
        "." * 10,
        "\ud800".encode("utf-8", "surrogatepass").decode("latin-1"),
    ):
        other = Visitor(app)
        other.client.set_cookie("obs_session", forged)
        assert other.get("/").status_code == 302


def test_a_cookie_ends_after_its_time(app: Flask, reader: Visitor) -> None:
    assert app.permanent_session_lifetime == timedelta(days=400)
    assert reader.get("/").status_code == 200
    app.config["PERMANENT_SESSION_LIFETIME"] = timedelta(seconds=-1)
    assert reader.get("/").status_code == 302


def test_the_cookie_belongs_only_to_this_host_behind_https(make_app: Callable[..., Flask]) -> None:
    visitor = Visitor(make_app(BASE_URL="https://obs.example.com"))
    (cookie,) = visitor.client.get("/sign-in", base_url="https://obs.example.com").headers.getlist("Set-Cookie")
    name, _, attributes = cookie.partition("=")
    assert name == "__Host-obs_session"
    assert {"Secure", "HttpOnly", "SameSite=Lax", "Path=/"} <= {part.strip() for part in attributes.split(";")}
    assert "Domain" not in attributes


def test_the_api_ignores_sessions(admin: Visitor) -> None:
    assert admin.get("/").status_code == 200
    assert admin.client.get("/api/v1/jobs").status_code == 401


@pytest.mark.parametrize("header", ["Host", "X-Forwarded-Host", "Forwarded", "X-Original-URL", "X-Forwarded-Proto"])
def test_no_url_is_taken_from_a_header(
    app: Flask, admin: Visitor, new_client: NewClient, header: str, client: KeyClient
) -> None:
    value = "host=evil.example" if header == "Forwarded" else "evil.example"
    headers: dict[str, Any] = {header: value, "Cookie": f"obs_session={_cookie(admin)}"}
    asking = app.test_client(use_cookies=False)
    for method, path in _pages(app):
        if method == "GET" and not path.startswith("/library/"):  # a file, slow to make
            answer = asking.get(path, headers=headers, buffered=True)
            assert answer.status_code != 302, path
            if answer.mimetype == "text/html":
                assert "evil.example" not in answer.text, path
    assert "evil.example" not in asking.get("/settings", headers={header: value}).location
    created = client.post("/api/v1/annotations", json={"name": "a", "title": "b"}, headers={header: value})
    assert created.headers["Location"] == "/api/v1/annotations/1"


def test_an_empty_secret_key_is_replaced(make_app: Callable[..., Flask], tmp_path: Path) -> None:
    path = tmp_path / "instance" / "secret_key"
    path.write_text("")
    app = make_app()
    assert path.read_text() == app.secret_key
    assert app.test_client().get("/sign-in").status_code == 200
