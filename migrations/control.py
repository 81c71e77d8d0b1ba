"""The schema of the control file: organizations, API keys, users, limits, sign-in links. Steps are append-only."""

from sqlite_utils import Database, Migrations

migrations = Migrations("control")


@migrations()
def organizations_and_keys(db: Database) -> None:
    db.execute("""
        CREATE TABLE organizations (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            slug TEXT NOT NULL UNIQUE,
            created_at INTEGER NOT NULL
        ) STRICT
    """)
    db.execute("""
        CREATE TABLE api_keys (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            organization_id INTEGER NOT NULL REFERENCES organizations(id) ON DELETE CASCADE,
            label TEXT NOT NULL,
            sha256 BLOB NOT NULL UNIQUE,
            scopes TEXT NOT NULL,
            created_at INTEGER NOT NULL,
            expires_at INTEGER,
            revoked_at INTEGER,
            last_used_at INTEGER
        ) STRICT
    """)
    db.execute("CREATE INDEX api_keys_organization ON api_keys(organization_id, id)")
    db.execute("""
        CREATE TABLE sign_in_links (
            sha256 BLOB PRIMARY KEY,
            organization_id INTEGER NOT NULL REFERENCES organizations(id) ON DELETE CASCADE,
            expires_at INTEGER NOT NULL
        ) STRICT
    """)


@migrations()
def credentials_version(db: Database) -> None:
    """A number that grows whenever a key or an organization changes, so that servers know when to read them anew.

    The time of a key's last use is written often and is left out on purpose.
    """
    db.execute("CREATE TABLE credentials_version (version INTEGER NOT NULL) STRICT")
    db.execute("INSERT INTO credentials_version VALUES (0)")
    for table, change in (
        ("organizations", "INSERT"),
        ("organizations", "UPDATE"),
        ("organizations", "DELETE"),
        ("api_keys", "INSERT"),
        ("api_keys", "UPDATE OF organization_id, sha256, scopes, expires_at, revoked_at"),
        ("api_keys", "DELETE"),
    ):
        name = f"credentials_version_{table}_{change.split()[0].lower()}"
        db.execute(
            f"CREATE TRIGGER {name} AFTER {change} ON {table} "
            "BEGIN UPDATE credentials_version SET version = version + 1; END"
        )


@migrations()
def query_limits(db: Database) -> None:
    """The limits on queries that an organization has of its own; without a row the setting holds."""
    db.execute("""
        CREATE TABLE query_limits (
            organization_id INTEGER NOT NULL REFERENCES organizations(id) ON DELETE CASCADE,
            name TEXT NOT NULL,
            value INTEGER NOT NULL,
            PRIMARY KEY (organization_id, name)
        ) STRICT, WITHOUT ROWID
    """)


@migrations()
def deleted_organizations(db: Database) -> None:
    """Which organizations were deleted, and when: their audit logs are deleted with them."""
    db.execute("""
        CREATE TABLE deleted_organizations (
            id INTEGER PRIMARY KEY,
            slug TEXT NOT NULL,
            created_at INTEGER NOT NULL,
            deleted_at INTEGER NOT NULL
        ) STRICT
    """)
    db.execute("""
        CREATE TRIGGER organizations_delete AFTER DELETE ON organizations BEGIN
            INSERT INTO deleted_organizations
            VALUES (old.id, old.slug, old.created_at, CAST(strftime('%s', 'now') AS INTEGER) * 1000);
        END
    """)


@migrations()
def trusted_clock(db: Database) -> None:
    """What is known of the wall clock; one row. See `obs.tenancy.clock`.

    In an instance that was used before, the newest time in this file is the last that the service has seen.
    """
    db.execute("""
        CREATE TABLE clock (
            id INTEGER PRIMARY KEY,
            wall_ms INTEGER NOT NULL,
            boot_id TEXT NOT NULL,
            boot_ms INTEGER NOT NULL,
            lead_ms INTEGER NOT NULL,
            doubted_from_ms INTEGER
        ) STRICT
    """)
    db.execute("""
        INSERT INTO clock SELECT 1, max(time), '', 0, 0, NULL FROM (
            SELECT created_at AS time FROM organizations
            UNION ALL SELECT created_at FROM api_keys
            UNION ALL SELECT last_used_at FROM api_keys
        ) HAVING max(time) IS NOT NULL
    """)


@migrations()
def page_sessions(db: Database) -> None:
    """Sessions of the pages. A session without a key began with a sign-in link."""
    db.execute("""
        CREATE TABLE sessions (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            sha256 BLOB NOT NULL UNIQUE,
            organization_id INTEGER NOT NULL REFERENCES organizations(id) ON DELETE CASCADE,
            key_id INTEGER,
            created_at INTEGER NOT NULL,
            last_seen_at INTEGER NOT NULL,
            expires_at INTEGER NOT NULL,
            user_agent TEXT NOT NULL
        ) STRICT
    """)
    db.execute("CREATE INDEX sessions_organization ON sessions(organization_id, id)")


@migrations()
def limits_of_organizations(db: Database) -> None:
    """The table also contains limits that are not of queries. A name is now that of the setting, in lower case."""
    db.execute("ALTER TABLE query_limits RENAME TO organization_limits")
    db.execute("UPDATE organization_limits SET name = 'query_' || name")


@migrations()
def organizations_of_ping_urls(db: Database) -> None:
    """The UUIDs in the ping URLs of jobs. The file of the organization knows which job a UUID belongs to.

    The ids only grow, so that a server reads only what was added.
    """
    db.execute("""
        CREATE TABLE ping_urls (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            uuid TEXT NOT NULL UNIQUE,
            organization_id INTEGER NOT NULL REFERENCES organizations(id) ON DELETE CASCADE
        ) STRICT
    """)
    db.execute("CREATE INDEX ping_urls_organization ON ping_urls(organization_id)")
    for change in ("UPDATE", "DELETE"):
        db.execute(
            f"CREATE TRIGGER credentials_version_ping_urls_{change.lower()} AFTER {change} ON ping_urls "
            "BEGIN UPDATE credentials_version SET version = version + 1; END"
        )


@migrations()
def channels(db: Database) -> None:
    """Where alerts are sent. The address and the secret are here, because an organization's file can be downloaded."""
    db.execute("""
        CREATE TABLE channels (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            organization_id INTEGER NOT NULL REFERENCES organizations(id) ON DELETE CASCADE,
            name TEXT NOT NULL,
            kind TEXT NOT NULL,
            address TEXT NOT NULL,
            masked TEXT NOT NULL,
            secret TEXT,
            filter TEXT NOT NULL,
            enabled INTEGER NOT NULL,
            UNIQUE (organization_id, name)
        ) STRICT
    """)


@migrations()
def sessions_without_programs(db: Database) -> None:
    """The programs that sessions were begun with were never shown."""
    db.execute("ALTER TABLE sessions DROP COLUMN user_agent")


@migrations()
def users_of_the_pages(db: Database) -> None:
    """People who sign in with a name and a password. A session that a person has begun ends with a new password."""
    db.execute("""
        CREATE TABLE users (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            organization_id INTEGER NOT NULL REFERENCES organizations(id) ON DELETE CASCADE,
            name TEXT NOT NULL UNIQUE COLLATE NOCASE,
            role TEXT NOT NULL,
            password TEXT NOT NULL,
            created_at INTEGER NOT NULL
        ) STRICT
    """)
    db.execute("CREATE INDEX users_organization ON users(organization_id)")
    db.execute("ALTER TABLE sessions ADD COLUMN user_id INTEGER REFERENCES users(id) ON DELETE CASCADE")
    db.execute("ALTER TABLE sessions ADD COLUMN address TEXT NOT NULL DEFAULT ''")
    db.execute("CREATE INDEX sessions_user ON sessions(user_id)")
    db.execute("""
        CREATE TRIGGER users_password AFTER UPDATE OF password ON users WHEN new.password <> old.password BEGIN
            DELETE FROM sessions WHERE user_id = new.id;
        END
    """)


@migrations()
def viewer_zones(db: Database) -> None:
    """The time zone of the browser that signed in last, in which the jobs of the organization are likely to run."""
    db.execute("ALTER TABLE organizations ADD COLUMN viewer_zone TEXT")
