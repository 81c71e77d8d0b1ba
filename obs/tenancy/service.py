"""Organizations, keys and sign-in links: every change to them goes through here. All times are milliseconds."""

import logging
import secrets
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from werkzeug.security import check_password_hash, generate_password_hash

from obs.errors import ServiceError, T, invalid_field
from obs.storage.databases import Org
from obs.tenancy import audit, keys, store
from obs.tenancy.audit import COMMAND_LINE, Action, Actor
from obs.tenancy.auth import Tenancy
from obs.times import DAY_MS, HOUR_MS

FIRST_ORG = "default"
SIGN_IN_LINK_MS = DAY_MS
SESSION_MS = 14 * DAY_MS  # after its last use
_METHOD = "scrypt:32768:8:1"
_NO_PASSWORD = f"{_METHOD}$none${'0' * 128}"  # the hash of no password that is known
_checks, _queue = threading.BoundedSemaphore(2), threading.BoundedSemaphore(10)  # of passwords
_log = logging.getLogger(__name__)


def create_first_organization(tenancy: Tenancy) -> tuple[str, str] | None:
    """On an instance without organizations, create one; returns its admin key and the token of a sign-in link."""
    with tenancy.control.read() as db:
        org = store.organization(db, FIRST_ORG)
        if store.organizations(db) and (org is None or store.keys_of(db, org)):  # else a first start was interrupted
            return None
    org = org or create_organization(tenancy, FIRST_ORG)
    return create_key(tenancy, org, "first key", ("admin",)).key, create_sign_in_link(tenancy, FIRST_ORG)


def find_organization(tenancy: Tenancy, slug: str) -> Org:
    return _known(tenancy.control.fetch(lambda db: store.organization(db, slug)), slug)


@contextmanager
def filled_organization(tenancy: Tenancy, slug: str, *, may_exist: bool = False) -> Iterator[Org]:
    """A name for a file that the caller fills; afterwards it is the file of the organization with this slug.

    The organization is created. If it `may_exist`, it keeps its keys and limits and gets a new id, and its previous
    file stays. So a running service gets all of the data at once. Raises as `create_organization` does.
    """
    _check_slug(slug)
    if not may_exist and tenancy.keyring.organization(slug) is not None:
        raise ServiceError("conflict", f"The organization {slug!r} already exists.")
    filled = Org(slug, 0)
    tenancy.databases.delete(filled)  # left by a call that was killed
    try:
        yield filled
        tenancy.databases.forget(filled)
        create_organization(tenancy, slug, tenancy.databases.path(filled))
    finally:
        tenancy.databases.delete(filled)  # what is left of it after an error


def create_organization(tenancy: Tenancy, slug: str, filled: Path | None = None) -> Org:
    """Create an organization with an empty file; with the file at `filled`, see `filled_organization`.

    Raises ServiceError: 422 for an invalid slug, 409 for one that is taken, 507 when the disk is short of space.
    """
    _check_slug(slug)
    tenancy.quotas.space.refuse(tenancy.quotas.space.is_short)
    now_ms, allowed_private = tenancy.clock(), tenancy.allows_private()

    def unit(db: sqlite3.Connection) -> Org:
        if (org := store.add_organization(db, slug, now_ms) or (store.renew_id(db, slug) if filled else None)) is None:
            raise ServiceError("conflict", f"The organization {slug!r} already exists.")
        if filled is None or filled.exists():  # else the transaction is repeated, and the file is in its place
            tenancy.databases.delete(org)  # left by a call that was interrupted, whose id was not used after all
            if filled:
                tenancy.databases.adopt(filled, org)
        tenancy.databases.create(org)
        if filled:
            for uuid in tenancy.databases.fetch(org, store.ping_urls_in_file):
                store.claim_ping_url(db, org, uuid)
        return org

    org = tenancy.control.write(unit)
    tenancy.keyring.reload()
    if allowed_private and not tenancy.allows_private():
        _log.warning("Channels may send to private networks only with OBS_ALLOW_PRIVATE_TARGETS=1 from now on.")
    audit.note(tenancy.databases, org, COMMAND_LINE, now_ms, Action.CREATE_ORGANIZATION, slug)
    return org


def _check_slug(slug: str) -> None:
    if not keys.SLUG.fullmatch(slug):
        message = f"{slug!r} is not valid: use 1 to 63 of a-z, 0-9 and -, and do not begin with -."
        raise invalid_field("json", "name", message)


def delete_organization(tenancy: Tenancy, org: Org) -> None:
    """Delete an organization with its keys and file, or nothing. Raises OSError, ServiceError (404; 503: locked)."""

    def unit(db: sqlite3.Connection) -> None:
        _known(store.delete_organization(db, org.id), org.slug)
        tenancy.databases.delete(org)

    tenancy.control.write(unit)
    tenancy.keyring.reload()


def set_limit(tenancy: Tenancy, org: Org, name: str, value: int | None) -> None:
    """Set the limit `name` of `org`, or return it to the default with None."""
    tenancy.control.write(lambda db: store.set_limit(db, org, name, value))
    subject = f"{name} to {'the default' if value is None else value}"
    audit.note(tenancy.databases, org, COMMAND_LINE, tenancy.clock(), Action.SET_LIMIT, subject)


def create_key(
    tenancy: Tenancy,
    org: Org,
    label: str,
    scopes: Iterable[str] = keys.DEFAULT_SCOPES,
    expires_at: int | None = None,
    *,
    actor: Actor = COMMAND_LINE,
) -> store.Key:
    """Create a key for `org` from the fields of KeyRequestSchema; it never expires when `expires_at` is None.

    Raises ServiceError: 404 for an unknown organization; 422 for scopes beside that of pings, or an expiry in the past.
    """
    now_ms, chosen = tenancy.clock(), tuple(dict.fromkeys(scopes))
    if keys.PING in chosen and len(chosen) > 1:
        raise invalid_field("json", "scopes", "A ping key can have no other scope.")
    if expires_at is not None and expires_at <= now_ms:
        raise invalid_field("json", "expires_at", "Must be in the future.")
    added = tenancy.control.write(lambda db: store.add_key(db, org, label, chosen, expires_at, now_ms))
    created = _known(added, org.slug)
    tenancy.keyring.reload()
    audit.note(tenancy.databases, org, actor, now_ms, Action.CREATE_KEY, f"{created.name}: {' '.join(chosen)}")
    return created


def revoke_key(tenancy: Tenancy, org: Org | None, key_id: int, *, actor: Actor = COMMAND_LINE) -> None:
    """Revoke a key (of `org`, or of any organization when None). Raises ServiceError (404) for an unknown one."""
    now_ms = tenancy.clock()
    if (revoked := tenancy.control.write(lambda db: store.revoke_key(db, org, key_id, now_ms))) is None:
        raise ServiceError("key_not_found", f"There is no valid key with id {key_id}.")
    tenancy.keyring.reload()
    audit.note(tenancy.databases, revoked.org, actor, now_ms, Action.REVOKE_KEY, revoked.name)


def claim_ping_url(tenancy: Tenancy, org: Org, uuid: str) -> None:
    """Note that `uuid` is that of a job of `org`, for good. Raises ServiceError (409) if it is taken."""
    if tenancy.control.write(lambda db: store.claim_ping_url(db, org, uuid)) != org.id:
        raise ServiceError("conflict", "Another job has this UUID.")


def create_sign_in_link(tenancy: Tenancy, slug: str) -> str:
    """A new token that signs in as an admin once, within SIGN_IN_LINK_MS. Raises ServiceError (404)."""
    token, now_ms, org = secrets.token_urlsafe(24), tenancy.clock(), find_organization(tenancy, slug)
    tenancy.control.write(lambda db: store.add_sign_in_link(db, org, token, now_ms + SIGN_IN_LINK_MS, now_ms))
    return token


def use_sign_in_link(tenancy: Tenancy, token: str) -> bool:
    """Use up a sign-in link. False if another request was faster."""
    return tenancy.control.write(lambda db: store.delete_sign_in_link(db, token))


def change_user(
    tenancy: Tenancy, org: Org, action: Action, name: str, *, actor: Actor = COMMAND_LINE, **fields: str
) -> None:
    """Add, change or delete a user. `fields` are the new ``role`` and ``password``; a new password ends all sessions.

    Raises ServiceError: 409 for a new name that is taken, 404 for an unknown one.
    """
    now_ms = tenancy.clock()
    hashed = generate_password_hash(fields["password"], _METHOD) if "password" in fields else None
    values = {"org_id": org.id, "now_ms": now_ms, "name": name, "role": fields.get("role"), "password": hashed}
    if not tenancy.control.write(lambda db: store.change_user(db, action, values)):
        is_taken = action == Action.ADD_USER
        raise ServiceError("conflict", f"The name {name} is taken.") if is_taken else ServiceError("user_not_found")
    said = [fields.get("role"), "password" if "password" in fields and action != Action.ADD_USER else None]
    subject = ": ".join(filter(None, [name, ", ".join(filter(None, said))]))
    audit.note(tenancy.databases, org, actor, now_ms, action, subject)


def find_user(tenancy: Tenancy, name: str) -> store.User | None:
    return next(iter(tenancy.control.fetch(lambda db: store.users(db, name=name))), None)


def has_password(user: store.User | None, password: str) -> bool:
    """Whether this is the password of `user`. Without a user the answer is no, after the same time.

    Raises ServiceError (429) when too many others wait: each check takes 32 MB, and a tenth of a second.
    """
    if not _queue.acquire(blocking=False):
        raise ServiceError("rate_limited", "Others are signing in.", hint="Try again.", headers={"Retry-After": "1"})
    try:
        with _checks:
            return check_password_hash(_NO_PASSWORD if user is None else user.password, password)
    finally:
        _queue.release()


def begin_session(tenancy: Tenancy, org: Org, user: store.User | None = None, **origin: Any) -> str:
    """Begin a session (see `store.add_session`); returns its token. Raises ServiceError (401) if `user` has changed."""
    now_ms = tenancy.clock()

    def unit(db: sqlite3.Connection) -> str:
        if user is not None and store.users(db, name=user.name) != [user]:
            raise ServiceError("unauthorized", "Wrong name or password.")
        return store.add_session(db, org, now_ms + SESSION_MS, now_ms, user_id=user and user.id, **origin)

    return tenancy.control.write(unit)


def find_session(tenancy: Tenancy, token: str) -> store.Session | None:
    """The session of `token`, or None. Its expiry moves with its use, stored at most once an hour."""
    now_ms = tenancy.clock()
    found = next(iter(tenancy.control.fetch(lambda db: store.sessions(db, now_ms, token=token))), None)
    if found is not None and now_ms - found.last_seen_at >= HOUR_MS:
        try:
            tenancy.control.write(lambda db: store.extend_session(db, found.id, now_ms + SESSION_MS, now_ms))
        except ServiceError as error:  # pages can be read while the disk is full
            _log.warning("cannot store when a session was last used: %s", error.message)
    return found


def end_session(tenancy: Tenancy, ended: store.Session, actor: Actor, action: Action, subject: str) -> None:
    tenancy.control.write(lambda db: store.delete_session(db, ended.id))
    audit.note(tenancy.databases, ended.org, actor, tenancy.clock(), action, subject)


def _known(found: T | None, slug: str) -> T:
    if not found:
        hint = "List them with: obs org list"
        raise ServiceError("organization_not_found", f"There is no organization {slug!r}.", hint=hint)
    return found
