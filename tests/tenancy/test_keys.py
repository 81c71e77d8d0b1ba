"""Keys over HTTP: creating, listing, expiry, revocation and last use."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask

from obs.services import services
from obs.tenancy import keys, store
from obs.tenancy.auth import Tenancy
from obs.times import DAY_MS
from tests.conftest import ACME, Clock, KeyClient

KEYS = "/api/v1/keys"
PING = "/api/v1/heartbeat/backup/ping"


def _with(app: Flask, key: str) -> KeyClient:
    client = app.test_client()
    assert isinstance(client, KeyClient)
    client.key = key
    return client


def _create(admin: KeyClient, **fields: Any) -> dict[str, Any]:
    answer = admin.post(KEYS, json={"label": "test", **fields})
    assert answer.status_code == 201, answer.json
    assert isinstance(answer.json, dict)
    return answer.json


def test_a_new_key_works_and_is_shown_once(app: Flask, admin: KeyClient, tenancy: Tenancy) -> None:
    created = _create(admin, label="backup server")
    assert re.fullmatch(r"obs_acme_[0-9A-Za-z]{32}", created["key"])
    assert created["label"] == "backup server"
    assert created["scopes"] == ["heartbeat:write"]
    assert (created["created_at"], created["expires_at"]) == ("2026-06-21T10:00:00.000Z", None)
    assert _with(app, created["key"]).post(PING).status_code == 200
    listed = admin.get(KEYS)
    assert created["key"] not in listed.get_data(as_text=True)
    with tenancy.control.read() as db:
        stored = [bytes(row[0]) for row in db.execute("SELECT sha256 FROM api_keys")]
    assert keys.digest(created["key"]) in stored
    for file in tenancy.control.path.parent.glob("control.db*"):
        assert created["key"].encode() not in file.read_bytes()


def test_keys_are_listed_oldest_first_including_revoked_ones(admin: KeyClient, clock: Clock) -> None:
    first = _create(admin, label="first", scopes=["heartbeat:write"])
    second = _create(admin, label="second", expires_at="2026-07-01T00:00:00Z")
    clock.advance(minutes=1)
    assert admin.delete(f"{KEYS}/{first['id']}").status_code == 204
    listed = admin.get(KEYS).json
    assert listed is not None
    assert listed["keys"][1:] == [
        {
            "id": first["id"],
            "label": "first",
            "scopes": ["heartbeat:write"],
            "created_at": "2026-06-21T10:00:00.000Z",
            "expires_at": None,
            "revoked_at": "2026-06-21T10:01:00.000Z",
            "last_used_at": None,
        },
        {
            "id": second["id"],
            "label": "second",
            "scopes": ["heartbeat:write"],
            "created_at": "2026-06-21T10:00:00.000Z",
            "expires_at": "2026-07-01T00:00:00.000Z",
            "revoked_at": None,
            "last_used_at": None,
        },
    ]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({}, "label"),
        ({"label": ""}, "label"),
        ({"label": "x" * 201}, "label"),
        ({"label": 7}, "label"),
        ({"label": "\ud800"}, "label"),
        ({"label": "x", "scopes": []}, "scopes"),
        ({"label": "x", "scopes": ["root"]}, "scopes"),
        ({"label": "x", "scopes": "admin"}, "scopes"),
        ({"label": "x", "expires_at": "2026-06-21T10:00:00Z"}, "expires_at"),
        ({"label": "x", "expires_at": "tomorrow"}, "expires_at"),
        ({"label": "x", "org": "globex"}, "org"),
    ],
)
def test_an_invalid_key_is_rejected(admin: KeyClient, fields: dict[str, Any], field: str) -> None:
    answer = admin.post(KEYS, json=fields)
    assert answer.status_code == 422
    assert answer.json is not None
    assert field in answer.json["errors"]["json"]
    assert len(admin.get(KEYS).json["keys"]) == 1


def test_a_repeated_scope_counts_once(admin: KeyClient) -> None:
    assert _create(admin, scopes=["query:read", "query:read"])["scopes"] == ["query:read"]


def test_a_key_expires_exactly_on_time(app: Flask, admin: KeyClient, clock: Clock) -> None:
    client = _with(app, _create(admin, expires_at="2026-06-21T11:00:00Z")["key"])
    clock.advance(hours=1, ms=-1)
    assert client.post(PING).status_code == 200
    clock.advance(ms=1)
    assert client.post(PING).status_code == 401


def test_missing_unknown_revoked_and_expired_keys_are_unauthorized(app: Flask, admin: KeyClient, clock: Clock) -> None:
    revoked, expired = _create(admin), _create(admin, expires_at="2026-06-21T10:00:01Z")
    admin.delete(f"{KEYS}/{revoked['id']}")
    clock.advance(seconds=1)
    answers = [
        _with(app, key).post(PING)
        for key in ("obs_acme_" + "a" * 32, "nonsense", "\xff'--", revoked["key"], expired["key"])
    ]
    missing = app.test_client().post(PING)
    for answer in (*answers, missing):
        assert answer.status_code == 401
        assert answer.headers["WWW-Authenticate"] == "ApiKey"
    assert len({answer.get_data() for answer in answers}) == 1
    assert missing.json is not None
    assert "missing" in missing.json["message"]


def test_a_key_is_checked_before_the_body_is_read(app: Flask) -> None:
    assert app.test_client().post("/api/v1/heartbeat/start", data=b"{").status_code == 401


def test_a_revoked_key_is_rejected_immediately(app: Flask, admin: KeyClient) -> None:
    created = _create(admin)
    client = _with(app, created["key"])
    assert client.post(PING).status_code == 200
    assert admin.delete(f"{KEYS}/{created['id']}").status_code == 204
    assert client.post(PING).status_code == 401
    again = admin.delete(f"{KEYS}/{created['id']}")
    assert again.status_code == 404
    assert again.json is not None
    assert again.json["error"] == "key_not_found"


def test_a_key_of_another_organization_cannot_be_revoked(
    admin: KeyClient, new_client: Callable[..., KeyClient]
) -> None:
    created = _create(admin)
    other = new_client("globex", "admin")
    assert other.delete(f"{KEYS}/{created['id']}").status_code == 404
    listed = admin.get(KEYS).json
    assert listed is not None
    assert listed["keys"][-1]["revoked_at"] is None
    assert len(other.get(KEYS).json["keys"]) == 1


@pytest.mark.parametrize("key_id", ["0", "9223372036854775807", "9223372036854775808", "-1", "x"])
def test_revoking_an_unknown_key(admin: KeyClient, key_id: str) -> None:
    assert admin.delete(f"{KEYS}/{key_id}").status_code == 404


def test_the_last_use_is_visible_immediately_and_stored_later(
    app: Flask, admin: KeyClient, clock: Clock, tenancy: Tenancy, other_process: Tenancy
) -> None:
    created = _create(admin)
    clock.advance(minutes=5)
    _with(app, created["key"]).post(PING)
    listed = admin.get(KEYS).json
    assert listed is not None
    assert listed["keys"][-1]["last_used_at"] == "2026-06-21T10:05:00.000Z"

    def stored() -> int | None:
        with other_process.control.read() as db:
            return store.keys_of(db, ACME)[-1].last_used_at

    assert stored() is None
    services(app).background.tasks["last use of keys"].run()
    assert stored() == clock.now_ms
    listed = admin.get(KEYS).json
    assert listed is not None
    assert listed["keys"][-1]["last_used_at"] == "2026-06-21T10:05:00.000Z"


@pytest.mark.parametrize("stores", [True, False])
def test_the_last_use_by_a_clock_that_was_ahead_does_not_stay(
    app: Flask, admin: KeyClient, clock: Clock, *, stores: bool
) -> None:
    created = _create(admin)
    now_ms = clock.now_ms
    for clock.now_ms in (now_ms + 100 * DAY_MS, now_ms):
        _with(app, created["key"]).post(PING)
        if stores:
            services(app).background.tasks["last use of keys"].run()
    assert admin.get(KEYS).json["keys"][-1]["last_used_at"] == "2026-06-21T10:00:00.000Z"


def test_a_rejected_key_counts_as_unused(app: Flask, admin: KeyClient, clock: Clock) -> None:
    created = _create(admin, expires_at="2026-06-21T10:01:00Z")
    clock.advance(hours=1)
    _with(app, created["key"]).post(PING)
    assert admin.get(KEYS).json["keys"][-1]["last_used_at"] is None
