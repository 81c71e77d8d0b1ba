"""Opening an instance: the folder, the control file and, on the very first start, the first organization."""

import logging
import secrets
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import migrations.control
import migrations.tenant
from obs.errors import ServiceError
from obs.storage.databases import Databases, allow_many_descriptors, files_that_fit
from obs.storage.file import DatabaseFile
from obs.storage.folders import make_folder
from obs.storage.migrate import migrate
from obs.tenancy import store
from obs.tenancy.auth import Tenancy
from obs.tenancy.ingest import IngestAddress
from obs.tenancy.keyring import KeyRing
from obs.times import DAY_MS

_log = logging.getLogger(__name__)
FIRST_ORG = "default"
SIGN_IN_LINK_MS = DAY_MS


@dataclass(frozen=True, slots=True)
class FirstStart:
    """What the first start made; both secrets are known only now."""

    org: str
    key: str
    sign_in_token: str


def base_url(settings: Mapping[str, str | int]) -> str:
    """The address by which clients reach the service, without a trailing slash."""
    if settings["BASE_URL"]:
        return str(settings["BASE_URL"]).rstrip("/")
    host = str(settings["HOST"])
    if host in ("0.0.0.0", "::"):  # noqa: S104 - recognized, not bound
        host = "127.0.0.1"
    return f"http://[{host}]:{settings['PORT']}" if ":" in host else f"http://{host}:{settings['PORT']}"


def open_instance(folder: Path, settings: Mapping[str, str | int], clock: Callable[[], int]) -> Tenancy:
    """Make what is missing in `folder`, bring the control file up to date, and open it.

    `clock` gives milliseconds since the epoch. Raises ServiceError for a control file that cannot be used, ConfigError
    for a setting that cannot.
    """
    make_folder(folder, 0o700)
    tenants = folder / "tenants"
    make_folder(tenants, 0o700)
    busy_seconds, most_waiting = float(settings["BUSY_SECONDS"]), int(settings["MAX_WAITING_WRITES"])
    control_path = folder / "control.db"
    control_path.touch(mode=0o600)  # the folder may be one that others may read
    migrate(control_path, migrations.control.migrations, busy_seconds)
    control = DatabaseFile(
        control_path, migrations.control.migrations, busy_seconds=busy_seconds, most_waiting=most_waiting
    )
    databases = Databases(
        tenants,
        migrations.tenant.migrations,
        busy_seconds=busy_seconds,
        most_waiting=most_waiting,
        most_files=files_that_fit(allow_many_descriptors()),
    )
    return Tenancy(
        control=control,
        databases=databases,
        keyring=KeyRing(control, databases.forget),
        ingest=IngestAddress(str(settings["INGEST_URL_TEMPLATE"]), base_url(settings)),
        clock=clock,
    )


def make_first_organization(tenancy: Tenancy) -> FirstStart | None:
    """On an instance without organizations, make one with an admin key and a sign-in link; else do nothing.

    Two processes that start at once make one organization between them: the check and the rows are one transaction.
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


def add_organization(tenancy: Tenancy, org: str) -> bool:
    """Make an organization and its file; False if there is one of that slug.

    The file is made inside the transaction, so that one made here and one deleted elsewhere do not cross.
    """
    now_ms = tenancy.clock()

    def unit(db: sqlite3.Connection) -> bool:
        if not store.add_organization(db, org, now_ms):
            return False
        tenancy.databases.create(org)
        return True

    return tenancy.control.write(unit)


def delete_organization(tenancy: Tenancy, org: str) -> bool:
    """Delete an organization with its keys and its file; False if there is none.

    The file goes first, inside the transaction: another organization of the name never finds it. Raises OSError, and
    deletes nothing, when the file cannot be removed.
    """

    def unit(db: sqlite3.Connection) -> bool:
        if not store.delete_organization(db, org):
            return False
        tenancy.databases.delete(org)
        return True

    return tenancy.control.write(unit)


def new_sign_in_token(tenancy: Tenancy, org: str) -> str:
    """A token with which a person may sign in once, within SIGN_IN_LINK_MS, as an admin of `org`."""
    token = secrets.token_urlsafe(24)
    now_ms = tenancy.clock()
    tenancy.control.write(lambda db: store.add_sign_in_link(db, org, token, now_ms + SIGN_IN_LINK_MS, now_ms))
    return token


def close(tenancy: Tenancy) -> None:
    """Write down what is only in memory and close all files."""
    try:
        tenancy.keyring.flush_last_used()
    except ServiceError as error:
        _log.warning("the last use of keys is not written down: %s", error.message)
    tenancy.keyring.close()
    tenancy.databases.close()
    tenancy.control.close()
