"""The grammar of OQL: text in, nodes out. It evaluates nothing and knows no source.

::

    statement = [EXPLAIN] SELECT item {"," item} FROM name {clause} | SHOW SOURCES | SHOW COLUMNS FROM name
    condition = predicate {(AND | OR) predicate}
    predicate = {NOT} arithmetic [comparison]
    arithmetic = operand {("+" | "-" | "*" | "/" | "%") operand}
    operand   = {"-"} (literal | name | call | CASE ... END | "(" condition ")")

Precedence is settled by `precedence`, so that a level of it costs no level of grammar. Every alternative is told from
the others by its first token: nothing is parsed twice, however deep it is nested.

There are two copies of the grammar. The quick one parses. Where it fails, the recording one parses again and notes
which tokens were tried at the farthest place reached: what could have stood there (`obs.query.language.elements`).
"""

import re
import sys
from collections.abc import Callable, Sequence
from typing import Any

import pyparsing as pp

from obs.query.language import actions, clause_actions, precedence
from obs.query.language.durations import UNITS_MS
from obs.query.language.elements import Choice, Optional, Short, note_failure, recorded
from obs.query.language.errors import OqlError
from obs.query.language.nodes import (
    Around,
    Clause,
    Span,
    Statement,
    Window,
)
from obs.query.language.scan import found_at, scan

RESERVED = frozenset(
    re.findall(
        r"\w+",
        "SELECT FROM WHERE BY GROUP EVERY LAST BETWEEN SINCE UNTIL HAVING ORDER TOP LIMIT FILL TIMEZONE COMPARE AROUND "
        "AND OR NOT IN LIKE ILIKE CONTAINS STARTS IS NULL TRUE FALSE CASE WHEN THEN ELSE END AS ASC DESC",
    )
)
"""Words that are names only in double quotes."""

# 50 levels of parentheses, some twenty frames each. Frames of Python code take no room on the C stack.
sys.setrecursionlimit(max(sys.getrecursionlimit(), 6_000))

_UNITS = "|".join(sorted(UNITS_MS, key=len, reverse=True))


def parse(text: str) -> Statement:
    """The nodes of a statement. Raises OqlError (oql_syntax, oql_bad_duration, oql_duplicate_clause, oql_too_long)."""
    readable = scan(text)
    try:
        return _quick(readable)
    except pp.ParseBaseException as error:
        failed_at = error.loc
    farthest, expected = recorded(lambda: _recording(readable), failed_at)
    span = found_at(readable, farthest)
    found = readable[span.start : span.end]
    words = [word for word in expected if word.isupper()]
    seen = f"{found!r} cannot stand here" if found else "the statement ends too early"
    raise OqlError("oql_syntax", span, f"{seen}; expected {_listed(expected)}.", expected=expected, known=words)


def _listed(expected: Sequence[str]) -> str:
    return expected[0] if len(expected) == 1 else f"{', '.join(expected[:-1])} or {expected[-1]}"


def _grammar(*, recording: bool) -> Callable[[str], Statement]:
    """One copy of the grammar as a function from text to nodes."""

    def token(name: str, pattern: str, action: actions.Action | None = None) -> pp.ParserElement:
        element: pp.ParserElement = pp.Regex(pattern, re.IGNORECASE).set_name(name)
        if action is not None:
            element.set_parse_action(action)
        if recording:
            element.set_fail_action(note_failure)
        return element

    def word(*words: str) -> pp.ParserElement:
        """Keywords that follow each other; they leave nothing behind."""
        elements = [token(each, rf"{each}(?!\w)", actions.drop) for each in words]
        return pp.And(elements) if len(elements) > 1 else elements[0]

    def mark(symbol: str) -> pp.ParserElement:
        return token(symbol, re.escape(symbol), actions.drop)

    def guarded(first: str, element: Any) -> Any:
        """An optional element, by what its first tokens look like."""
        return Optional(element, first)

    def one_of(*words: str) -> Any:
        """Any of several operators that are words: one token, or, where failures are noted, one for each."""
        if recording:
            return pp.MatchFirst([token(each, rf"{each}(?!\w)", actions.operator) for each in words])
        return token(words[0], rf"(?:{'|'.join(words)})(?!\w)", actions.operator)

    def listed(element: Any) -> Any:
        return element + (mark(",") + element)[...]

    # Tokens
    reserved = "|".join(sorted(RESERVED))
    name = token("a name", rf'(?!(?:{reserved})(?!\w))[^\W\d]\w*|"(?:[^"]|"")*"', actions.name)
    a_column = rf'(?!(?:{reserved})(?!\w))[^\W\d]\w*(?!\w|\s*\()|"(?:[^"]|"")*"'
    column = token("a column", a_column, actions.name)
    not_functions = "|".join(sorted(RESERVED - {"LAST"}))
    function = token("a function", rf"(?!(?:{not_functions})(?!\w))[^\W\d]\w*(?=\s*\()", actions.name)
    a_text = r"'(?:[^']|'')*'"
    text = token("a text in single quotes", a_text, actions.text)
    amount = rf"\d[\w.]*(?:(?<=\d)\s+(?:{_UNITS})(?!\w))?"
    number = token("a number", amount + r"|\d+(?:\.\d+)?[eE][+-]\d+", actions.number)
    duration = token(
        "a duration", rf"\d[\w.]*(?<=[\d.])\s+(?!(?:{reserved})(?!\w))[^\W\d_]+|\d[\w.]*", actions.duration
    )
    count = token("a whole number", r"\d[\w.]*", actions.count)
    constant = token("TRUE", r"TRUE(?!\w)", actions.constant(True))
    constant |= token("FALSE", r"FALSE(?!\w)", actions.constant(False))
    constant |= token("NULL", r"NULL(?!\w)", actions.constant(None))
    star = token("*", r"\*", actions.star)
    close = token(")", r"\)", actions.end)
    minus = token("-", r"(?:[-+]\s*)*", actions.signs)
    nots = token("NOT", r"(?:NOT(?!\w)\s*)*", actions.signs)

    # Expressions. `plain` ones stand where BETWEEN begins the window.
    condition: Any = pp.Forward().set_name("a condition")
    filter_ = word("FILTER") + mark("(") + word("WHERE") + condition + close
    distinct = token("DISTINCT", r"DISTINCT(?!\w)", actions.mark("distinct"))
    arguments = star | pp.Opt(distinct) + listed(condition)
    call = (function + mark("(") + pp.Opt(arguments) + close + guarded(r"FILTER(?!\w)", filter_)).set_parse_action(
        actions.call
    )
    else_ = word("ELSE") + condition
    case = token("CASE", r"CASE(?!\w)", actions.mark("case"))
    case = case + (word("WHEN") + condition + word("THEN") + condition)[1, ...]
    case = (
        case + pp.Opt(else_).set_parse_action(actions.otherwise) + token("END", r"END(?!\w)", actions.end)
    ).set_parse_action(actions.case)
    group = (token("(", r"\(", actions.drop) + condition + close).set_parse_action(actions.group)
    by_first = {"(": group, "'": text, '"': column, **dict.fromkeys("0123456789", number)}
    operand = minus + Choice([call, column, number, text, group, case, constant], by_first)
    # Most of a long list: an operand alone, behind which the list goes on or ends.
    alone = rf"(?:{a_column}|{a_text}|\d{{1,18}})(?=\s*(?:[,)]|FROM(?!\w)))"
    operator = token("an operator", r"[-+*/%]", actions.operator)
    arithmetic = (operand + (operator + operand)[...]).set_parse_action(precedence.arithmetic)
    negation = pp.Opt(token("NOT", r"NOT(?!\w)", actions.mark("not")))
    values = mark("(") + listed(Short(arithmetic, alone, actions.alone)) + close
    comparing = token("a comparison", r"=~|!~|!=|<>|<=|>=|=|<|>", actions.operator) + arithmetic
    null = word("IS") + negation + token("NULL", r"NULL(?!\w)", actions.mark("is null"))
    matching = (
        token("IN", r"IN(?!\w)", actions.operator) + values
        | one_of("LIKE", "ILIKE", "CONTAINS") + arithmetic
        | token("STARTS", r"STARTS(?!\w)", actions.operator) + word("WITH") + arithmetic
    )
    between = token("BETWEEN", r"BETWEEN(?!\w)", actions.operator) + arithmetic + word("AND") + arithmetic
    connective = one_of("AND", "OR")

    def conditions(comparison: Any) -> Any:
        first = r"[=!<>]|(?:IS|NOT|IN|LIKE|ILIKE|CONTAINS|STARTS|BETWEEN)(?!\w)"
        predicate = (nots + arithmetic + guarded(first, comparison)).set_parse_action(precedence.predicate)
        return (predicate + (connective + predicate)[...]).set_parse_action(precedence.condition)

    condition <<= Short(conditions(comparing | null | negation + (matching | between)), alone, actions.alone)
    plain = Short(conditions(comparing | null | negation + matching), alone, actions.alone)

    # Clauses
    now = token("NOW", r"NOW(?!\w)", actions.mark("now")) + pp.Opt(mark("-") + duration)
    moment = (text | now).set_parse_action(clause_actions.moment)

    def clause(kind: str, keyword: pp.ParserElement, *value: pp.ParserElement, make: Callable[[Span, list[Any]], Any]):  # type: ignore[no-untyped-def]
        def action(source: str, place: int, found: Any) -> Clause:
            keyword_span = found_at(source, place)
            return Clause(keyword_span, kind, make(keyword_span, list(found)))

        return pp.And([keyword, *value]).set_parse_action(action)

    def only(_span: Span, found: list[Any]) -> Any:
        return found[0]

    def several(_span: Span, found: list[Any]) -> Any:
        return tuple(found)

    direction = token("ASC", r"ASC(?!\w)", actions.mark("asc")) | token("DESC", r"DESC(?!\w)", actions.mark("desc"))
    sorting = (plain + pp.Opt(direction)).set_parse_action(clause_actions.sorting)
    filling = (
        token("NONE", r"NONE(?!\w)", actions.mark("none"))
        | token("NULL", r"NULL(?!\w)", actions.mark("null"))
        | token("PREVIOUS", r"PREVIOUS(?!\w)", actions.mark("previous"))
        | minus + number
    )
    auto = token("AUTO", r"AUTO(?!\w)", actions.mark("auto"))
    clauses = (
        clause("where", word("WHERE"), condition, make=only)
        | clause("by", word("BY") | word("GROUP", "BY"), listed(plain), make=several)
        | clause("every", word("EVERY"), duration | auto, make=clause_actions.every)
        | clause("window", word("LAST"), duration, make=lambda span, found: Window(span, last=found[0]))
        | clause(
            "window", word("BETWEEN"), moment, word("AND"), moment, make=lambda span, found: Window(span, None, *found)
        )
        | clause(
            "window",
            word("SINCE"),
            moment,
            pp.Opt(word("UNTIL") + moment),
            make=lambda span, found: Window(span, None, *found),
        )
        | clause("having", word("HAVING"), condition, make=only)
        | clause("order", word("ORDER", "BY"), listed(sorting), make=several)
        | clause("top", word("TOP"), count, make=only)
        | clause("limit", word("LIMIT"), count, make=only)
        | clause("fill", word("FILL"), filling, make=clause_actions.fill)
        | clause("timezone", word("TIMEZONE"), text, make=only)
        | clause("compare", word("COMPARE", "WITH"), duration, word("AGO"), make=only)
        | clause(
            "around", word("AROUND"), text, word("WITHIN"), duration, make=lambda span, found: Around(span, *found)
        )
    )

    alias = word("AS") + name
    item = (star | condition + pp.Opt(alias)).set_parse_action(clause_actions.item)
    source = token("a source", rf'(?!(?:{reserved})(?!\w))[^\W\d]\w*|"(?:[^"]|"")*"', actions.name)
    items = pp.Group(listed(item))
    explain = pp.Opt(token("EXPLAIN", r"EXPLAIN(?!\w)", actions.mark("explain")))
    select = (explain + word("SELECT") + items + word("FROM") + source + clauses[...]).set_parse_action(
        clause_actions.select
    )
    shown = word("SOURCES") | word("COLUMNS") + word("FROM") + source
    show = (word("SHOW") + shown).set_parse_action(clause_actions.show)
    whole = (select | show) + token("the end", r"\Z", actions.drop)
    whole.parse_with_tabs()
    whole.streamline()

    def parse_with(text: str) -> Statement:
        statement: Statement = whole.parse_string(text)[0]
        return statement

    return parse_with


_quick = _grammar(recording=False)
_recording = _grammar(recording=True)
