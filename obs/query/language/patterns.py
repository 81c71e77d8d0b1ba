"""Operators that match texts, in Python: LIKE, CONTAINS, STARTS WITH and regular expressions.

Each takes time proportional to the length of the text, whatever the pattern. NULL gives NULL.
"""

import re
from functools import lru_cache
from typing import Any

import re2  # type: ignore[import-untyped]


@lru_cache(256)
def _like(pattern: str, *, ignore_case: bool) -> re.Pattern[str]:
    """A LIKE pattern as a regular expression that never backtracks: it searches each part once, from the left."""
    first, *rest = [re.escape(part).replace("_", ".") for part in pattern.split("%")]
    parts = [first, *(f"(?>.*?{part})" for part in rest[:-1])]
    if rest:
        # The last part has to match at the end. Its length is known, and so is its place.
        length = len(pattern.rpartition("%")[2])
        parts.append(f"(?>.*(?=.{{{length}}}\\Z)){rest[-1]}" if length else ".*")
    return re.compile("".join(parts) + r"\Z", re.DOTALL | (re.IGNORECASE if ignore_case else 0))


def like(text: str | None, pattern: str) -> bool | None:
    """LIKE: ``%`` is any text, ``_`` any character. It is case-sensitive."""
    return None if text is None else _like(pattern, ignore_case=False).match(text) is not None


def ilike(text: str | None, pattern: str) -> bool | None:
    """ILIKE: LIKE that ignores case."""
    return None if text is None else _like(pattern, ignore_case=True).match(text) is not None


def contains(text: str | None, part: str | None) -> bool | None:
    """CONTAINS."""
    return None if text is None or part is None else part in text


def starts_with(text: str | None, start: str | None) -> bool | None:
    """STARTS WITH."""
    return None if text is None or start is None else text.startswith(start)


def matches(text: str | None, pattern: str) -> bool | None:
    """``=~``: whether a regular expression matches anywhere in the text."""
    return None if text is None else regular_expression(pattern).search(text) is not None


@lru_cache(256)
def regular_expression(pattern: str) -> Any:
    """A compiled RE2 pattern. Raises ValueError with a message for the user."""
    options = re2.Options()
    options.log_errors = False
    options.max_mem = 1 << 20
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0] if error.args else "RE2 cannot read it"
        raise ValueError(reason.decode() if isinstance(reason, bytes) else str(reason)) from error
