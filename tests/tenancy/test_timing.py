"""Response times reveal nothing about secrets: all invalid secrets take the same path through the code.

The tests compare paths and do not measure time, because timing on a busy machine is unreliable.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from flask import Flask

import obs
from obs.tenancy import keyring, keys, service, store
from obs.tenancy.auth import Tenancy
from tests.conftest import ACME, Clock, KeyClient

HERE = str(Path(obs.__file__).parent)


def _path(call: Callable[[], Any]) -> list[str]:
    """The functions of this project that `call` enters, in order."""
    entered: list[str] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(HERE):
            entered.append(f"{Path(frame.f_code.co_filename).name}:{frame.f_code.co_qualname}")

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return entered


@pytest.fixture
def no_reload(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys are not reloaded during the test."""
    monkeypatch.setattr(keyring.KeyRing, "_reload_if_changed", lambda *_, **__: None)


def test_all_invalid_keys_take_the_same_path(
    app: Flask, tenancy: Tenancy, new_client: Callable[..., KeyClient], clock: Clock, no_reload: None
) -> None:
    valid, revoked, expired = (str(new_client("acme", "admin").key) for _ in range(3))
    with tenancy.control.read() as db:
        ids = [key.id for key in store.keys_of(db, ACME)]
    service.revoke_key(tenancy, ACME, ids[1])
    tenancy.control.write(lambda db: db.execute("UPDATE api_keys SET expires_at = 1 WHERE id = ?", (ids[2],)))
    tenancy.keyring.reload()
    ask = app.test_client()

    def path(key: str) -> list[str]:
        return _path(lambda: ask.get("/api/v1/jobs", headers={"X-API-Key": key}))

    path("x")  # the first one looks up the metrics of its status
    known = path(valid)
    almost = valid[:-1] + ("0" if valid[-1] != "0" else "1")
    paths = [path(key) for key in (revoked, expired, almost, valid[:10], "obs_globex_" + "0" * 32, "x", "x" * 5_000)]
    assert paths == [paths[0]] * len(paths)
    assert any("digest" in step for step in paths[0])
    assert known != paths[0]  # the comparison does detect a difference


def test_all_invalid_sign_in_tokens_take_the_same_path(
    app: Flask, tenancy: Tenancy, client: KeyClient, clock: Clock
) -> None:
    used, valid, expired = (service.create_sign_in_link(tenancy, "acme") for _ in range(3))
    service.use_sign_in_link(tenancy, used)

    def path(token: str) -> list[str]:
        return _path(lambda: tenancy.control.write(lambda db: store.find_sign_in_link(db, token, clock.now_ms)))

    path("x")  # the first one looks up the metrics of its status
    known = path(valid)
    clock.advance(hours=24)
    paths = [path(token) for token in (used, expired, "unknown", valid[:-1])]
    assert paths == [known] * len(paths)


def test_secrets_are_looked_up_by_digest_and_never_compared(app: Flask, tenancy: Tenancy, client: KeyClient) -> None:
    token = service.create_sign_in_link(tenancy, "acme")
    with tenancy.control.read() as db:
        stored = [
            row[0] for row in db.execute("SELECT sha256 FROM api_keys UNION ALL SELECT sha256 FROM sign_in_links")
        ]
    assert sorted(stored) == sorted([keys.digest(str(client.key)), keys.digest(token)])
