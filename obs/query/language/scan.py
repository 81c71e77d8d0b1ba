"""The outline of a statement: quotes, comments and groups (see grammar.py), found before the grammar runs."""

import re
from enum import Enum
from typing import Any

from obs.query.language.errors import OqlError
from obs.query.language.nodes import Span

MOST_LEVELS = 50  # how deep groups may be nested

_CLAUSES = "WHERE BY GROUP EVERY LAST BETWEEN SINCE HAVING ORDER TOP LIMIT OFFSET FILL TIMEZONE COMPARE AROUND"
_OTHERS = """
    SELECT FROM UNTIL AND OR NOT IN LIKE ILIKE CONTAINS STARTS IS NULL TRUE FALSE CASE WHEN THEN ELSE END AS ASC DESC
"""
CLAUSES = _CLAUSES.split()  # keywords with which a clause begins
RESERVED = frozenset([*CLAUSES, *_OTHERS.split()])  # keywords that are names only in double quotes
NOT_FUNCTIONS = RESERVED - {"LAST"}  # words that do not name a function where a parenthesis follows

QUOTED_TEXT = r"'(?:[^']|'')*'"
QUOTED_NAME = r'"(?:[^"]|"")*"'
PARAMETER = r":[^\W\d]\w*+"
_QUOTED = f"{QUOTED_TEXT}|{QUOTED_NAME}"
_COMMENT = r"--(?=\s|\Z)[^\n]*|(?<!\S)--[^\n]*|/\*(?s:.*?)\*/"
_BLANK = rf"{_COMMENT}|[^\S \n\r\t]|[\u200b\ufeff]"  # comments, and spaces that are copied from web pages
_OUTLINE = re.compile(rf"{_QUOTED}|(?P<blank>{_BLANK})|(?P<unclosed>['\"]|/\*)|(?P<curly>[\u2018-\u201f])")
_GROUPS = re.compile(
    rf"{_QUOTED}"
    r"|(?P<case>\b(?ai:CASE)\b)"
    r"|(?P<end>\b(?ai:END)\b)"
    r"|(?:\b(?P<word>(?ai:STARTS\s++WITH)|[^\W\d]\w*+)\s*+)?(?P<open>\()"
    r"|(?P<close>\))"
)
_TOKEN = re.compile(rf"{_QUOTED}|{PARAMETER}|\d[\w.]*|\w+|=~|!~|!=|<>|<=|>=|==|&&|\|[|=~]?|[$@]\w+|\S")

Kind = Enum("Kind", ["STATEMENT", "PARENTHESES", "ARGUMENTS", "VALUES", "FILTER", "CASE"])
"""What a group is, and so which part of the grammar parses it."""


class Segment(str):
    """The text of one group, with the content of groups in it replaced by blanks, and what parse actions need."""

    kind: Kind
    statement: str  # the whole one
    start: int  # where the group starts in it
    trees: dict[int, Any]  # those of groups, by where they start
    parameters: dict[str, Any]  # their values
    used: set[str]  # the names of those that are used
    farthest = -1  # the last place at which tokens did not match
    failures: list[tuple[str, tuple[str, ...]]]  # these tokens: what could have been written there
    operand: Any  # the node of the last arithmetic


def scan(text: str) -> list[Segment]:
    """The groups of a statement, each after those in it; the last one is the statement itself.

    A group that is never closed goes on to the end of the group around it. Raises OqlError (oql_syntax, oql_too_long).
    """
    # Comments, odd spaces and semicolons at the end become blanks, so that places stay the same.
    statement = _OUTLINE.sub(_blank, text).rstrip("; \n\r\t").ljust(len(text))
    found: list[Segment] = []
    groups = [(Kind.STATEMENT, 0)]  # those whose end is not known yet, and where they start
    characters = list(statement)

    def close(end: int, content_end: int) -> None:
        kind, start = groups.pop()
        segment = Segment("".join(characters[start:end]))
        segment.kind, segment.statement, segment.start = kind, statement, start
        found.append(segment)
        content_start = start + (len("CASE") if kind is Kind.CASE else len("("))
        characters[content_start:content_end] = " " * (content_end - content_start)

    for match in _GROUPS.finditer(statement):
        if match["case"] or match["open"]:
            kind = Kind.CASE if match["case"] else _kind(match, *groups[-1], statement)
            place = Span(*match.span("case" if match["case"] else "open"))
            if len(groups) > MOST_LEVELS:
                message = f"The statement is nested more than {MOST_LEVELS} levels deep."
                raise OqlError("oql_too_long", place, message, hint="Remove parentheses that AND and OR do not need.")
            groups.append((kind, place.start))
        elif match["end"] and groups[-1][0] is Kind.CASE:
            close(match.end(), match.start())
        elif match["close"] and any(kind not in (Kind.CASE, Kind.STATEMENT) for kind, _ in groups):
            while groups[-1][0] is Kind.CASE:
                close(match.start(), match.start())
            close(match.end(), match.start())
    while groups:
        close(len(statement), len(statement))
    return found


def token_at(text: str, place: int) -> Span:
    """The token at `place`, or after the white space there; an empty span at the end of `text`."""
    match = _TOKEN.search(text, place)
    return Span(*match.span()) if match else Span(len(text.rstrip()), len(text.rstrip()))


def _blank(match: re.Match[str]) -> str:
    """What the grammar sees of a quoted text or of what is between tokens. Raises OqlError."""
    if match["unclosed"]:
        what, end = {"'": ("text", "'"), '"': ("name", '"')}.get(match[0], ("comment", "*/"))
        message = f"The {what} that starts here is never closed."
        hint = "Close it. A quote inside a text is written twice: 'it''s'." if what == "text" else None
        raise OqlError("oql_syntax", Span(*match.span()), message, expected=[end], hint=hint)
    if match["curly"]:
        raise OqlError("oql_syntax", Span(*match.span()), "This is a curly quote.", hint="Use straight quotes: 'text'.")
    return " " * len(match[0]) if match["blank"] else match[0]


def _kind(match: re.Match[str], around: Kind, start: int, statement: str) -> Kind:
    """The kind of the group that an opening parenthesis opens, by the word before it; `around` it is one at `start`."""
    word = match["word"] or ""
    word = word.upper() if word.isascii() else word
    if word == "IN":
        return Kind.VALUES
    if not word or word.split()[0] in NOT_FUNCTIONS:
        return Kind.PARENTHESES
    if word in ("FILTER", "DISTINCT"):
        before = statement[start : match.start()].rstrip()
        if word == "FILTER" and before.endswith(")"):
            return Kind.FILTER
        if word == "DISTINCT" and (before == "(" if around is Kind.ARGUMENTS else before.upper().endswith("SELECT")):
            return Kind.PARENTHESES
    return Kind.ARGUMENTS
