"""Elements of a grammar that look ahead instead of trying, and that note what was tried where a statement is wrong.

Looking ahead is quick and says nothing of what could have stood there. So a wrong statement is parsed twice: quickly,
to the place where that fails; and again, where from that place on everything is tried, and what fails is noted.
"""

import re
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyparsing as pp

_SPACE = re.compile(r"\s*")
_NOWHERE = 1 << 62


class _Record(threading.local):
    """Of this thread's statement: the place from which on everything is tried, and the tokens that failed, by place."""

    def __init__(self) -> None:
        self.tried_from = _NOWHERE
        self.failed: list[tuple[int, str]] = []


_record = _Record()


def recorded(parse: Callable[[], Any], tried_from: int) -> tuple[int, list[str]]:
    """Parse what fails; the farthest place at which a token failed, and the names of the tokens that did."""
    _record.tried_from, _record.failed = tried_from, []
    try:
        parse()
    except pp.ParseBaseException:
        failed = _record.failed
    finally:
        _record.tried_from, _record.failed = _NOWHERE, []
    farthest = max(place for place, _ in failed)
    return farthest, list(dict.fromkeys(name for place, name in failed if place == farthest))


def note_failure(_text: str, place: int, element: Any, _error: Exception) -> None:
    """A token that fails: the action for it."""
    if place >= _record.tried_from:
        _record.failed.append((place, element.name))


def _is_tried(text: str, place: int) -> bool:
    return _past_space(text, place) >= _record.tried_from


def _past_space(text: str, place: int) -> int:
    match = _SPACE.match(text, place)
    return place if match is None else match.end()


class Choice(pp.MatchFirst):
    """Alternatives, of which the first character tells some."""

    def __init__(self, exprs: Sequence[pp.ParserElement], by_first: Mapping[str, pp.ParserElement]) -> None:
        super().__init__(exprs)
        self.by_first = by_first

    def parseImpl(self, instring: str, loc: int, do_actions: bool = True) -> Any:  # noqa: N802
        if not _is_tried(instring, loc):
            element = self.by_first.get(instring[loc : loc + 1])
            if element is not None:
                return element._parse(instring, loc, do_actions)
        return super().parseImpl(instring, loc, do_actions)


class Optional(pp.Opt):
    """An element that may be left out, and begins with what `first` matches."""

    def __init__(self, expr: Any, first: str) -> None:
        super().__init__(expr)
        self.first = re.compile(first, re.IGNORECASE)

    def parseImpl(self, instring: str, loc: int, do_actions: bool = True) -> Any:  # noqa: N802
        if not _is_tried(instring, loc) and not self.first.match(instring, _past_space(instring, loc)):
            return loc, []
        return super().parseImpl(instring, loc, do_actions)


class Short(pp.ParseElementEnhance):
    """An element that is often no more than what `pattern` matches, of which `make` makes the node.

    `pattern` ends with a look at what comes behind, so that it matches only where the element would match no more.
    """

    def __init__(self, expr: Any, pattern: str, make: Callable[[str, int, Any], Any]) -> None:
        super().__init__(expr)
        self.pattern = re.compile(pattern, re.IGNORECASE)
        self.make = make

    def parseImpl(self, instring: str, loc: int, do_actions: bool = True) -> Any:  # noqa: N802
        start = _past_space(instring, loc)
        match = self.pattern.match(instring, start)
        if match is None or _is_tried(instring, match.end()):
            return self.expr._parse(instring, loc, do_actions)
        return match.end(), pp.ParseResults([self.make(instring, start, match)])
