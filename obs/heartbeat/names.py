"""The names of jobs: what they may contain, and how a path holds them."""

import unicodedata
from typing import Any

from werkzeug.routing import BaseConverter

from obs.api import is_storable

LONGEST_NAME = 200
"""In characters."""

JOB_NAME: dict[str, Any] = {
    "minLength": 1,
    "maxLength": LONGEST_NAME,
    # No control characters, and no leading or trailing white space.
    "pattern": r"^[^\s\x00-\x1f\x7f-\x9f]([^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f])?$",
}
"""`name_problem` as an OpenAPI schema."""


def name_problem(name: Any) -> str | None:
    """The problem with `name` as the name of a job; None if it is valid."""
    if not isinstance(name, str):
        return "Not a valid string."
    if not 1 <= len(name) <= LONGEST_NAME:
        return f"Length must be between 1 and {LONGEST_NAME}."
    if not (name.isascii() and name.isprintable()):  # most names are, and need no closer look
        if any(unicodedata.category(character) == "Cc" for character in name):
            return "Must not contain control characters."
        if not is_storable(name):
            return "Not valid Unicode."
    return "Must not begin or end with white space." if name != name.strip() else None


class JobNameConverter(BaseConverter):
    """A job's name in a path: any text, with slashes or empty, so that the answer to an invalid name says why."""

    regex = "(?s:.*?)"
    part_isolating = False
    weight = 300
    openapi = {"type": "string", **JOB_NAME}  # noqa: RUF012
