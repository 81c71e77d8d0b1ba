"""The settings: one table of name, default and what each does.

A setting is taken from the first of: the command line, the environment (``OBS_`` and the name), the file
``config.toml`` in the instance folder (the name in lower case), the default.
"""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class ConfigError(Exception):
    """A setting that cannot be used; the message names it and where it was found."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting; its type is that of its default. ``least`` and ``most`` bound numbers."""

    name: str
    default: str | int
    help: str
    least: int = 0
    most: int = 1 << 62

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return f"OBS_{self.name}"


SETTINGS = (
    Setting("HOST", "127.0.0.1", "Address to listen on."),
    Setting("PORT", 8080, "Port to listen on.", least=1, most=65_535),
    Setting("THREADS", 64, "Requests worked on at the same time.", least=1, most=1_024),
    Setting("BODY_SECONDS", 10, "Seconds that the body of a request may take to arrive.", least=1),
    Setting("BASE_URL", "", "Address by which clients reach the service; empty: http://HOST:PORT."),
    Setting(
        "INGEST_URL_TEMPLATE",
        "{base_url}/in/{org}",
        "Ingest address of an organization. With {org} in the host name, the host name decides.",
    ),
    Setting("QUERY_MAX_ROWS", 10_000, "Rows in one answer of the query endpoint.", least=1),
    Setting("QUERY_MAX_BYTES_SCANNED", 1 << 30, "Bytes that one query may read.", least=1),
    Setting("QUERY_MAX_SECONDS", 5, "Seconds that one query may take.", least=1),
    Setting("QUERY_RATE_PER_MINUTE", 120, "Queries of one organization in a minute.", least=1),
    Setting("QUERY_WORKERS", 3, "Processes that run queries; 0: they run beside the heartbeats.", most=64),
    Setting("QUERY_MAX_LENGTH", 10_000, "Characters of one OQL statement.", least=1),
    Setting("RUN_RETENTION_DAYS", 90, "Days for which runs and heartbeats are kept.", least=1),
    Setting(
        "TIME_ZONES",
        "America/New_York America/Chicago America/Los_Angeles Europe/London Europe/Berlin Asia/Kolkata Asia/Tokyo "
        "Australia/Sydney",
        "Time zones in which jobs may be scheduled, beside UTC and the machine's own.",
    ),
    Setting("MAX_WAITING_WRITES", 2_000, "Writes that may wait for one organization's file.", least=1),
    Setting("BUSY_SECONDS", 5, "Seconds to wait for a file that another program has locked."),
)
_BY_NAME = {setting.name: setting for setting in SETTINGS}


def default_instance() -> Path:
    """OBS_INSTANCE, else the folder ``instance`` of the checkout that runs, else the one in the working folder."""
    if "OBS_INSTANCE" in os.environ:
        return Path(os.environ["OBS_INSTANCE"])
    checkout = Path(__file__).parent.parent
    return (checkout if (checkout / "pyproject.toml").exists() else Path.cwd()) / "instance"


def load(instance: Path, environ: Mapping[str, str] = os.environ) -> dict[str, str | int]:
    """All settings by name. Raises ConfigError for a value of the wrong type or an unknown name in the file."""
    path = instance / "config.toml"
    try:
        in_file = tomllib.loads(path.read_text()) if path.exists() else {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}") from error
    for name in in_file:
        if name.upper() not in _BY_NAME or not name.islower():
            raise ConfigError(f"{path} has an unknown setting: {name}")
    values = {}
    for setting in SETTINGS:
        if setting.variable in environ:
            values[setting.name] = _read(setting, environ[setting.variable], setting.variable)
        elif setting.name.lower() in in_file:
            values[setting.name] = _read(setting, in_file[setting.name.lower()], f"{setting.name.lower()} in {path}")
        else:
            values[setting.name] = setting.default
    return values


def _read(setting: Setting, value: Any, where: str) -> str | int:
    if isinstance(setting.default, str):
        if isinstance(value, str):
            return value
        raise ConfigError(f"{where} must be text, and is {value!r}")
    try:
        if isinstance(value, bool | float):
            raise ValueError
        number = int(value)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{where} must be a whole number, and is {value!r}") from error
    if number < setting.least:
        raise ConfigError(f"{where} must be at least {setting.least}, and is {number}")
    if number > setting.most:
        raise ConfigError(f"{where} must be at most {setting.most}, and is {number}")
    return number
