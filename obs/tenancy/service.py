"""Organizations, keys and sign-in links: every change to them goes through here.

Times are milliseconds since the epoch.
"""

import logging
import secrets
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass

from obs.api import is_storable
from obs.errors import ServiceError, invalid_field
from obs.tenancy import keys, store
from obs.tenancy.auth import Tenancy
from obs.times import DAY_MS, HOUR_MS

FIRST_ORG = "default"
LONGEST_LABEL = 200
"""In characters."""
SIGN_IN_LINK_MS = DAY_MS
SESSION_MS = 14 * DAY_MS
"""A session ends this long after its last use."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class NewKey:
    """A new key. `key` is the key itself, which is not stored. Times are milliseconds since the epoch."""

    id: int
    key: str
    label: str
    scopes: tuple[str, ...]
    created_at: int
    expires_at: int | None


@dataclass(frozen=True, slots=True)
class FirstStart:
    """What the first start created. The key and the token are not stored."""

    org: str
    key: str
    sign_in_token: str


def create_first_organization(tenancy: Tenancy) -> FirstStart | None:
    """On an instance without organizations, create one with an admin key and a sign-in link; else do nothing.

    The check and the rows are one transaction, so two processes that start at once create one organization.
    """
    now_ms = tenancy.clock()
    token = secrets.token_urlsafe(24)

    def unit(db: sqlite3.Connection) -> FirstStart | None:
        if store.organizations(db):
            return None
        store.add_organization(db, FIRST_ORG, now_ms)
        tenancy.databases.create(FIRST_ORG)
        added = store.add_key(db, FIRST_ORG, "first key", ("admin",), None, now_ms)
        assert added is not None
        store.add_sign_in_link(db, FIRST_ORG, token, now_ms + SIGN_IN_LINK_MS, now_ms)
        return FirstStart(FIRST_ORG, added[1], token)

    return tenancy.control.write(unit)


def create_organization(tenancy: Tenancy, org: str) -> None:
    """Create an organization and its file. Raises ServiceError: 422 for an invalid slug, 409 for one that is taken.

    The file is created inside the transaction, so that creating here and deleting elsewhere cannot interleave.
    """
    check_slug(org)
    now_ms = tenancy.clock()

    def unit(db: sqlite3.Connection) -> bool:
        if not store.add_organization(db, org, now_ms):
            return False
        tenancy.databases.create(org)
        return True

    if not tenancy.control.write(unit):
        raise ServiceError("conflict", f"The organization {org!r} already exists.")
    tenancy.keyring.reload()


def check_slug(org: str) -> None:
    """Raise ServiceError (422) unless `org` is valid as the slug of an organization."""
    if not keys.SLUG.fullmatch(org):
        raise invalid_field(
            "json", "name", f"{org!r} is not valid: use 1 to 63 of a-z, 0-9 and -, and do not begin with -."
        )


def delete_organization(tenancy: Tenancy, org: str) -> None:
    """Delete an organization with its keys and its file. Raises ServiceError (404).

    The file goes first, inside the transaction: another organization of that slug never finds it. Raises OSError, and
    deletes nothing, when the file cannot be removed.
    """

    def unit(db: sqlite3.Connection) -> bool:
        if not store.delete_organization(db, org):
            return False
        tenancy.databases.delete(org)
        return True

    if not tenancy.control.write(unit):
        raise no_organization(org)
    tenancy.keyring.reload()


def create_key(
    tenancy: Tenancy, org: str, label: str, scopes: Iterable[str] = keys.DEFAULT_SCOPES, expires_at: int | None = None
) -> NewKey:
    """Create a key for `org`; it never expires when `expires_at` is None.

    Raises ServiceError: 404 for an unknown organization; 422 for a label that is not 1 to 200 characters, for no scope
    or an unknown one, and for an expiry that is not in the future.
    """
    now_ms, chosen = tenancy.clock(), tuple(dict.fromkeys(scopes))
    if not 1 <= len(label) <= LONGEST_LABEL:
        raise invalid_field("json", "label", f"Length must be between 1 and {LONGEST_LABEL}.")
    if not is_storable(label):
        raise invalid_field("json", "label", "Not valid Unicode.")
    if not chosen:
        raise invalid_field("json", "scopes", "Choose at least one scope.")
    if unknown := [scope for scope in chosen if scope not in keys.SCOPES]:
        raise invalid_field(
            "json", "scopes", f"Unknown scope {unknown[0]!r}.", hint=f"Scopes: {', '.join(keys.SCOPES)}."
        )
    if expires_at is not None and expires_at <= now_ms:
        raise invalid_field("json", "expires_at", "Must be in the future.")
    added = tenancy.control.write(lambda db: store.add_key(db, org, label, chosen, expires_at, now_ms))
    if added is None:
        raise no_organization(org)
    tenancy.keyring.reload()
    return NewKey(added[0], added[1], label, chosen, now_ms, expires_at)


def revoke_key(tenancy: Tenancy, org: str | None, key_id: int) -> None:
    """Revoke a key (of `org`, or of any organization when None); this process refuses it at once.

    Raises ServiceError (404) when there is no valid key with that id.
    """
    now_ms = tenancy.clock()
    if not tenancy.control.write(lambda db: store.revoke_key(db, org, key_id, now_ms)):
        raise ServiceError("key_not_found", f"There is no valid key with id {key_id}.")
    tenancy.keyring.reload()


def create_sign_in_link(tenancy: Tenancy, org: str) -> str:
    """Create a token that signs in as an admin of `org` once, within SIGN_IN_LINK_MS, and return it.

    Raises ServiceError (404).
    """
    token, now_ms = secrets.token_urlsafe(24), tenancy.clock()

    def unit(db: sqlite3.Connection) -> None:
        if store.organization_id(db, org) is None:
            raise no_organization(org)
        store.add_sign_in_link(db, org, token, now_ms + SIGN_IN_LINK_MS, now_ms)

    tenancy.control.write(unit)
    return token


def organization_of_link(tenancy: Tenancy, token: str) -> str | None:
    """The organization that a sign-in token is for; None if the token has expired or was used."""
    with tenancy.control.read() as db:
        return store.find_sign_in_link(db, token, tenancy.clock())


def use_sign_in_link(tenancy: Tenancy, token: str, user_agent: str) -> str | None:
    """Use up a sign-in token and begin a session as an admin; returns its token. None if the link is not valid."""
    now_ms = tenancy.clock()

    def unit(db: sqlite3.Connection) -> str | None:
        org = store.find_sign_in_link(db, token, now_ms)
        store.delete_sign_in_link(db, token)
        return org and store.add_session(db, org, None, user_agent, now_ms + SESSION_MS, now_ms)

    return tenancy.control.write(unit)


def begin_session(tenancy: Tenancy, org: str, key_id: int, user_agent: str) -> str:
    """Begin a session with the rights of a key of `org`, while the key is valid; returns the token of the session."""
    now_ms = tenancy.clock()
    return tenancy.control.write(lambda db: store.add_session(db, org, key_id, user_agent, now_ms + SESSION_MS, now_ms))


def find_session(tenancy: Tenancy, token: str) -> store.Session | None:
    """The session of `token`, or None. Its expiry moves with its use, stored at most once an hour."""
    now_ms = tenancy.clock()
    with tenancy.control.read() as db:
        found = store.find_session(db, token, now_ms)
    if found is not None and now_ms - found.last_seen_at >= HOUR_MS:
        try:
            tenancy.control.write(lambda db: store.extend_session(db, found.id, now_ms + SESSION_MS, now_ms))
        except ServiceError as error:  # pages can be read while the disk is full
            _log.warning("cannot store when a session was last used: %s", error.message)
    return found


def end_session(tenancy: Tenancy, token: str) -> None:
    """End the session of `token`: nobody can use the token again."""
    tenancy.control.write(lambda db: store.delete_session(db, token))


def no_organization(org: str) -> ServiceError:
    """The 404 for an organization that does not exist."""
    return ServiceError(
        "organization_not_found", f"There is no organization {org!r}.", hint="List them with: obs org list"
    )
