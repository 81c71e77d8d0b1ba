"""Who a key belongs to, from memory: a request never waits for the control file."""

import logging
import sqlite3
import threading
import time
from collections.abc import Callable
from dataclasses import replace

from obs.errors import ServiceError
from obs.storage.connection import explained, open_reader
from obs.storage.file import DatabaseFile
from obs.tenancy import keys, store
from obs.tenancy.store import Credential

_LOOK_EVERY_SECONDS = 0.25
_log = logging.getLogger(__name__)


class KeyRing:
    """All valid keys, read anew when the control file has changed, by whatever process.

    A key that was revoked elsewhere is refused within _LOOK_EVERY_SECONDS, one that this process revoked at once
    (`reload`). `on_change` is called with the slug of an organization that was made or deleted.
    `monotonic` gives seconds that only ever grow.
    """

    def __init__(
        self, control: DatabaseFile, on_change: Callable[[str], None], monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._control = control
        self._on_change = on_change
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._probe: sqlite3.Connection | None = None
        self._next_look = 0.0
        self._data_version = -1
        self._version = -1
        self._credentials: dict[bytes, Credential] = {}
        self._by_id: dict[int, Credential] = {}
        self._organizations: dict[str, int] = {}
        self._last_used: dict[int, int] = {}
        self._trouble: str | None = None

    def find(self, key: str, now_ms: int) -> Credential | None:
        """What `key` stands for; None if it is unknown, revoked or expired."""
        self._look()
        return self._valid(self._credentials.get(keys.digest(key)), now_ms)

    def find_by_id(self, key_id: int, now_ms: int) -> Credential | None:
        """What the key of that id stands for, for a session that it began; None if it is revoked or expired."""
        self._look()
        return self._valid(self._by_id.get(key_id), now_ms)

    def organization_id(self, org: str) -> int | None:
        """The id of the organization of that slug. One that is deleted and made anew has another."""
        self._look()
        return self._organizations.get(org)

    def organizations(self) -> list[str]:
        """The slugs of all organizations."""
        self._look()
        return list(self._organizations)

    def reload(self) -> None:
        """Read the keys anew now: this process has changed them."""
        with self._lock:
            self._read()

    def with_last_use(self, keys_of_org: list[store.Key]) -> list[store.Key]:
        """The same keys, with uses that are not written down yet."""
        return [
            replace(key, last_used_at=max(key.last_used_at or 0, self._last_used.get(key.id, 0)) or None)
            for key in keys_of_org
        ]

    def flush_last_used(self) -> None:
        """Write down when keys were last used."""
        last_used, self._last_used = self._last_used, {}
        if last_used:
            try:
                self._control.write(lambda db: store.record_last_use(db, last_used))
            except Exception:
                self._last_used = {**last_used, **self._last_used}
                raise

    def close(self) -> None:
        """Close the connection that watches the control file."""
        with self._lock:
            if self._probe is not None:
                self._probe.close()
                self._probe = None

    def _valid(self, credential: Credential | None, now_ms: int) -> Credential | None:
        if credential is None or (credential.expires_at is not None and credential.expires_at <= now_ms):
            return None
        self._last_used[credential.key_id] = now_ms
        return credential

    def _look(self) -> None:
        """Every now and then, see whether the control file has changed. Others go on meanwhile with what is known."""
        if self._monotonic() < self._next_look or not self._lock.acquire(blocking=self._version < 0):
            return
        try:
            self._next_look = self._monotonic() + _LOOK_EVERY_SECONDS
            with explained():
                if self._probe is None:
                    self._probe = open_reader(self._control.path, busy_seconds=5)
                    self._data_version = -1  # each connection counts for itself
                data_version = self._probe.execute("PRAGMA data_version").fetchone()[0]
            if data_version != self._data_version:
                self._read()
                self._data_version = data_version
            self._trouble = None
        except ServiceError as error:
            # Heartbeats of keys that are known are taken all the same; /readyz tells.
            if self._version < 0:
                raise
            if self._trouble != error.message:
                _log.error("%s cannot be read, the keys known so far go on: %s", self._control.path, error.message)
            self._trouble = error.message
            if self._probe is not None:
                self._probe.close()
                self._probe = None
        finally:
            self._lock.release()

    def _read(self) -> None:
        with self._control.read() as db:
            db.execute("BEGIN")
            version = store.credentials_version(db)
            credentials = store.credentials(db) if version != self._version else self._credentials
            organizations = {organization.slug: organization.id for organization in store.organizations(db)}
            db.execute("COMMIT")
        # A new one counts as well: work that was under way may have opened the old file once more in between.
        for org in self._organizations.keys() | organizations.keys():
            if organizations.get(org) != self._organizations.get(org):
                self._on_change(org)
        self._by_id = {credential.key_id: credential for credential in credentials.values()}
        self._credentials, self._organizations, self._version = credentials, organizations, version
