"""Settings: a table of their names, defaults and help texts, and how they are loaded.

A value comes from the first that has it: the command line, the environment variable ``OBS_`` plus the name, the file
``config.toml`` in the instance folder (name in lower case), the default.
"""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class ConfigError(Exception):
    """An invalid setting. The message names it and where it was found."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting of the type of its default. `least` and `most` bound a number; a text is one of `choices`, if any."""

    name: str
    default: str | int
    help: str
    least: int = 0
    most: int = 1 << 62
    choices: tuple[str, ...] = ()


SETTINGS = (
    Setting("HOST", "127.0.0.1", "Address to listen on."),
    Setting("PORT", 8080, "Port to listen on.", least=1, most=65_535),
    Setting("THREADS", 64, "Number of requests handled at the same time.", least=1, most=1_024),
    Setting("BODY_SECONDS", 10, "Seconds within which the body of a request must arrive.", least=1),
    Setting("BASE_URL", "", "URL at which clients reach the service; empty: http://HOST:PORT."),
    Setting("TRUSTED_PROXIES", "", "Addresses and networks of proxies whose X-Forwarded- headers are used."),
    Setting("TRUSTED_AUTH_HEADER", "", "Header in which the proxies name the user whom they have signed in."),
    Setting("CORS_ORIGINS", "", "Origins whose pages may use the API with a key, such as https://example.com; *: all."),
    Setting("WRONG_KEYS_PER_MINUTE", 20, "Maximum number of wrong keys per client address and minute.", least=1),
    Setting("ACCESS_LOG", "", "File to which each request is logged as a line of JSON; - is standard error."),
    Setting("LOG_LEVEL", "info", "Least severe messages to log.", choices=("debug", "info", "warning", "error")),
    Setting(
        "INGEST_URL_TEMPLATE", "{base_url}/in/{org}", "Ingest address of an organization; {org} in the path or host."
    ),
    Setting("QUERY_MAX_ROWS", 10_000, "Maximum number of rows in a query result.", least=1),
    Setting("QUERY_MAX_BYTES_SCANNED", 1 << 30, "Maximum number of bytes that a query may read.", least=1),
    Setting("QUERY_MAX_SECONDS", 5, "Maximum duration of a query in seconds.", least=1),
    Setting("QUERY_RATE_PER_MINUTE", 120, "Maximum number of queries per organization and minute.", least=1),
    Setting("QUERY_WORKERS", 3, "Maximum number of query processes; 0 runs queries in the main process.", most=64),
    Setting("QUERY_MAX_LENGTH", 10_000, "Maximum length of an OQL statement in characters.", least=1),
    Setting("MAX_JOBS", 10_000, "Maximum number of jobs per organization.", least=1),
    Setting("MAX_ANNOTATIONS", 100_000, "Maximum number of annotations per organization.", least=1),
    Setting("MAX_STORED_BYTES", 10 << 30, "Maximum size of the data of an organization in bytes.", least=1),
    Setting("MAX_HEARTBEATS_PER_MINUTE", 60_000, "Maximum number of heartbeats per organization and minute.", least=1),
    Setting("DISK_RESERVE_BYTES", 0, "Disk space reserved for heartbeats; 0: 512 MiB or 5 % of the disk, the smaller."),
    Setting("RUN_RETENTION_DAYS", 90, "Days to keep runs and heartbeats.", least=1),
    Setting(
        "TIME_ZONES",
        "America/New_York America/Chicago America/Los_Angeles Europe/London Europe/Berlin Asia/Kolkata Asia/Tokyo "
        "Australia/Sydney",
        "Time zones to consider when learning schedules, besides UTC and the machine's own.",
    ),
    Setting(
        "ALLOW_PRIVATE_TARGETS",
        "auto",
        "Whether channels may send to private networks: 1 or 0; auto: while there is only one organization.",
        choices=("auto", "0", "1"),
    ),
    Setting("HEARTBEAT_URL", "", "URL that is fetched every minute while the service works, for another monitor."),
    Setting("MAX_WAITING_WRITES", 2_000, "Maximum number of writes waiting for an organization's file.", least=1),
    Setting("BUSY_SECONDS", 5, "Seconds to wait for a file that is locked by another program."),
)
LIMITS = (
    *("query_max_rows", "query_max_bytes_scanned", "query_max_seconds", "query_max_length", "query_rate_per_minute"),
    *("max_jobs", "max_annotations", "max_stored_bytes", "max_heartbeats_per_minute"),
)
"""The limits that an organization can have of its own. The default of each is the setting of that name in capitals."""


def default_instance() -> Path:
    if "OBS_INSTANCE" in os.environ:
        return Path(os.environ["OBS_INSTANCE"])
    checkout = Path(__file__).parent.parent
    return (checkout if (checkout / "pyproject.toml").exists() else Path.cwd()) / "instance"


def load(instance: Path, environ: Mapping[str, str] = os.environ) -> dict[str, str | int]:
    """Return all settings by name. Raises ConfigError for an invalid value, or an unknown name in the file."""
    path = instance / "config.toml"
    try:
        in_file = tomllib.loads(path.read_text()) if path.exists() else {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from error
    names = {setting.name.lower() for setting in SETTINGS}
    given = {one.name: (environ[name], name) for one in SETTINGS if (name := f"OBS_{one.name}") in environ}
    for name, value in in_file.items():
        if name not in names:
            raise ConfigError(f"{path} contains an unknown setting: {name}")
        given.setdefault(name.upper(), (value, f"{name} in {path}"))
    return {one.name: _read(one, *given[one.name]) if one.name in given else one.default for one in SETTINGS}


def _read(setting: Setting, value: Any, where: str) -> str | int:
    if isinstance(setting.default, str):
        if isinstance(value, str) and (not setting.choices or value in setting.choices):
            return value
        raise ConfigError(f"{where} must be {' or '.join(setting.choices) or 'text'}, but is {value!r}")
    try:
        number = int(str(value))  # as text, because 1.5 and true are no whole numbers
    except ValueError as error:
        raise ConfigError(f"{where} must be a whole number, but is {value!r}") from error
    if not setting.least <= number <= setting.most:
        bound = f"least {setting.least}" if number < setting.least else f"most {setting.most}"
        raise ConfigError(f"{where} must be at {bound}, but is {number}")
    return number
