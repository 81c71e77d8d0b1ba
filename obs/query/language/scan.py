"""A first look at a statement: quotes, comments and parentheses. What the grammar sees holds no comments."""

import re

from obs.query.language.errors import OqlError
from obs.query.language.nodes import Span

MOST_LEVELS = 50
"""How deep parentheses (and CASE, which nests like them) may go."""

_PART = re.compile(
    r"""(?P<quoted>'(?:[^']|'')*'|"(?:[^"]|"")*")"""
    r"""|(?P<unclosed>['"])"""
    r"""|(?P<comment>--(?=\s|\Z)[^\n]*)"""
    r"""|(?P<opens>\(|\bCASE\b)"""
    r"""|(?P<closes>\)|\bEND\b)""",
    re.IGNORECASE,
)
_FOUND = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|\w+|=~|!~|!=|<>|<=|>=|\S""")


def scan(text: str) -> str:
    """`text` with blanks in place of comments, so that every place keeps its number.

    Raises OqlError: oql_syntax for a quote that is never closed, oql_too_long for too many levels.
    """
    level = 0
    parts = []
    end = 0
    for match in _PART.finditer(text):
        if match["unclosed"]:
            what = "text" if match[0] == "'" else "name"
            raise OqlError(
                "oql_syntax", Span(*match.span()), f"the {what} that begins here is never closed.", expected=[match[0]]
            )
        if match["comment"]:
            parts += [text[end : match.start()], " " * len(match[0])]
            end = match.end()
        elif match["opens"]:
            level += 1
            if level > MOST_LEVELS:
                raise OqlError(
                    "oql_too_long",
                    Span(*match.span()),
                    f"the statement is nested more than {MOST_LEVELS} levels deep.",
                    hint="Take parentheses away: AND and OR need none among themselves.",
                )
        elif match["closes"]:
            level = max(0, level - 1)
    return "".join([*parts, text[end:]])


def found_at(text: str, place: int) -> Span:
    """The token that begins at `place` (or after white space there); empty at the end of `text`."""
    match = _FOUND.search(text, place)
    return Span(*match.span()) if match else Span(len(text.rstrip()), len(text.rstrip()))
