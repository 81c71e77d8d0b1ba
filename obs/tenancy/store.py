"""The rows of the control file, and the audit log in an organization's file. Times are milliseconds since the epoch."""

import secrets
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from obs.api import about
from obs.storage.connection import delete_oldest, delete_row, save_row
from obs.storage.databases import Org
from obs.tenancy import keys
from obs.tenancy.audit import Action

_WITH_ORG = "JOIN organizations AS o ON o.id = t.organization_id"
_COLUMNS = "t.sha256, o.slug, o.id, t.scopes, t.id, t.label, t.created_at, t.expires_at, t.revoked_at, t.last_used_at"
_KEYS = f"SELECT {_COLUMNS} FROM api_keys AS t {_WITH_ORG}"

_OF_USER = "WHERE organization_id = :org_id AND name = :name"
_USER_STATEMENTS = {
    Action.ADD_USER: "INSERT INTO users (organization_id, name, role, password, created_at)"
    " VALUES (:org_id, :name, :role, :password, :now_ms) ON CONFLICT DO NOTHING",
    Action.CHANGE_USER: "UPDATE users SET role = coalesce(:role, role), password = coalesce(:password, password)"
    f" {_OF_USER}",
    Action.DELETE_USER: f"DELETE FROM users {_OF_USER}",
}


@dataclass(frozen=True, slots=True)
class Key:
    """A key. `key` is the key itself: only a new one has it."""

    org: Org
    scopes: tuple[str, ...]
    id: int = field(metadata=about("Used to revoke the key.", 7))
    label: str = field(metadata=about("What the key is for.", "backup server"))
    created_at: int
    expires_at: int | None
    revoked_at: int | None = None
    last_used_at: int | None = None
    key: str = field(default="", metadata=about("The key. It is not stored and cannot be shown again."))

    @property
    def name(self) -> str:
        return f"key {self.id} ({self.label})"


class User(NamedTuple):
    """A person who signs in with a password, of which only the hash is stored. `role` is one of `keys.ROLES`."""

    org: Org
    id: int
    name: str
    role: str
    password: str
    created_at: int


class Session(NamedTuple):
    """A session of the pages. `name` is that of its user, or says with which key or link it began."""

    org: Org
    scopes: frozenset[str]
    id: int
    name: str
    key_id: int | None
    created_at: int
    last_seen_at: int
    address: str


def organizations(db: sqlite3.Connection) -> dict[Org, int]:
    rows = db.execute("SELECT id, slug, created_at FROM organizations ORDER BY slug")
    return {Org(row["slug"], row["id"]): row["created_at"] for row in rows}


def viewer_zones(db: sqlite3.Connection) -> dict[int, str]:
    """The time zone of the browser that signed in last, by the id of its organization."""
    return dict(db.execute("SELECT id, viewer_zone FROM organizations WHERE viewer_zone IS NOT NULL").fetchall())


def organization(db: sqlite3.Connection, slug: str) -> Org | None:
    return next((org for org in organizations(db) if org.slug == slug), None)


def add_organization(db: sqlite3.Connection, slug: str, now_ms: int) -> Org | None:
    add = "INSERT INTO organizations (slug, created_at) VALUES (?, ?) ON CONFLICT DO NOTHING RETURNING slug, id"
    row = db.execute(add, (slug, now_ms)).fetchone()
    return row and Org(*row)


def renew_id(db: sqlite3.Connection, slug: str) -> Org:
    before = organization(db, slug)
    assert before is not None
    next_id = "UPDATE sqlite_sequence SET seq = seq + 1 WHERE name = 'organizations' RETURNING seq"
    (new,) = db.execute(next_id).fetchone()
    db.execute("PRAGMA defer_foreign_keys = ON")
    references = db.execute(
        'SELECT t.name, k."from" FROM sqlite_schema AS t, pragma_foreign_key_list(t.name) AS k'
        " WHERE k.\"table\" = 'organizations'"
    ).fetchall()
    for table, column in [("organizations", "id"), *references]:
        db.execute(f"UPDATE {table} SET {column} = ? WHERE {column} = ?", (new, before.id))
    return Org(slug, new)


def add_key(
    db: sqlite3.Connection, org: Org, label: str, scopes: tuple[str, ...], expires_at: int | None, now_ms: int
) -> Key | None:
    """Add a key; the result has the key itself. None if there is no such organization."""
    secret = keys.new_key(org.slug, scopes)
    row = db.execute(
        "INSERT INTO api_keys (organization_id, label, sha256, scopes, created_at, expires_at) "
        "SELECT id, ?, ?, ?, ?, ? FROM organizations WHERE id = ? RETURNING id",
        (label, keys.digest(secret), " ".join(scopes), now_ms, expires_at, org.id),
    ).fetchone()
    return row and Key(org, scopes, row["id"], label, now_ms, expires_at, key=secret)


def keys_of(db: sqlite3.Connection, org: Org) -> list[Key]:
    return [_key(row) for row in db.execute(f"{_KEYS} WHERE o.id = ? ORDER BY t.id", (org.id,))]


def valid_keys(db: sqlite3.Connection) -> dict[bytes, Key]:
    """The keys that are not revoked, by their SHA-256."""
    return {row["sha256"]: _key(row) for row in db.execute(f"{_KEYS} WHERE t.revoked_at IS NULL")}


def _key(row: sqlite3.Row) -> Key:
    _, slug, org_id, scopes, *rest = row
    return Key(Org(slug, org_id), tuple(scopes.split()), *rest)


def revoke_key(db: sqlite3.Connection, org: Org | None, key_id: int, now_ms: int) -> Key | None:
    """Revoke a key (of `org`, or of any organization when None); returns it, or None if no valid key has that id."""
    found = {one.id: one for one in valid_keys(db).values() if org in (one.org, None)}.get(key_id)
    if found is not None:
        db.execute("UPDATE api_keys SET revoked_at = ? WHERE id = ?", (now_ms, key_id))
    return found


def credentials_version(db: sqlite3.Connection) -> int:
    """A number that increases with every change of a key or an organization."""
    return int(db.execute("SELECT version FROM credentials_version").fetchone()[0])


def claim_ping_url(db: sqlite3.Connection, org: Org, uuid: str) -> int:
    """Note that a UUID is that of a job of `org`, unless it is taken; returns the id of its organization."""
    db.execute("INSERT INTO ping_urls (uuid, organization_id) VALUES (?, ?) ON CONFLICT DO NOTHING", (uuid, org.id))
    return int(db.execute("SELECT organization_id FROM ping_urls WHERE uuid = ?", (uuid,)).fetchone()[0])


def ping_urls(db: sqlite3.Connection, after: int) -> tuple[dict[str, Org], int]:
    """The organizations by the UUIDs whose row ids come after `after`, and the last row id."""
    added = f"SELECT t.id, t.uuid, o.slug, o.id AS org_id FROM ping_urls AS t {_WITH_ORG} WHERE t.id > ? ORDER BY t.id"
    rows = db.execute(added, (after,)).fetchall()
    return {row["uuid"]: Org(row["slug"], row["org_id"]) for row in rows}, rows[-1]["id"] if rows else after


def ping_urls_in_file(db: sqlite3.Connection) -> list[str]:
    return [uuid for (uuid,) in db.execute("SELECT uuid FROM ping_urls")]


def own_limits(db: sqlite3.Connection) -> dict[int, dict[str, int]]:
    limits: dict[int, dict[str, int]] = {}
    for org_id, name, value in db.execute("SELECT organization_id, name, value FROM organization_limits"):
        limits.setdefault(org_id, {})[name] = value
    return limits


def set_limit(db: sqlite3.Connection, org: Org, name: str, value: int | None) -> None:
    db.execute("DELETE FROM organization_limits WHERE organization_id = ? AND name = ?", (org.id, name))
    if value is not None:
        db.execute("INSERT INTO organization_limits VALUES (?, ?, ?)", (org.id, name, value))


def record_last_use(db: sqlite3.Connection, last_used: dict[int, int]) -> None:
    db.executemany("UPDATE api_keys SET last_used_at = ?2 WHERE id = ?1", last_used.items())


def add_sign_in_link(db: sqlite3.Connection, org: Org, token: str, expires_at: int, now_ms: int) -> None:
    """Store the SHA-256 of a one-time token that signs in as an admin of `org`; delete tokens that have expired."""
    db.execute("DELETE FROM sign_in_links WHERE expires_at <= ?", (now_ms,))
    db.execute("INSERT INTO sign_in_links VALUES (?, ?, ?)", (keys.digest(token), org.id, expires_at))


def find_sign_in_link(db: sqlite3.Connection, token: str, now_ms: int) -> Org | None:
    valid = f"SELECT o.slug, o.id FROM sign_in_links AS t {_WITH_ORG} WHERE t.sha256 = ? AND t.expires_at > ?"
    row = db.execute(valid, (keys.digest(token), now_ms)).fetchone()
    return row and Org(*row)


def delete_sign_in_link(db: sqlite3.Connection, token: str) -> bool:
    return db.execute("DELETE FROM sign_in_links WHERE sha256 = ?", (keys.digest(token),)).rowcount == 1


def users(db: sqlite3.Connection, org: Org | None = None, name: str | None = None) -> list[User]:
    """The users of `org`, or the one with this name in any organization; names are compared without regard to case."""
    columns = "o.slug, o.id, t.id, t.name, t.role, t.password, t.created_at"
    chosen = f"SELECT {columns} FROM users AS t {_WITH_ORG} WHERE o.id = ? OR t.name = ? ORDER BY t.name"
    return [User(Org(slug, org_id), *rest) for slug, org_id, *rest in db.execute(chosen, (org and org.id, name))]


def change_user(db: sqlite3.Connection, action: Action, values: Mapping[str, Any]) -> bool:
    """Add, change or delete a user. False if a new name is taken, in whichever organization, or there is no such user.

    `values` are the ``name``, ``org_id``, ``now_ms``, ``role`` and the hash of the ``password``; None stays as it is.
    """
    return db.execute(_USER_STATEMENTS[action], values).rowcount == 1


def add_session(db: sqlite3.Connection, org: Org, expires_at: int, now_ms: int, zone: str, **origin: Any) -> str:
    """Add a session and return its token, which is not stored; delete those that have expired by the trusted clock.

    `zone` is the time zone of the browser. `origin` is the ``user_id`` or the ``key_id``, if any, and the ``address``.
    """
    token = secrets.token_urlsafe(32)
    db.execute("UPDATE organizations SET viewer_zone = ? WHERE id = ?", (zone, org.id))
    db.execute("DELETE FROM sessions WHERE expires_at <= (SELECT wall_ms - max(lead_ms, 0) FROM clock)")
    times = {"created_at": now_ms, "last_seen_at": now_ms, "expires_at": expires_at}
    save_row(db, "sessions", {"sha256": keys.digest(token), "organization_id": org.id, **times, **origin})
    return token


def sessions(db: sqlite3.Connection, now_ms: int, org: Org | None = None, token: str = "") -> list[Session]:
    """The sessions of `org`, or the one with `token`, whose users and keys are valid; the last used 200 of them."""
    rows = db.execute(
        "SELECT o.slug, o.id, u.role, k.scopes, s.id,"
        " coalesce(u.name, 'session of key ' || k.id || ' (' || k.label || ')', 'session of a sign-in link'),"
        " s.key_id, s.created_at, s.last_seen_at, s.address"
        " FROM sessions s JOIN organizations o ON o.id = s.organization_id"
        " LEFT JOIN users u ON u.id = s.user_id LEFT JOIN api_keys k ON k.id = s.key_id"
        f" WHERE s.{'organization_id' if org else 'sha256'} = ?2 AND s.expires_at > ?1 AND s.user_id IS u.id"
        " AND s.key_id IS k.id AND k.revoked_at IS NULL AND coalesce(k.expires_at > ?1, TRUE)"
        " ORDER BY s.last_seen_at DESC, s.id DESC LIMIT 200",
        (now_ms, org.id if org else keys.digest(token)),
    )
    return [
        Session(Org(slug, org_id), keys.ROLES[role] if role else frozenset((scopes or "admin").split()), *rest)
        for slug, org_id, role, scopes, *rest in rows
    ]


def extend_session(db: sqlite3.Connection, session_id: int, expires_at: int, now_ms: int) -> None:
    db.execute("UPDATE sessions SET last_seen_at = ?, expires_at = ? WHERE id = ?", (now_ms, expires_at, session_id))


def audit_entries(db: sqlite3.Connection, limit: int = 200) -> list[dict[str, Any]]:
    latest = "SELECT time, actor, action, object, address FROM audit ORDER BY time DESC, id DESC LIMIT ?"
    return [dict(row) for row in db.execute(latest, (limit,))]


delete_organization = partial(delete_row, table="organizations")
delete_session = partial(delete_row, table="sessions")
delete_audit_before = partial(delete_oldest, table="audit", time="time", condition="time < :cutoff")


def clock(db: sqlite3.Connection) -> dict[str, Any] | None:
    """The stored fields of `obs.tenancy.clock.ClockState`; None if there are none."""
    row = db.execute("SELECT wall_ms, boot_id, boot_ms, lead_ms, doubted_from_ms FROM clock").fetchone()
    return row and dict(row)


def keep_clock(db: sqlite3.Connection, state: Mapping[str, Any]) -> None:
    keep = "INSERT OR REPLACE INTO clock VALUES (1, :wall_ms, :boot_id, :boot_ms, :lead_ms, :doubted_from_ms)"
    db.execute(keep, state)


def accept_clock(db: sqlite3.Connection) -> None:
    db.execute("DELETE FROM clock")
