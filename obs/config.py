"""Settings: the table in ``settings.toml``, and how they are loaded.

A value comes from the first that has it: the command line, the environment variable ``OBS_`` plus the name, the file
``config.toml`` in the instance folder (name in lower case), the default.
"""

import os
import tomllib
from collections.abc import Mapping, Sequence
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
    choices: Sequence[str] = ()
    is_limit: bool = False  # whether an organization can have a value of its own


SETTINGS = tuple(
    Setting(name, **fields)
    for name, fields in tomllib.loads(Path(__file__).with_name("settings.toml").read_text()).items()
)
LIMITS = tuple(setting.name.lower() for setting in SETTINGS if setting.is_limit)
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
    if setting.name.endswith("_URL") and value and not str(value).startswith(("http://", "https://")):
        raise ConfigError(f"{where} must begin with http:// or https://, but is {value!r}")
    if isinstance(setting.default, str):
        if str(value) in setting.choices or (isinstance(value, str) and not setting.choices):
            return str(value)  # in TOML, 1 is a number; as one of the choices it is the same as "1"
        raise ConfigError(f"{where} must be {' or '.join(setting.choices) or 'text'}, but is {value!r}")
    try:
        number = int(str(value))  # as text, because 1.5 and true are no whole numbers
    except ValueError as error:
        raise ConfigError(f"{where} must be a whole number, but is {value!r}") from error
    if not setting.least <= number <= setting.most:
        bound = f"least {setting.least}" if number < setting.least else f"most {setting.most}"
        raise ConfigError(f"{where} must be at {bound}, but is {number}")
    return number
