"""The time of an answer tells nothing of a secret: every secret that is not valid takes the same way through the code.

Times themselves are not measured here; a noisy machine would decide such a test.
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
from tests.conftest import Clock, KeyClient

HERE = str(Path(obs.__file__).parent)


def _way(call: Callable[[], Any]) -> list[str]:
    """The functions of this project that `call` goes through, in order."""
    passed: list[str] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(HERE):
            passed.append(f"{Path(frame.f_code.co_filename).name}:{frame.f_code.co_qualname}")

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return passed


@pytest.fixture
def never_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The keys are not read anew in the middle of it."""
    monkeypatch.setattr(keyring.KeyRing, "_look", lambda _: None)


def test_all_keys_that_are_not_valid_take_the_same_way(
    app: Flask, tenancy: Tenancy, new_client: Callable[..., KeyClient], clock: Clock, never_looks: None
) -> None:
    valid, revoked, expired = (str(new_client("acme", "admin").key) for _ in range(3))
    with tenancy.control.read() as db:
        ids = [key.id for key in store.keys_of(db, "acme")]
    tenancy.control.write(lambda db: store.revoke_key(db, "acme", ids[1], clock.now_ms))
    tenancy.control.write(lambda db: db.execute("UPDATE api_keys SET expires_at = 1 WHERE id = ?", (ids[2],)))
    tenancy.keyring.reload()
    ask = app.test_client()

    def way(key: str) -> list[str]:
        return _way(lambda: ask.get("/api/v1/jobs", headers={"X-API-Key": key}))

    known = way(valid)
    almost = valid[:-1] + ("0" if valid[-1] != "0" else "1")
    ways = [way(key) for key in (revoked, expired, almost, valid[:10], "obs_globex_" + "0" * 32, "x", "x" * 5_000)]
    assert ways == [ways[0]] * len(ways)
    assert any("digest" in step for step in ways[0])
    assert known != ways[0]  # the walk does see a difference where there is one


def test_all_sign_in_tokens_that_are_not_valid_take_the_same_way(
    app: Flask, tenancy: Tenancy, client: KeyClient, clock: Clock
) -> None:
    used, valid, expired = (service.create_sign_in_link(tenancy, "acme") for _ in range(3))
    visitor = app.test_client()
    assert visitor.get(f"/sign-in/{used}").status_code == 302

    def way(token: str) -> list[str]:
        return _way(lambda: tenancy.control.write(lambda db: store.take_sign_in_link(db, token, clock.now_ms)))

    known = way(valid)
    clock.advance(hours=24)
    ways = [way(token) for token in (used, expired, "never made", valid[:-1])]
    assert ways == [known] * len(ways)


def test_secrets_are_looked_up_by_digest_and_never_compared(app: Flask, tenancy: Tenancy, client: KeyClient) -> None:
    token = service.create_sign_in_link(tenancy, "acme")
    with tenancy.control.read() as db:
        stored = [
            row[0] for row in db.execute("SELECT sha256 FROM api_keys UNION ALL SELECT sha256 FROM sign_in_links")
        ]
    assert sorted(stored) == sorted([keys.digest(str(client.key)), keys.digest(token)])
