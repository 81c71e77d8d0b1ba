"""The access log: what a line contains, and that it contains no secret."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from obs.config import ConfigError, load as load_settings
from obs.services import services
from obs.tenancy import service
from tests.conftest import KeyClient
from tests.dashboard.conftest import Visitor
from tests.server import Server

PING = "/api/v1/heartbeat/backup/ping"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "access.jsonl"


@pytest.fixture
def logging_app(make_app: Callable[..., Flask], path: Path) -> Flask:
    return make_app(ACCESS_LOG=str(path), TRUSTED_PROXIES="10.0.0.1")


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_line_for_each_request(
    logging_app: Flask, new_client: Callable[..., KeyClient], path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = new_client("acme", app=logging_app)
    with services(logging_app).tenancy.control.read() as db:
        (key_id,) = db.execute("SELECT id FROM api_keys").fetchone()
    answer = client.post(f"{PING}?message=a%20b", environ_base={"REMOTE_ADDR": "192.0.2.1"})
    client.get("/api/v1/jobs", headers={"X-Forwarded-For": "198.51.100.7"}, environ_base={"REMOTE_ADDR": "10.0.0.1"})
    client.post("/api/v1/keys", json={})  # without the scope
    client.head(PING)
    client.get(PING, headers={"X-API-Key": "wrong"})
    client.get("/in/acme/nothing")
    client.get("/api/v1/heartbeat/Gr%C3%BC%C3%9Fe/ping")
    monkeypatch.setattr("obs.ingest.endpoint.record", lambda *_: 1 / 0)
    broken = client.post(PING)
    lines = _lines(path)
    milliseconds = lines[0].pop("ms")
    assert 0 < milliseconds < 60_000
    assert lines[0] == {
        "time": "2026-06-21T10:00:00.000Z",
        "client": "192.0.2.1",
        "method": "POST",
        "path": f"{PING}?message=a b",
        "status": 200,
        "bytes": len(answer.data),
        "organization": "acme",
        "key": key_id,
        "request_id": answer.headers["X-Request-Id"],
    }
    assert [(line["method"], line["status"], line["organization"]) for line in lines] == [
        ("POST", 200, "acme"),
        ("GET", 200, "acme"),
        ("POST", 403, "acme"),
        ("HEAD", 200, "acme"),
        ("GET", 401, None),
        ("GET", 404, None),
        ("GET", 200, "acme"),
        ("POST", 500, "acme"),
    ]
    assert (lines[1]["client"], lines[3]["bytes"]) == ("198.51.100.7", 0)
    assert [line["path"] for line in lines[5:7]] == ["/in/acme/nothing", "/api/v1/heartbeat/Grüße/ping"]
    assert lines[7]["request_id"] == broken.headers["X-Request-Id"]


def test_a_page_is_logged_with_its_viewer(logging_app: Flask, new_client: Callable[..., KeyClient], path: Path) -> None:
    key = str(new_client("acme", app=logging_app).key)
    by_key, by_link = Visitor(logging_app), Visitor(logging_app)
    by_key.sign_in(key)
    by_key.get("/projects")
    by_link.use_link(service.create_sign_in_link(services(logging_app).tenancy, "acme"))
    by_link.get("/projects")
    pages = [line for line in _lines(path) if line["path"] == "/projects"]
    assert [(line["organization"], line["key"] is None) for line in pages] == [("acme", False), ("acme", True)]


def test_no_line_contains_a_key_or_a_token(
    logging_app: Flask, new_client: Callable[..., KeyClient], path: Path
) -> None:
    client = new_client("acme", "admin", app=logging_app)
    key, visitor = str(client.key), Visitor(logging_app)
    token = service.create_sign_in_link(services(logging_app).tenancy, "acme")
    unused = service.create_sign_in_link(services(logging_app).tenancy, "acme")
    visitor.sign_in(key)
    visitor.use_link(token)
    encoded = key.replace("_", "%5F")
    for address in (
        f"/sign-in/{unused}",
        f"/SIGN-IN/{unused}",
        f"/in/acme/sign-in/{unused}",
        f"/sign-in?next=%2Fsign-in%2F{unused}",
        f"/api/v1/jobs?api_key={key}",
        f"/api/v1/jobs?message={key}",
        f"/api/v1/jobs?message={encoded}",
        f"/{key}/ping",
        f"/{encoded}/ping",
        "/jobs?Token=hunter2&page=2",
        "/jobs?to%6ben=hunter2",
        "/jobs?a=1&csrf_token=x%26hunter2",
        "/jobs?PASSWORD=hunter2&clientsecret=hunter2",
    ):
        client.get(address)
    client.post("/api/v1/keys", json={"label": "x", "scopes": ["admin"]})
    text = path.read_text()
    for secret in (key, key.rpartition("_")[2], encoded, token, unused, "hunter2"):
        assert secret not in text
    assert "/sign-in/***" in text
    assert "/jobs?Token=***&page=2" in text
    assert len(text.splitlines()) >= 17


def test_a_file_that_was_renamed_is_replaced(
    make_app: Callable[..., Flask], path: Path, new_client: Callable[..., KeyClient]
) -> None:
    for number in range(2):
        app = make_app(ACCESS_LOG=str(path))
        app.test_client().get("/healthz")
        assert len(_lines(path)) == 1
        path.rename(path.with_suffix(f".{number}"))


def test_a_log_that_cannot_be_written_stops_no_request(
    make_app: Callable[..., Flask], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    app = make_app(ACCESS_LOG=str(tmp_path / "missing" / "access.jsonl"))
    assert [app.test_client().get("/healthz").status_code for _ in range(3)] == [200] * 3
    assert caplog.text.count("cannot write the access log") == 1


def test_a_log_on_standard_error(make_app: Callable[..., Flask], capsys: pytest.CaptureFixture[str]) -> None:
    assert make_app(ACCESS_LOG="-").test_client().get("/healthz").status_code == 200
    assert json.loads(capsys.readouterr().err)["path"] == "/healthz"


def test_the_log_of_a_server_is_complete_after_it_stops(tmp_path: Path) -> None:
    folder, path = tmp_path / "instance", tmp_path / "access.jsonl"
    folder.mkdir()
    (folder / "config.toml").write_text(f'access_log = "{path}"\nlog_level = "debug"\n')
    server = Server(folder).wait_until_ready()
    for _ in range(20):
        assert server.ask("POST", PING, headers={"X-API-Key": server.key()}).status == 200
    assert server.stop()[0] == 0
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["client"] for line in lines if line["path"] == PING] == ["127.0.0.1"] * 20
    assert " DEBUG " in server.printed()


def test_the_level_of_the_log_is_checked(tmp_path: Path) -> None:
    assert load_settings(tmp_path, {"OBS_LOG_LEVEL": "debug"})["LOG_LEVEL"] == "debug"
    with pytest.raises(ConfigError, match="debug or info or warning or error, but is 'loud'"):
        load_settings(tmp_path, {"OBS_LOG_LEVEL": "loud"})


def test_ping_urls_and_ping_keys_are_masked(
    logging_app: Flask, new_client: Callable[..., KeyClient], path: Path
) -> None:
    client = new_client("acme", app=logging_app)
    client.get(PING)
    url = client.get("/api/v1/jobs/backup").json["ping_url"]
    uuid = url.rpartition("/")[2]
    key = new_client("acme", "admin", app=logging_app).post("/api/v1/keys", json={"label": "p", "scopes": ["ping"]})
    secrets = [uuid, key.json["key"], "mistyped"]
    web = logging_app.test_client()
    for sent in (
        f"{url}/start?rid=1b671a64-40d5-491e-99b0-da01ff1f3341",
        f"/api/push/{uuid}?status=up",
        f"/ping/{secrets[1]}/nightly/0",
        "/ping/mistyped/nightly",
        f"/api/v3/checks/{uuid}/pings/",
        f"/api/1/cron/nightly/{uuid}/?check_in_id=1b671a64-40d5-491e-99b0-da01ff1f3341",
        f"/ping//{uuid.upper()}",
        f"/api/1/cron/nightly/{secrets[1]}/?status=ok",
        f"/api/1/envelope/?sentry_key={secrets[1]}",
    ):
        web.get(sent)
    lines = _lines(path)[-9:]
    assert [line["path"] for line in lines] == [
        "/in/acme/ping/***/start?rid=1b671a64-40d5-491e-99b0-da01ff1f3341",
        "/api/push/***?status=up",
        "/ping/***/nightly/0",
        "/ping/***/nightly",
        "/api/v3/checks/***/pings/",
        "/api/1/cron/nightly/***/?check_in_id=1b671a64-40d5-491e-99b0-da01ff1f3341",
        "/ping//***",
        "/api/1/cron/nightly/***/?status=ok",
        "/api/1/envelope/?sentry_key=***",
    ]
    assert [line["organization"] for line in lines] == ["acme", "acme", "acme", None, None, None, None, "acme", None]
    metrics = web.get("/metrics").text
    assert not [secret for secret in secrets if secret in path.read_text() or secret in metrics]
