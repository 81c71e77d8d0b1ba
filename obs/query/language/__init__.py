"""OQL, the query language: from the text of a statement to nodes, and from these to a checked plan."""

from collections.abc import Callable, Sequence
from functools import lru_cache

from obs.query.language.check import check
from obs.query.language.errors import OqlError
from obs.query.language.grammar import parse
from obs.query.language.nodes import Span
from obs.query.language.plan import Listing, Plan
from obs.sources import Source

_CACHED_PLANS = 512


class Language:
    """OQL over a list of sources. It caches plans, as dashboards repeat statements. Safe to use from any thread."""

    def __init__(self, sources: Sequence[Source]) -> None:
        by_name = {source.name: source for source in sources}
        self._cached: Callable[[str], Plan | Listing] = lru_cache(_CACHED_PLANS)(
            lambda text: check(parse(text), text, by_name)
        )

    def plan(self, text: str, max_length: int) -> Plan | Listing:
        """The plan of a statement of at most `max_length` characters. Raises OqlError."""
        if len(text) > max_length:
            message = f"The statement has {len(text)} characters. The limit is {max_length}."
            raise OqlError("oql_too_long", Span(max_length, len(text)), message)
        return self._cached(text)
