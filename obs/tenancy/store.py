"""Reading and writing the rows of the control file. Times are milliseconds since the epoch."""

import secrets
import sqlite3
from dataclasses import dataclass

from obs.tenancy import keys

_LONGEST_AGENT = 200


@dataclass(frozen=True, slots=True)
class Organization:
    """An organization. `slug` is its name in keys, addresses and file names."""

    id: int
    slug: str
    created_at: int


@dataclass(frozen=True, slots=True)
class Key:
    """A key as it is stored, without the secret."""

    id: int
    label: str
    scopes: tuple[str, ...]
    created_at: int
    expires_at: int | None
    revoked_at: int | None
    last_used_at: int | None


@dataclass(frozen=True, slots=True)
class Credential:
    """What a key that is not revoked gives access to."""

    key_id: int
    org: str
    scopes: frozenset[str]
    expires_at: int | None


@dataclass(frozen=True, slots=True)
class Session:
    """A session of the pages. It began with the key `key_id`, or with a sign-in link when that is None."""

    id: int
    org: str
    organization_id: int
    key_id: int | None
    last_seen_at: int


def organizations(db: sqlite3.Connection) -> list[Organization]:
    """All organizations by slug."""
    rows = db.execute("SELECT id, slug, created_at FROM organizations ORDER BY slug")
    return [Organization(row["id"], row["slug"], row["created_at"]) for row in rows]


def organization_id(db: sqlite3.Connection, org: str) -> int | None:
    """The id of the organization, or None."""
    row = db.execute("SELECT id FROM organizations WHERE slug = ?", (org,)).fetchone()
    return None if row is None else row[0]


def add_organization(db: sqlite3.Connection, org: str, now_ms: int) -> bool:
    """Add an organization; False if the slug is taken."""
    done = db.execute(
        "INSERT INTO organizations (slug, created_at) VALUES (?, ?) ON CONFLICT DO NOTHING", (org, now_ms)
    )
    return done.rowcount == 1


def delete_organization(db: sqlite3.Connection, org: str) -> bool:
    """Delete an organization with its keys; False if there is none."""
    return db.execute("DELETE FROM organizations WHERE slug = ?", (org,)).rowcount == 1


def add_key(
    db: sqlite3.Connection, org: str, label: str, scopes: tuple[str, ...], expires_at: int | None, now_ms: int
) -> tuple[int, str] | None:
    """Add a key; returns its id and its secret, which is not stored. None if there is no such organization."""
    organization = organization_id(db, org)
    if organization is None:
        return None
    secret = keys.new_key(org)
    done = db.execute(
        "INSERT INTO api_keys (organization_id, label, sha256, scopes, created_at, expires_at) "
        "VALUES (?, ?, ?, ?, ?, ?)",
        (organization, label, keys.digest(secret), " ".join(scopes), now_ms, expires_at),
    )
    assert done.lastrowid is not None
    return done.lastrowid, secret


def keys_of(db: sqlite3.Connection, org: str) -> list[Key]:
    """All keys of an organization, including revoked ones, oldest first."""
    rows = db.execute(
        "SELECT k.id, k.label, k.scopes, k.created_at, k.expires_at, k.revoked_at, k.last_used_at "
        "FROM api_keys k JOIN organizations o ON o.id = k.organization_id WHERE o.slug = ? ORDER BY k.id",
        (org,),
    )
    return [Key(**{**dict(row), "scopes": tuple(row["scopes"].split())}) for row in rows]


def revoke_key(db: sqlite3.Connection, org: str | None, key_id: int, now_ms: int) -> bool:
    """Revoke a key (of `org`, or of any organization when None); False if no valid key has that id."""
    done = db.execute(
        "UPDATE api_keys SET revoked_at = ?1 WHERE id = ?2 AND revoked_at IS NULL "
        "AND (?3 IS NULL OR organization_id = (SELECT id FROM organizations WHERE slug = ?3))",
        (now_ms, key_id, org),
    )
    return done.rowcount == 1


def credentials(db: sqlite3.Connection) -> dict[bytes, Credential]:
    """Every key that is not revoked, by its SHA-256."""
    rows = db.execute(
        "SELECT k.sha256, k.id AS key_id, o.slug AS org, k.scopes, k.expires_at "
        "FROM api_keys k JOIN organizations o ON o.id = k.organization_id WHERE k.revoked_at IS NULL"
    )
    return {
        row["sha256"]: Credential(row["key_id"], row["org"], frozenset(row["scopes"].split()), row["expires_at"])
        for row in rows
    }


def credentials_version(db: sqlite3.Connection) -> int:
    """A number that increases with every change of a key or an organization."""
    version: int = db.execute("SELECT version FROM credentials_version").fetchone()[0]
    return version


def record_last_use(db: sqlite3.Connection, last_used: dict[int, int]) -> None:
    """Store when keys were last used; `last_used` maps the id of a key to a time."""
    db.executemany(
        "UPDATE api_keys SET last_used_at = max(coalesce(last_used_at, 0), ?) WHERE id = ?",
        [(used_at, key_id) for key_id, used_at in last_used.items()],
    )


def add_sign_in_link(db: sqlite3.Connection, org: str, token: str, expires_at: int, now_ms: int) -> None:
    """Store the SHA-256 of a one-time token that signs in as an admin of `org`; delete tokens that have expired."""
    db.execute("DELETE FROM sign_in_links WHERE expires_at <= ?", (now_ms,))
    db.execute(
        "INSERT INTO sign_in_links (sha256, organization_id, expires_at) "
        "SELECT ?, id, ? FROM organizations WHERE slug = ?",
        (keys.digest(token), expires_at, org),
    )


def find_sign_in_link(db: sqlite3.Connection, token: str, now_ms: int) -> str | None:
    """The organization of a one-time token; None if the token is unknown, used or expired."""
    row = db.execute(
        "SELECT o.slug FROM sign_in_links l JOIN organizations o ON o.id = l.organization_id "
        "WHERE l.sha256 = ? AND l.expires_at > ?",
        (keys.digest(token), now_ms),
    ).fetchone()
    return None if row is None else row[0]


def delete_sign_in_link(db: sqlite3.Connection, token: str) -> None:
    """Delete a one-time token, which is used up."""
    db.execute("DELETE FROM sign_in_links WHERE sha256 = ?", (keys.digest(token),))


def add_session(
    db: sqlite3.Connection, org: str, key_id: int | None, user_agent: str, expires_at: int, now_ms: int
) -> str:
    """Add a session and return its token, which is not stored; delete sessions that have expired."""
    token = secrets.token_urlsafe(32)
    db.execute("DELETE FROM sessions WHERE expires_at <= ?", (now_ms,))
    db.execute(
        "INSERT INTO sessions (sha256, organization_id, key_id, created_at, last_seen_at, expires_at, user_agent) "
        "SELECT ?1, id, ?2, ?3, ?3, ?4, ?5 FROM organizations WHERE slug = ?6",
        (keys.digest(token), key_id, now_ms, expires_at, user_agent[:_LONGEST_AGENT], org),
    )
    return token


def find_session(db: sqlite3.Connection, token: str, now_ms: int) -> Session | None:
    """The session of a token; None if the token is unknown, or the session has ended or expired."""
    row = db.execute(
        "SELECT s.id, o.slug AS org, s.organization_id, s.key_id, s.last_seen_at "
        "FROM sessions s JOIN organizations o ON o.id = s.organization_id WHERE s.sha256 = ? AND s.expires_at > ?",
        (keys.digest(token), now_ms),
    ).fetchone()
    return None if row is None else Session(**row)


def extend_session(db: sqlite3.Connection, session_id: int, expires_at: int, now_ms: int) -> None:
    """Store that a session was used at `now_ms`, and when it expires now."""
    db.execute("UPDATE sessions SET last_seen_at = ?, expires_at = ? WHERE id = ?", (now_ms, expires_at, session_id))


def delete_session(db: sqlite3.Connection, token: str) -> None:
    """Delete the session of a token."""
    db.execute("DELETE FROM sessions WHERE sha256 = ?", (keys.digest(token),))
