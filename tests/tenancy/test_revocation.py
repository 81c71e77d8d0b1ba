"""A key changed in one process is known to every other within a second."""

from functools import partial

import pytest
from flask import Flask

from obs.tenancy import store
from obs.tenancy.auth import Tenancy
from obs.tenancy.keyring import KeyRing
from tests.conftest import Clock, KeyClient


class Seconds:
    """A monotonic clock that the test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def seconds() -> Seconds:
    return Seconds()


@pytest.fixture
def keyring(app: Flask, tenancy: Tenancy, seconds: Seconds) -> KeyRing:
    """What another process knows of the keys."""
    return KeyRing(tenancy.control, tenancy.databases.forget, monotonic=seconds)


def _revoke_all(tenancy: Tenancy, now_ms: int) -> None:
    with tenancy.control.read() as db:
        found = store.keys_of(db, "acme")
    for key in found:
        tenancy.control.write(partial(store.revoke_key, org="acme", key_id=key.id, now_ms=now_ms))


def test_a_revoked_key_is_refused_within_a_second(
    client: KeyClient, clock: Clock, keyring: KeyRing, seconds: Seconds, other_process: Tenancy
) -> None:
    assert client.key is not None
    assert keyring.find(client.key, clock.now_ms) is not None
    _revoke_all(other_process, clock.now_ms)
    seconds.now += 0.999
    assert keyring.find(client.key, clock.now_ms) is None


def test_a_new_key_works_within_a_second(
    client: KeyClient, clock: Clock, keyring: KeyRing, seconds: Seconds, other_process: Tenancy
) -> None:
    assert keyring.organizations() == ["acme"]
    added = other_process.control.write(lambda db: store.add_key(db, "acme", "new", ("admin",), None, clock.now_ms))
    assert added is not None
    seconds.now += 0.999
    assert keyring.find(added[1], clock.now_ms) is not None


def test_between_two_looks_the_control_file_is_left_alone(
    client: KeyClient, clock: Clock, keyring: KeyRing, other_process: Tenancy
) -> None:
    """Or every heartbeat would wait for it."""
    assert client.key is not None
    assert keyring.find(client.key, clock.now_ms) is not None
    _revoke_all(other_process, clock.now_ms)
    assert keyring.find(client.key, clock.now_ms) is not None


def test_a_deleted_organization_is_gone_within_a_second(
    client: KeyClient, clock: Clock, keyring: KeyRing, seconds: Seconds, other_process: Tenancy
) -> None:
    assert client.key is not None
    assert keyring.find(client.key, clock.now_ms) is not None
    other_process.control.write(lambda db: store.delete_organization(db, "acme"))
    seconds.now += 0.999
    assert keyring.find(client.key, clock.now_ms) is None
    assert keyring.organizations() == []


def test_a_use_that_could_not_be_written_down_is_not_forgotten(
    client: KeyClient, clock: Clock, keyring: KeyRing, other_process: Tenancy
) -> None:
    assert client.key is not None
    keyring.find(client.key, clock.now_ms)
    other_process.control.write(lambda db: db.execute("ALTER TABLE api_keys RENAME TO elsewhere"))
    with pytest.raises(Exception, match="api_keys"):
        keyring.flush_last_used()
    other_process.control.write(lambda db: db.execute("ALTER TABLE elsewhere RENAME TO api_keys"))
    keyring.flush_last_used()
    with other_process.control.read() as db:
        assert store.keys_of(db, "acme")[0].last_used_at == clock.now_ms
