"""Statements as text into plans, with a cache: dashboards send the same text again and again."""

from collections.abc import Callable, Sequence
from functools import lru_cache

from obs.query.language.check import check
from obs.query.language.errors import OqlError
from obs.query.language.grammar import parse
from obs.query.language.nodes import Span
from obs.query.language.plan import Listing, Plan
from obs.sources import Source

_CACHED = 512


class Language:
    """OQL over a list of sources. Safe to use from any thread."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self.sources = {source.name: source for source in sources}
        self._cached: Callable[[str], Plan | Listing] = lru_cache(_CACHED)(self._plan)

    def plan(self, text: str, max_length: int) -> Plan | Listing:
        """The plan of a statement of at most `max_length` characters. Raises OqlError."""
        if len(text) > max_length:
            raise OqlError(
                "oql_too_long",
                Span(max_length, len(text)),
                f"the statement has {len(text)} characters; {max_length} are allowed.",
            )
        return self._cached(text)

    def _plan(self, text: str) -> Plan | Listing:
        return check(parse(text), text, self.sources)
