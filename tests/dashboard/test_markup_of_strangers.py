"""Markup that clients send as names, texts and parameters is text on every page, in whatever place of it."""

from urllib.parse import quote

import pytest
from flask import Flask

from tests.conftest import KeyClient
from tests.dashboard.conftest import NewClient, Visitor

MARKUP = (
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>",
    "' onmouseover='alert(1)",
    "</script><script>alert(1)</script>",
    "{{ 7 * 191 }}",
    "<!--",
    "javascript:alert(1)",
)  # fmt: skip
RAW = ("<script>alert(1)", "<img src=x", "onmouseover='alert", "1337", "<!--", 'href="javascript:', "href='javascript:")


def _report(client: KeyClient, text: str) -> int:
    """A job, a run, messages and an annotation that hold `text` wherever a client may put it; the run's number."""
    ascii_headers = dict.fromkeys(("X-Platform-Host", "X-Platform-Service", "X-Platform-Project"), text)
    started = client.post("/api/v1/heartbeat/start", json={"name": text, "run_id": text}, headers=ascii_headers)
    assert started.status_code == 200, started.text
    for kind in ("log", "end"):
        said = {"name": text, "run_id": text, "message": text}
        assert client.post(f"/api/v1/heartbeat/{kind}", json=said).status_code == 200
    marker = {"name": text, "title": text, "description": text, "idempotency_key": text}
    assert client.post("/api/v1/annotations", json=marker).status_code == 201
    window = {"title": text, "start_time": "2026-06-21T11:00:00Z", "end_time": "2026-06-21T12:00:00Z"}
    assert client.post("/api/v1/maintenance", json=window).status_code == 201
    assert client.post("/api/v1/keys", json={"label": text}).status_code == 201
    return int(started.json["run_id"])


@pytest.mark.parametrize("text", MARKUP)
def test_markup_is_text_wherever_it_is_shown(admin: Visitor, new_client: NewClient, text: str) -> None:
    number = _report(new_client("acme", "admin"), text)
    given = quote(text, safe="")
    statement = quote("SELECT time, job, message FROM logs LIMIT 10 LAST 1d", safe="")
    shown = 0
    for path in (
        "/",
        f"/?q={given}&project={given}",
        "/projects",
        "/alerts",
        "/annotations",
        f"/annotations?q={given}&name_prefix={given}",
        "/annotations/1",
        "/settings",
        f"/query?q={statement}&over=all",
        f"/query?q={given}&over={given}",
        f"/job?name={given}",
        f"/job?name=none{given}",
        f"/job/run/{number}",
        f"/sign-in?next={given}",
        f"/{given}",
        f"/annotations?start={given}",
    ):
        answer = admin.get(path)
        assert answer.mimetype == "text/html", path
        shown += "alert(1)" in answer.text or "7 * 191" in answer.text or "&lt;!--" in answer.text
        for raw in RAW:
            assert raw not in answer.text, (path, raw)
    assert shown >= 8


def test_an_address_that_runs_is_no_link(app: Flask, admin: Visitor, client: KeyClient) -> None:
    for url in ("javascript:alert(1)", "JaVaScRiPt:alert(1)", "data:text/html,x", " javascript:alert(1)", "//x"):
        fields = {"name": "a", "title": "b", "url": url}
        assert client.post("/api/v1/annotations", json=fields).status_code == 422
        assert admin.post("/annotations", **fields).status_code == 422


def test_what_is_taken_away_is_no_page(admin: Visitor, client: KeyClient) -> None:
    client.post("/api/v1/heartbeat/ping", json={"name": MARKUP[0]})
    statement = quote("SELECT job FROM runs LAST 1d", safe="")
    for kind, mimetype in (("csv", "text/csv"), ("json", "application/json")):
        answer = admin.get(f"/query/answer.{kind}?q={statement}")
        assert answer.mimetype == mimetype
        assert answer.headers["Content-Disposition"].startswith("attachment")
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
