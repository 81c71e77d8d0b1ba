"""Opening an instance: its folder, the control file and the files of the organizations."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import migrations.control
import migrations.tenant
from obs.errors import ServiceError
from obs.server.middleware import IngestAddress
from obs.storage.databases import Databases, allow_many_descriptors, files_that_fit
from obs.storage.disk import DiskSpace, make_folder
from obs.storage.file import DatabaseFile, FileOptions, migrate
from obs.tenancy import store
from obs.tenancy.auth import Tenancy
from obs.tenancy.keyring import KeyRing
from obs.tenancy.quotas import Quotas


def base_url(settings: Mapping[str, str | int]) -> str:
    """The URL at which clients reach the service, without a trailing slash."""
    if settings["BASE_URL"]:
        return str(settings["BASE_URL"]).rstrip("/")
    is_any = settings["HOST"] in ("0.0.0.0", "::")  # noqa: S104 - compared, not bound
    host = "127.0.0.1" if is_any else str(settings["HOST"])
    return f"http://[{host}]:{settings['PORT']}" if ":" in host else f"http://{host}:{settings['PORT']}"


def open_instance(
    folder: Path, settings: Mapping[str, Any], clock: Callable[[], int], *, checkpoints: bool = True
) -> Tenancy:
    """Open the instance in `folder`: create what is missing and migrate the control file.

    `checkpoints` is False in commands, which may run beside a server. Raises ServiceError (503) when the control file
    cannot be used, ConfigError for an invalid INGEST_URL_TEMPLATE, OSError when the folder cannot be created.
    """
    make_folder(folder, 0o700)
    tenants = folder / "tenants"
    make_folder(tenants, 0o700)
    busy_seconds, most_waiting = float(settings["BUSY_SECONDS"]), int(settings["MAX_WAITING_WRITES"])
    options = FileOptions(migrations.control.migrations, busy_seconds, most_waiting, checkpoints)
    path = folder / "control.db"
    if not (path.exists() and path.stat().st_size) and any(tenants.glob("*.db")):  # a new one would take their names
        raise ServiceError("storage_unavailable", f"{path} is missing or empty. Restore it from a backup.")
    migrate(path, migrations.control.migrations, busy_seconds)
    control = DatabaseFile(path, options)
    most_files = files_that_fit(allow_many_descriptors())
    databases = Databases(tenants, options._replace(migrations=migrations.tenant.migrations), most_files)
    for org in control.fetch(store.organizations):  # the files of version 0.2 are named <slug>.db
        try:
            databases.adopt(tenants / f"{org.slug}.db", org)
        except ServiceError as error:  # it does not affect the other organizations
            databases.problems.failed(org, "write", error)
    space = DiskSpace(tenants, int(settings["DISK_RESERVE_BYTES"]), settings.get("MONOTONIC", time.monotonic))
    keyring, quotas = KeyRing(control, databases.forget), Quotas(control, databases, space, settings, clock)
    ingest = IngestAddress(str(settings["INGEST_URL_TEMPLATE"]), base_url(settings))
    return Tenancy(control, databases, keyring, ingest, quotas, clock)
