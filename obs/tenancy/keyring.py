"""All valid keys in memory, so that a request never waits for the control file."""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace

from obs.errors import ServiceError
from obs.storage.databases import Org
from obs.storage.file import DatabaseFile
from obs.tenancy import keys, store

_CHECK_EVERY_SECONDS = 0.25  # a key that another process revokes is rejected within this time
_log = logging.getLogger(__name__)


class KeyRing:
    """All valid keys, reloaded after changes by any process. `on_delete` gets deleted organizations. Thread-safe."""

    def __init__(self, control: DatabaseFile, on_delete: Callable[[Org], None]) -> None:
        self._control, self._on_delete, self._monotonic = control, on_delete, time.monotonic
        self._lock = threading.Lock()
        self._next_check = 0.0
        self._version = -1
        self._keys: dict[bytes, store.Key] = {}
        self._organizations: dict[str, Org] = {}
        self._ping_urls: dict[str, Org] = {}
        self._last_ping_url = 0
        self._last_used: dict[int, int] = {}
        self._problem: str | None = None

    def find(self, secret: str, now_ms: int) -> store.Key | None:
        """The key `secret`; None if it is unknown, revoked or expired. A key that was just created is known."""
        digest = keys.digest(secret)
        for at_once in (False, True):
            self._reload_if_changed(at_once=at_once)
            key = self._keys.get(digest)
            if key is not None and (key.expires_at is None or key.expires_at > now_ms):
                self._last_used[key.id] = now_ms
                return key
        return None

    def organization_of_ping_url(self, uuid: str) -> Org | None:
        """The organization of the job with this UUID, in lower case with hyphens; None if it is unknown."""
        for at_once in (False, True):
            self._reload_if_changed(at_once=at_once)
            if found := self._ping_urls.get(uuid):
                return found
        return None

    def organization(self, slug: str) -> Org | None:
        self._reload_if_changed()
        return self._organizations.get(slug)

    def organizations(self) -> list[Org]:
        self._reload_if_changed()
        return list(self._organizations.values())

    def reload(self) -> None:
        with self._lock:
            self._read()

    def keys_of(self, org: Org) -> list[store.Key]:
        """All keys of `org`, the oldest first. Raises ServiceError (503)."""
        found, last = self._control.fetch(lambda db: store.keys_of(db, org)), self._last_used
        return [replace(key, last_used_at=last.get(key.id, key.last_used_at)) for key in found]

    def flush_last_used(self) -> None:
        """Store when keys were last used. After a failure they are kept for the next call."""
        last_used, self._last_used = self._last_used, {}
        if last_used:
            try:
                self._control.write(lambda db: store.record_last_use(db, last_used))
            except Exception:
                self._last_used = {**last_used, **self._last_used}
                raise

    def _reload_if_changed(self, *, at_once: bool = False) -> None:
        """Reload if the control file has changed, and a check is due, or is to be made `at_once`."""
        at_once = at_once and self._problem is None
        if not at_once and self._monotonic() < self._next_check:
            return
        if not self._lock.acquire(blocking=at_once or self._version < 0):
            return
        try:
            self._next_check = self._monotonic() + _CHECK_EVERY_SECONDS
            self._read()
            self._problem = None
        except ServiceError as error:
            if self._version < 0:  # else known keys still work, and /readyz reports the problem
                raise
            if self._problem != error.message:
                _log.error("%s cannot be read; known keys still work: %s", self._control.path, error.message)
            self._problem = error.message
        finally:
            self._lock.release()

    def _read(self) -> None:
        with self._control.read() as db:
            db.execute("BEGIN")
            version = store.credentials_version(db)
            if has_changed := version != self._version:
                valid, organizations = store.valid_keys(db), {org.slug: org for org in store.organizations(db)}
            added, last = store.ping_urls(db, 0 if has_changed else self._last_ping_url)
            db.execute("COMMIT")
        if has_changed:
            for org in set(self._organizations.values()) - set(organizations.values()):
                self._on_delete(org)
            self._keys, self._organizations, self._version = valid, organizations, version
            self._ping_urls = added
        else:
            self._ping_urls.update(added)
        self._last_ping_url = last
