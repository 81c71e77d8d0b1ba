"""A change of a key in one process takes effect in every other process within a second."""

import pytest
from flask import Flask

from obs.tenancy import service, store
from obs.tenancy.auth import Tenancy
from obs.tenancy.keyring import KeyRing
from tests.conftest import ACME, Clock, KeyClient


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
def keyring(app: Flask, tenancy: Tenancy, seconds: Seconds, monkeypatch: pytest.MonkeyPatch) -> KeyRing:
    """The keys as another process has them in memory."""
    keyring = KeyRing(tenancy.control, tenancy.databases.forget)
    monkeypatch.setattr(keyring, "_monotonic", seconds)
    return keyring


def _revoke_all(tenancy: Tenancy) -> None:
    with tenancy.control.read() as db:
        found = store.keys_of(db, ACME)
    for key in found:
        service.revoke_key(tenancy, ACME, key.id)


def test_a_revoked_key_is_rejected_within_a_second(
    client: KeyClient, clock: Clock, keyring: KeyRing, seconds: Seconds, other_process: Tenancy
) -> None:
    assert client.key is not None
    assert keyring.find(client.key, clock.now_ms) is not None
    _revoke_all(other_process)
    seconds.now += 0.999
    assert keyring.find(client.key, clock.now_ms) is None


def test_a_new_key_works_within_a_second(
    client: KeyClient, clock: Clock, keyring: KeyRing, seconds: Seconds, other_process: Tenancy
) -> None:
    assert keyring.organizations() == [ACME]
    created = service.create_key(other_process, ACME, "new", ("admin",))
    seconds.now += 0.999
    assert keyring.find(created.key, clock.now_ms) is not None


def test_between_two_checks_the_control_file_is_not_read(
    client: KeyClient, clock: Clock, keyring: KeyRing, other_process: Tenancy
) -> None:
    """Otherwise every heartbeat would wait for it."""
    assert client.key is not None
    assert keyring.find(client.key, clock.now_ms) is not None
    _revoke_all(other_process)
    assert keyring.find(client.key, clock.now_ms) is not None


def test_a_deleted_organization_is_gone_within_a_second(
    client: KeyClient, clock: Clock, keyring: KeyRing, seconds: Seconds, other_process: Tenancy
) -> None:
    assert client.key is not None
    assert keyring.find(client.key, clock.now_ms) is not None
    service.delete_organization(other_process, ACME)
    seconds.now += 0.999
    assert keyring.find(client.key, clock.now_ms) is None
    assert keyring.organizations() == []


def test_a_last_use_that_could_not_be_stored_is_stored_later(
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
        assert store.keys_of(db, ACME)[0].last_used_at == clock.now_ms


def test_a_new_key_works_at_once(clock: Clock, keyring: KeyRing, client: KeyClient, other_process: Tenancy) -> None:
    """Even though the control file was checked for changes a moment ago, for other requests."""
    assert client.key is not None
    for number in range(3):
        assert keyring.find(client.key, clock.now_ms) is not None
        created = service.create_key(other_process, ACME, f"new {number}", ("admin",))
        assert keyring.find(created.key, clock.now_ms) is not None


def test_a_flood_of_wrong_keys_does_not_read_the_keys_again(
    clock: Clock, keyring: KeyRing, client: KeyClient, tenancy: Tenancy, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert keyring.find("wrong", clock.now_ms) is None
    monkeypatch.setattr(store, "valid_keys", lambda _: pytest.fail("the keys were read again"))
    for number in range(1_000):
        assert keyring.find(f"wrong-{number}", clock.now_ms) is None
