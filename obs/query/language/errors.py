"""Errors in statements: what is wrong, where, and what could be written there."""

import difflib
import re
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

from obs.errors import ServiceError
from obs.query.language.nodes import Span

_LONGEST_LINE = 100


@dataclass(eq=False)
class OqlError(Exception):
    """A statement that cannot be answered."""

    word: str  # the error code
    span: Span
    message: str
    _: KW_ONLY
    expected: Sequence[str] = ()  # what could be written at `span`
    summary: Sequence[str] = ()  # how the message lists that
    known: Sequence[str] = ()  # names: those that are similar to what was found are suggested, unless there is a hint
    hint: str | None = None
    advice: str | None = None  # the hint if no name in `known` is similar

    def error(self, text: str) -> ServiceError:
        """The response (400) to the statement `text`."""
        start, end = self.span
        found = text[start:end]
        line = text.count("\n", 0, start) + 1
        column = start - (text.rfind("\n", 0, start) + 1) + 1
        suggestions = [] if self.hint else similar(found, self.known)
        detail: dict[str, Any] = {
            "line": line,
            "column": column,
            "offset": start,
            "length": end - start,
            "found": found,
            "expected": list(self.expected),
            "did_you_mean": suggestions,
            "caret": _caret(text, start, end),
        }
        question = f"Did you mean {suggestions[0]}?" if suggestions else None
        words = ", ".join(word if re.match(r"\w", word) else f"'{word}'" for word in self.summary)
        listed = f"Expected {'one of: ' if len(self.summary) > 1 else ''}{words}." if words else None
        message = " ".join(part for part in (self.message, question, listed) if part)
        message = f"Line {line}, column {column}: {message}"
        return ServiceError(self.word, message, errors={"query": [detail]}, hint=self.hint or question or self.advice)


def mismatch(span: Span, message: str, expected: Sequence[str] = (), hint: str | None = None) -> OqlError:
    return OqlError("oql_type_mismatch", span, message, expected=expected, hint=hint)


def similar(found: str, known: Sequence[str]) -> list[str]:
    """The names among `known` that could be meant by `found`."""
    written = {name.strip("'").lower(): name for name in reversed(known)}
    close = difflib.get_close_matches(found.strip("\"'").lower(), list(written), n=3, cutoff=0.65)
    return [written[name] for name in close]


def _caret(text: str, start: int, end: int) -> str:
    """The line with the error, and a ``^`` under every wrong character. Of a long line, only a part is shown."""
    line_start = text.rfind("\n", 0, start) + 1
    line_end = start + len(text[start:].partition("\n")[0])
    first = max(line_start, start - _LONGEST_LINE // 2) if line_end - line_start > _LONGEST_LINE else line_start
    shown = text[first : min(line_end, first + _LONGEST_LINE)]
    shown = "".join(character if character.isprintable() else " " for character in shown)
    length = max(1, min(end, first + len(shown)) - start)
    return f"{shown}\n{' ' * (start - first)}{'^' * length}"
