"""The names of jobs: what they may contain, how they are normalized, and how a path holds them."""

import re
import unicodedata
from typing import Any

from werkzeug.routing import BaseConverter

from obs.api import is_storable, normalized
from obs.errors import invalid_field

LONGEST_NAME = 200
# The OpenAPI document has it too: there a pattern is not anchored by itself, and \Z and flags are unknown.
UUID_PATTERN = re.compile(r"^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$(?!\n)")

_INVISIBLE = r"\xad\u034f\u061c\u115f\u1160\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb"
"""Characters that are never shown: zero-width ones, direction marks, fillers. Names would differ only in them."""

_UNSHOWN = re.compile(rf"[{_INVISIBLE}\U0001d173-\U0001d17a\U000e0000-\U000e0fff]")
_NEVER = rf"\x00-\x1f\x7f-\x9f{_INVISIBLE}"

JOB_NAME: dict[str, Any] = {
    "minLength": 1,
    "maxLength": LONGEST_NAME,
    # No control characters, no invisible ones, and no leading or trailing white space.
    "pattern": rf"^[^\s{_NEVER}]([^{_NEVER}]*[^\s{_NEVER}])?$",
}


def valid_name(name: Any, place: str, field: str) -> str:
    """`name`, normalized, as the name of a job. Raises ServiceError (422) that names `place` and `field`."""
    if not isinstance(name, str):
        raise invalid_field(place, field, "Not a valid string.")
    normal = normalized(name)
    if (problem := _problem(normal)) is not None:
        raise invalid_field(place, field, problem)
    return normal


def _problem(name: str) -> str | None:
    if not 1 <= len(name) <= LONGEST_NAME:
        return f"Length must be between 1 and {LONGEST_NAME}."
    if not (name.isascii() and name.isprintable()):  # most names are, and need no closer look
        if any(unicodedata.category(character) == "Cc" for character in name):
            return "Must not contain control characters."
        if not is_storable(name):
            return "Not valid Unicode."
        if found := _UNSHOWN.search(name):
            note = ", which joins letters, or several emoji into one" if found[0] == "\u200d" else ""
            return f"Must not contain the invisible character U+{ord(found[0]):04X}{note}."
    return "Must not begin or end with white space." if name != name.strip() else None


class JobNameConverter(BaseConverter):
    """A job's name in a path: any text, with slashes or empty, so that the answer to an invalid name says why."""

    regex = "(?s:.*?)"
    part_isolating = False
    weight = 300
    openapi = {"type": "string", **JOB_NAME}  # noqa: RUF012
