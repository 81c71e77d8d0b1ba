"""The grammar of OQL: text in, nodes out. It knows no source and looks nothing up.

::

    statement  = [EXPLAIN] SELECT item {"," item} FROM name {clause} | SHOW SOURCES | SHOW COLUMNS FROM name
    condition  = predicate {(AND | OR) predicate}
    predicate  = {NOT} arithmetic [comparison]
    arithmetic = operand {("+" | "-" | "*" | "/" | "%") operand}
    operand    = {"-"} (literal | ":" parameter | name | call | CASE ... END | "(" condition ")")

`scan` splits a statement into segments, one for each group in parentheses or CASE ... END, which are parsed one after
the other. In the segment around it a group is a single token. So no rule refers to itself, and the depth of Python's
stack does not depend on the statement. `actions` creates the nodes and applies precedence.
"""

import re
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import pyparsing as pp

from obs.query.language import actions, habits, scan
from obs.query.language.errors import OqlError, similar
from obs.query.language.nodes import Duration, Literal, Show, Span, Star, Statement
from obs.query.language.scan import PARAMETER, QUOTED_NAME, QUOTED_TEXT, RESERVED, Kind, Segment

_CONDITION = re.compile(r"[^\W\d]\w*+\s*([=!<>]|(?i:LIKE|IN|IS|CONTAINS)\b)")  # how one begins


def parse(text: str, parameters: dict[str, Any] | None = None) -> Statement:
    """The nodes of a statement, with literals for its `parameters`. Raises OqlError: the first one in the text."""
    trees: dict[int, Any] = {}
    errors, parameters, used = [], parameters or {}, set[str]()
    for segment in scan.scan(text):
        # If it cannot be parsed, this stands for it, so that errors around it are found too.
        is_list = segment.kind in (Kind.ARGUMENTS, Kind.VALUES)
        trees[segment.start] = ((), False) if is_list else Literal(Span(0, 0), None)
        segment.trees, segment.parameters, segment.used = trees, parameters, used
        try:
            trees[segment.start] = _GRAMMARS[segment.kind].parse_string(segment)[0]
        except pp.ParseBaseException:
            errors.append(_syntax_error(segment))
        except OqlError as error:
            errors.append(error)
    for name in () if errors else parameters.keys() - used:
        message, hint = f"The statement does not use the parameter {name}.", f"Write :{name} in it, or do not send it."
        errors.append(OqlError("oql_bad_parameter", scan.token_at(text, len(text)), message, hint=hint))
    if errors:
        raise min(errors, key=lambda error: error.span.start)
    return cast("Statement", trees[0])


def _syntax_error(segment: Segment) -> OqlError:
    span = scan.token_at(segment.statement, segment.start + segment.farthest)
    found = segment.statement[slice(*span)]
    names = dict.fromkeys(name for name, _ in segment.failures)
    expected = list(dict.fromkeys(word for _, words in segment.failures for word in words))
    function = re.search(r"\b(\w++)\s*\Z", segment.statement[: segment.start])
    hint = habits.FUNCTIONS.get(function[1].lower()) if function and segment.kind is Kind.ARGUMENTS else None
    # A word after a column of SELECT that is not FROM is another column, or its name: no operator that it resembles.
    words = [word for word in expected if word.isupper() and found[:1] != "'"]
    known = ["FROM"] if {"AS", "FROM"} <= {*expected} else words
    if "AND" in expected and _CONDITION.match(segment.statement, span.start):
        hint = "Write AND or OR between two conditions."
    elif found.upper() in (*habits.WORDS, *habits.FIRST) or not similar(found, known):
        hint = hint or habits.advice(found, segment.statement[: span.start], expected)
    message = f"Unexpected {found!r}." if found else "Unexpected end of the statement."
    return OqlError("oql_syntax", span, message, expected=expected, summary=list(names), known=known, hint=hint)


def _rule(element: pp.ParserElement, action: actions.Action) -> pp.ParserElement:
    """pyparsing passes on the string that it parses, which is a Segment."""
    element.set_parse_action(action)  # type: ignore[arg-type]
    return element


def _token(name: str, pattern: str, action: Callable[[actions.Token], Any], *expected: str) -> pp.ParserElement:
    """A token, as the summary of an error names it. `expected` are the words that could be written for it."""
    words = expected or (name,)

    def note(segment: Segment, place: int, _element: Any, _error: Exception) -> None:
        if place > segment.farthest:
            segment.farthest, segment.failures = place, [(name, words)]
        elif place == segment.farthest:
            segment.failures.append((name, words))

    def act(segment: Segment, place: int, found: Any) -> Any:
        start = segment.start + place
        return action(actions.Token(Span(start, start + len(found[0])), found[0], segment))

    element = _rule(pp.Regex(pattern).set_name(name), act)
    element.set_fail_action(note)  # type: ignore[arg-type]  # a Segment, as above
    return element


def _words(*words: str) -> str:
    """The words, in small or capital letters of ASCII."""
    return rf"(?ai:{'|'.join(words)})(?!\w)"


def _keyword(word: str, action: Callable[[actions.Token], Any] = actions.drop) -> pp.ParserElement:
    return _token(word, _words(word), action)


_marked = partial(_keyword, action=actions.word)  # a keyword that an action needs to see


def _symbol(symbol: str) -> pp.ParserElement:
    return _token(symbol, re.escape(symbol), actions.drop)


def _clause(kind: str, keywords: pp.ParserElement, *content: Any) -> pp.ParserElement:
    """A clause: its keywords, of which the first leaves its span, and its content."""
    return _rule(pp.And([keywords, *content]), actions.clause(kind))


def _grammars() -> dict[Kind, pp.ParserElement]:
    # Tokens
    word = rf"(?!{_words(*sorted(RESERVED))})[^\W\d]\w*+"
    column = rf"{word}(?!\s*\()|{QUOTED_NAME}"
    unit = _words(*sorted(actions.UNITS_MS, key=len, reverse=True))
    divisor = r"(?:(?<=/)|(?<=/ ))\d*000(?![\w.]|\s+ms)"  # the unit after it stands for a name: duration_ms / 1000 s
    number = rf"{divisor}|\d+(?:\.\d+)?[eE][+-]\d+|\d[\w.]*+(?:(?<=\d)\s+{unit})?"
    value = rf"{QUOTED_TEXT}|{number}|{PARAMETER}|{_words('TRUE', 'FALSE', 'NULL')}|{column}"
    values = ("a column", "a number", "a text in single quotes", "TRUE", "FALSE", "NULL")
    name = _token("a name", f"{word}|{QUOTED_NAME}", actions.name)
    source = _token("a source", f"{word}|{QUOTED_NAME}", actions.name)
    text = _token("a text in single quotes", rf"{QUOTED_TEXT}|{PARAMETER}", actions.text)
    durations = rf"\d[\w.]*(?<=[\d.])\s+(?!{_words(*sorted(RESERVED))})[^\W\d_]+|\d[\w.]*|{PARAMETER}"
    duration = _token("a duration", durations, actions.duration)
    length = _token("a duration", durations, actions.length)
    count = _token("a whole number", rf"\d+(?![\w.]|\s+{unit})|{PARAMETER}", actions.count)
    star = _token("*", r"\*", lambda token: Star(token.span))
    signs = _token("-", r"(?:[-+]\s*)*", actions.prefixes)
    nots = _token("NOT", rf"(?:{_words('NOT')}\s*)*", actions.prefixes)
    close = _symbol(")")
    list_of = partial(pp.DelimitedList, delim=_symbol(","))
    the_end = _token("the end", r"\Z", actions.drop)

    # Operands. The content of a group is blank here; it has a segment of its own.
    group = r"\(\s*(?:\)|\Z)"
    function = rf"(?!{_words(*sorted(scan.NOT_FUNCTIONS))})[^\W\d]\w*+\s*{group}"
    filter_ = _token("an operator", _words("FILTER"), actions.drop, "FILTER") + _token("(", group, actions.filter_)
    call = _rule(_token("a value", function, actions.call_head, "a function") + pp.Opt(filter_), actions.call)
    case_group = rf"{_words('CASE')}\s*(?:{_words('END')}|\Z|(?=\)))"
    operand = signs + (
        _token("a value", value, actions.value, *values)
        | call
        | _token("a value", group, actions.group, "(")
        | _token("a value", case_group, actions.group, "CASE")
    )
    operator = _token("an operator", r"[-+*/%]", actions.word)
    arithmetic = _rule(operand + (operator + operand)[...], actions.arithmetic)

    # Conditions. `plain` ones stand where BETWEEN starts the window.
    comparing = _token("an operator", r"=~|!~|!=|<>|<=|>=|==?|<|>", actions.word, "a comparison") + arithmetic
    is_null = _marked("IS") + pp.Opt(_marked("NOT")) + _keyword("NULL")
    like = _token("LIKE", _words("LIKE", "ILIKE"), actions.word, "LIKE", "ILIKE")
    matching = (
        _marked("IN") + _token("(", rf"{group}|{PARAMETER}", actions.values)
        | like + arithmetic + pp.Opt(_keyword("ESCAPE") + text, Literal(Span(0, 0), ""))
        | _marked("CONTAINS") + arithmetic
        | _marked("STARTS") + _keyword("WITH") + arithmetic
    )
    between = _keyword("BETWEEN", actions.between) + arithmetic + _keyword("AND") + arithmetic
    and_or = _token("an operator", rf"{_words('AND', 'OR')}|&&|\|\|", actions.word, "AND", "OR")

    def conditions(matching: pp.ParserElement, *words: str) -> pp.ParserElement:
        names = ("IS", "NOT", "IN", "LIKE", "ILIKE", "CONTAINS", "STARTS", *words)
        ahead = _token("an operator", rf"(?=[=!<>]|{_words(*names)})", actions.drop, "a comparison", *names)
        comparison = ahead + (comparing | is_null | pp.Opt(_marked("NOT")) + matching)
        predicate = _rule(nots + arithmetic + pp.Opt(comparison), actions.predicate)
        return _rule(predicate + (and_or + predicate)[...], actions.condition)

    condition = conditions(matching | between, "BETWEEN")
    plain = conditions(matching)

    # Clauses
    now = _token("NOW", rf"{_words('NOW')}(?:\s*{group})?|{_words('TODAY', 'YESTERDAY')}", actions.word, "NOW", "TODAY")
    sent = _token("a duration", rf"{PARAMETER}(?=\s+{_words('AGO')})", actions.duration)
    since = (text | now) + pp.Opt(_symbol("-") + duration)
    moment = _rule(sent + _keyword("AGO") | since | duration + _keyword("AGO"), actions.moment)
    group_item = _rule(plain + pp.Opt(_keyword("AS") + name), actions.item)
    sorting = _rule(plain + pp.Opt(_marked("ASC") | _marked("DESC")), actions.sorting)
    fill_number = signs + _token("a number", rf"{number}|{PARAMETER}", actions.value)
    fill = _marked("NONE") | _marked("NULL") | _marked("PREVIOUS") | fill_number

    by = _marked("BY") | _marked("GROUP") + _keyword("BY")
    order_by = _marked("ORDER") + _keyword("BY")
    until = pp.Opt(_keyword("UNTIL") + moment)
    clause = _token("a clause", rf"(?={_words(*scan.CLAUSES)})", actions.drop, *scan.CLAUSES) + (
        _clause("where", _marked("WHERE"), condition)
        | _clause("window", _marked("LAST"), _rule(pp.And([length]), actions.moment))
        | _clause("by", by, list_of(group_item))
        | _clause("every", _marked("EVERY"), length | _keyword("AUTO", lambda token: Duration(token.span, 0)))
        | _clause("order", order_by, list_of(sorting))
        | _clause("limit", _marked("LIMIT"), count)
        | _clause("offset", _marked("OFFSET"), count)
        | _clause("having", _marked("HAVING"), condition)
        | _clause("top", _marked("TOP"), count)
        | _clause("window", _marked("BETWEEN"), moment, _keyword("AND"), moment)
        | _clause("window", _marked("SINCE"), moment, until)
        | _clause("fill", _marked("FILL"), fill)
        | _clause("timezone", _marked("TIMEZONE"), text)
        | _clause("compare", _marked("COMPARE"), _keyword("WITH"), length, _keyword("AGO"))
        | _clause("around", _marked("AROUND"), text, _keyword("WITHIN"), length)
    )

    # Statements
    item = _rule(star | condition + pp.Opt(_keyword("AS") + name), actions.item)
    items = pp.Group(list_of(item))
    head = pp.Opt(_marked("EXPLAIN")) + _keyword("SELECT") + pp.Opt(_marked("DISTINCT"))
    select = head + items + _keyword("FROM") + source + clause[...]
    listing = _keyword("SHOW") + (_keyword("SOURCES") | _keyword("COLUMNS") + _keyword("FROM") + source)
    show = _rule(listing, lambda _segment, _place, found: Show(*found))
    statement = (_rule(select, actions.select) | show) + the_end

    # The other segments
    open_ = _symbol("(")
    arguments = star | pp.Opt(_marked("DISTINCT")) + list_of(condition)
    when = _keyword("WHEN") + condition + _keyword("THEN") + condition
    case = _keyword("CASE") + when[1, ...] + pp.Opt(_keyword("ELSE") + condition) + _marked("END")
    grammars = {
        Kind.STATEMENT: statement,
        Kind.PARENTHESES: open_ + condition + close,
        Kind.ARGUMENTS: open_ + _rule(pp.Opt(arguments), actions.arguments) + close,
        Kind.VALUES: open_ + _rule(list_of(arithmetic), actions.arguments) + close,
        Kind.FILTER: open_ + _keyword("WHERE") + condition + close,
        Kind.CASE: _rule(case, actions.case),
    }
    for grammar in grammars.values():
        grammar.parse_with_tabs().streamline()
    return grammars


_GRAMMARS = _grammars()
