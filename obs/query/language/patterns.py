"""Patterns of LIKE and of regular expressions, matched in time proportional to the text, whatever the pattern."""

import re
from functools import lru_cache
from typing import Any

import re2  # type: ignore[import-untyped]


@lru_cache(256)
def _like(pattern: str, *, ignore_case: bool) -> re.Pattern[str]:
    """A LIKE pattern as a regular expression that never goes back: each part is looked for once, from the left."""
    first, *rest = [re.escape(part).replace("_", ".") for part in pattern.split("%")]
    parts = [first, *(f"(?>.*?{part})" for part in rest[:-1])]
    if rest:
        # What is last has to stand at the end: its length is known, so the place is too.
        length = len(pattern.rpartition("%")[2])
        parts.append(f"(?>.*(?=.{{{length}}}\\Z)){rest[-1]}" if length else ".*")
    return re.compile("".join(parts) + r"\Z", re.DOTALL | (re.IGNORECASE if ignore_case else 0))


def like(text: str | None, pattern: str) -> bool | None:
    """LIKE: ``%`` is any text, ``_`` any character; capitals matter."""
    return None if text is None else _like(pattern, ignore_case=False).match(text) is not None


def ilike(text: str | None, pattern: str) -> bool | None:
    """LIKE to which capitals do not matter."""
    return None if text is None else _like(pattern, ignore_case=True).match(text) is not None


@lru_cache(256)
def regular_expression(pattern: str) -> Any:
    """A pattern of RE2, whose matching takes time in proportion to the text. Raises ValueError, with a message
    for people."""
    options = re2.Options()
    options.log_errors = False
    options.max_mem = 1 << 20
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0] if error.args else "it is not understood"
        raise ValueError(reason.decode() if isinstance(reason, bytes) else str(reason)) from error
