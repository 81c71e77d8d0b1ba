"""Expressions to SQL. Values become bound parameters; columns become what their source defines for them."""

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from itertools import islice, product

from obs.query.language.functions import DAY_SQL, FUNCTIONS, Number, SqlFunction, null_safe, regular_expression
from obs.query.language.nodes import Literal
from obs.query.language.plan import Aggregate, Apply, Checked, Plan, Read, Scan, walk

Value = str | int | float | None
_MOST_OFFSETS, _MOST_WORDS = 10, 20


@dataclass(slots=True)
class Writer:
    """Writes the expressions of a plan. `known` has the SQL of those whose values are known, such as groups."""

    plan: Plan
    scan: Scan
    known: Mapping[Checked, str] = field(default_factory=dict)
    parameters: dict[str, Value] = field(default_factory=dict)
    names: dict[tuple[type, str], str] = field(default_factory=dict)
    joins: set[str] = field(default_factory=set)
    time_sql: str = ""
    percents: Sequence[float] = ()  # all percentages of the plan: of the same values, one call computes them

    def __post_init__(self) -> None:
        self.time_sql = self.time_sql or self.plan.source.time_sql
        aggregates = (each for each in walk(*self.plan.expressions) if isinstance(each, Aggregate))
        self.percents = sorted({each.percent for each in aggregates if each.percent is not None})

    def bind(self, value: Value) -> str:
        """A parameter with this value: the same one for the same value, so that SQLite computes aggregates once."""
        name = self.names.setdefault((type(value), repr(value)), f"p{len(self.parameters)}")
        self.parameters[name] = value
        return f":{name}"

    def group(self, expression: Checked) -> str:
        """A group as a column of the result. If it has a key, its value is looked up once for each group."""
        if isinstance(expression, Read) and expression.column.key:
            return f"({expression.column.lookup})"
        return self.raw(expression)

    def joined(self) -> list[str]:
        """The joins that what was written so far needs."""
        return [text for name, text in self.plan.source.joins if name in self.joins]

    def raw(self, expression: Checked) -> str:
        """An expression as it is stored: as a column of the result, whose numbers `obs.query.execution.rows` replaces
        by texts, and where a number and the text that it stands for are equivalent.
        """
        if not isinstance(expression, Read):
            return self.expression(expression)
        if (known := self.known_sql(expression)) is not None:
            return known
        if expression.column.join:
            self.joins.add(expression.column.join)
        return self.time_sql if expression.column.name == "time" else expression.column.sql

    def expression(self, expression: Checked) -> str:
        """An expression, in parentheses where it needs them."""
        if not isinstance(expression, Read) and (known := self.known_sql(expression)) is not None:
            return known
        match expression:
            case Read(column=column):
                sql = self.raw(expression)
                if column.values:  # the texts come from the source, not from a client
                    texts = " ".join(f"WHEN {number} THEN '{text}'" for number, text in enumerate(column.values))
                    return f"CASE {sql} {texts} END"
                return f"({sql})" if " " in sql else sql
            case Literal(value=None | bool() as value):
                return {None: "NULL", True: "1", False: "0"}[value]
            case Literal(value=value):
                return self.bind(value)
            case Aggregate():
                return self.aggregate(expression)
            case Apply(name="now"):
                return ":now"
            case Apply(name="case"):
                return FUNCTIONS["if"].write(*map(self.expression, expression.arguments))
            case Apply(name=name) if name in FUNCTIONS:
                return self._call(expression)
        assert isinstance(expression, Apply), "a derived column is known"
        return f"({_OPERATORS[expression.name](self, expression)})"

    def kept(self) -> str:
        """Whether HAVING keeps a row of the result: 1 or 0."""
        return "1" if self.plan.having is None else f"coalesce({self.expression(self.plan.having)}, 0)"

    def known_sql(self, expression: Checked) -> str | None:
        return self.known.get(expression) if self.known else None

    def aggregate(self, aggregate: Aggregate) -> str:
        function = FUNCTIONS[aggregate.name]
        filter_ = f" FILTER (WHERE {self.expression(aggregate.filter)})" if aggregate.filter is not None else ""
        write = self.raw if function.counts else self.expression
        arguments = [write(argument) for argument in aggregate.arguments] or ["*"]
        fields = {"distinct": "DISTINCT " if aggregate.distinct else "", "time": self.time_sql}
        return self.at_percent(aggregate.percent, partial(function.write, *arguments, **fields), filter_)

    def at_percent(self, percent: float | None, write: Callable[..., str], filter_: str = "") -> str:
        """The SQL of an aggregate, from what `write` returns for the SQL of the `fractions` that percentiles get."""
        if percent is None:
            return write(fractions="") + filter_
        fractions = [each / 100 for each in self.percents]
        is_only = len(fractions) == 1
        sql = write(fractions=self.bind(fractions[0] if is_only else json.dumps(fractions))) + filter_
        return sql if is_only else f"obs_item({sql}, {self.percents.index(percent)})"

    def bucket(self) -> str:
        """The number of the bucket that a row is in; only with EVERY."""
        time, timeline = self.time_sql, self.scan.timeline
        assert timeline is not None
        if not timeline.is_even():
            return f"obs_bucket({self.scan.number}, {time})"
        return f"({time} - {self.bind(timeline.starts[0])}) / {self.bind(timeline.interval_ms)}"

    def day(self, expression: Checked) -> str:
        """The number of the day that date() of a column writes, which takes a tenth of the time; else empty."""
        match expression:
            case Apply(name="date", arguments=(Read() as time,)) if self.known_sql(expression) is None:
                return DAY_SQL.format(local=self._local(time, self.expression(time)))
        return ""

    def _call(self, expression: Apply) -> str:
        arguments = list(map(self.expression, expression.arguments))
        fields = {"local": self._local(expression.arguments[0], arguments[0])} if arguments else {}
        if expression.name == "rate":
            length = f"nullif(obs_bucket_ms({self.scan.number}, {self.bucket()}), 0)" if self.scan.timeline else ""
            fields["covered"] = length or self.bind(self.scan.window.length_ms)
        return FUNCTIONS[expression.name].write(*arguments, **fields)

    def _local(self, argument: Checked, sql: str) -> str:
        """A time on the clock of TIMEZONE. For a column, the few offsets within the window are written out."""
        offsets, other = self.scan.offsets, f"obs_local({sql})"
        if self.plan.timezone is None:
            return sql
        if not isinstance(argument, Read) or len(offsets) > _MOST_OFFSETS:
            return other
        whens = [f"WHEN {sql} < {self.bind(end)} THEN {sql} + {self.bind(offset)}" for _, end, offset in offsets]
        return f"CASE WHEN {sql} < {self.bind(offsets[0][0])} THEN {other} {' '.join(whens)} ELSE {other} END"


def _and_or(sql: Writer, expression: Apply) -> str:
    """AND or OR of any number of conditions, as a balanced tree: SQLite allows 1,000 levels."""
    parts = list(map(sql.expression, expression.arguments))
    word = f" {expression.name.upper()} "
    while len(parts) > 2:
        pairs = [parts[index : index + 2] for index in range(0, len(parts), 2)]
        parts = [f"({word.join(pair)})" if len(pair) > 1 else pair[0] for pair in pairs]
    return word.join(parts)


def _chain(sql: Writer, expression: Apply) -> str:
    """A sum or a product, without needless parentheses. ``/`` never rounds: its left operand is a REAL."""
    same = "+-" if expression.name in "+-" else "*/"
    parts: list[str] = []
    left: Checked = expression
    while isinstance(left, Apply) and left.name in same and (left is expression or sql.known_sql(left) is None):
        parts += [sql.expression(left.arguments[1]), left.name]
        left = left.arguments[0]
    parts = [*parts, sql.expression(left)][::-1]
    if "/" in parts:
        place = parts.index("/")
        parts[:place] = [f"CAST({' '.join(parts[:place])} AS REAL)"]
    return " ".join(parts)


def _compare(sql: Writer, expression: Apply) -> str:
    """A comparison. ``=``, ``!=`` or IN with literals compares the stored numbers of a column."""
    name, (column, *others) = expression.name, expression.arguments
    if name in ("=", "!=") and isinstance(column, Literal):
        column, others = others[0], [column]
    texts = [other.value for other in others if isinstance(other, Literal)]
    values = column.column.values if isinstance(column, Read) else ()
    if values and len(texts) == len(others) and name in ("=", "!=", "in"):  # numbers have another order than texts
        numbers = [sql.bind(values.index(text) if text in values else -1) for text in texts]
        value, *written = sql.raw(column), *numbers
    else:
        days = [*filter(None, map(sql.day, expression.arguments))]
        has_days = len(days) == len(expression.arguments)
        value, *written = days if has_days else map(sql.expression, expression.arguments)
    return f"{value} IN ({', '.join(written)})" if name == "in" else f"{value} {name} {written[0]}"


def _template(template: str) -> Callable[[Writer, Apply], str]:
    return lambda sql, expression: template.format(*map(sql.expression, expression.arguments))


def _match(sql: Writer, expression: Apply) -> str:
    """A match of a text with a pattern. SQLite's own searches take a tenth of the time of calling Python."""
    text = sql.expression(expression.arguments[0])
    is_column = re.fullmatch(r"\w+\.\w+", text) is not None  # else it would be computed again for each word
    words, at = _words(expression) if is_column and expression.name != "ilike" else ([], "")
    if words:
        found = f"({' OR '.join([f'instr({text}, {sql.bind(word)}){at}' for word in words])})"
    else:
        operator, patterns = _of_sqlite(expression) if is_column else ("", [])
        found = f"{_MATCHES[expression.name]}({', '.join(map(sql.expression, expression.arguments))})"
        if patterns:
            native = " OR ".join(operator.format(text, sql.bind(pattern)) for pattern in patterns)
            other = (_NOT_ASCII if operator == _LIKE else f"{_NOT_ASCII} AND {_HAS_NUL}").format(text)
            if all(pattern.endswith(("%", "*")) for pattern in patterns):  # so what follows a NUL does not matter
                found = f"({native} OR {other} AND {found})"
            else:
                found = f"CASE WHEN {other} THEN {found} ELSE {native} END"
    return f"NOT {found}" if expression.name == "!~" else found


def _of_sqlite(expression: Apply) -> tuple[str, list[str]]:
    """An operator of SQLite, and the patterns of which one has to match; none if it cannot say."""
    match expression.arguments:
        case (text, Literal(value=str(pattern)) as literal) if re.match(r"\(\?i\)[\x01-\x7f]*\Z", pattern):
            words, at = _words(replace(expression, arguments=(text, replace(literal, value=pattern[4:]))))
            return _LIKE, [f"{'' if at == ' = 1' else '%'}{re.sub('[%_]', _ESCAPED, word)}%" for word in words]
        case (_, Literal(value=str(like)), Literal(value=str(escape))) if {"\0", escape or "\0"}.isdisjoint(like):
            if expression.name == "like":
                return _GLOB, [re.sub(r"[%_*?[]", lambda found: _GLOB_SIGNS[found[0]], like)]
            return _LIKE, [re.sub(r"\\", _ESCAPED, like)] if like.isascii() else []
    return "", []


def _words(expression: Apply) -> tuple[list[str], str]:
    """The words, at most _MOST_WORDS, of which a text that matches a pattern has to contain one, and where; or none."""
    match expression.arguments:
        case (_, Literal(value=str(pattern))):
            at = " = 1" if pattern[:1] == "^" else " > 0"
            first, *rest = re.split(r"\(([^()]*)\)", pattern.removeprefix("^"))  # each group, and the text between them
            choices = [each.split("|") if place % 2 == 0 else [each] for place, each in enumerate(rest)]
            found = product([first], *choices) if rest or pattern[:1] == "^" else [[each] for each in first.split("|")]
            words, special = ["".join(each) for each in islice(found, _MOST_WORDS + 1)], {*r"\.+*?()[]{}^$|"}
        case (_, Literal(value=str(pattern)), Literal(value=str(escape))) if pattern[-1:] == "%" != escape:
            words, special = [pattern[:-1].removeprefix("%")], {"%", "_", escape}
            at = " > 0" if pattern[0] == "%" else " = 1"
        case _:
            return [], ""
    return words if len(words) <= _MOST_WORDS and all(word and not special & {*word} for word in words) else [], at


_MATCHES = {"like": "obs_like", "ilike": "obs_ilike", "=~": "obs_matches", "!~": "obs_matches"}
_LIKE, _GLOB = "{0} LIKE {1} ESCAPE '\\'", "{0} GLOB {1}"  # LIKE ignores the case of ASCII only
_GLOB_SIGNS = {"%": "*", "_": "?", "*": "[*]", "?": "[?]", "[": "[[]"}
_ESCAPED = r"\\\g<0>"
_NOT_ASCII = "length(CAST({0} AS BLOB)) > length({0})"  # also if the text has a NUL, where SQLite stops to read
_HAS_NUL = "instr({0}, char(0)) > 0"
_OPERATORS: Mapping[str, Callable[[Writer, Apply], str]] = {
    **dict.fromkeys(("and", "or"), _and_or),
    **dict.fromkeys(("=", "!=", "<", "<=", ">", ">=", "in"), _compare),
    **dict.fromkeys(("is null", "is not null"), lambda sql, each: f"{sql.raw(each.arguments[0])} {each.name.upper()}"),
    **dict.fromkeys(("+", "-", "*", "/"), _chain),
    "contains": _template("instr({0}, {1}) > 0"),
    "starts with": _template("instr({0}, {1}) = 1"),
    **dict.fromkeys(_MATCHES, _match),
    "between": _template("{0} BETWEEN {1} AND {2}"),
    "%": _template("obs_remainder({0}, {1})"),
    "not": _template("NOT {0}"),
    "negative": _template("- {0}"),
}


@lru_cache(256)
def _like_pattern(pattern: str, escape: str, *, ignore_case: bool) -> re.Pattern[str]:
    """A LIKE pattern as a regular expression that never backtracks: it searches each part once, from the left."""
    pieces: list[list[str]] = [[]]
    for piece in re.findall(f"(?s:(?:{re.escape(escape)})?.)", pattern):
        if piece == "%":
            pieces.append([])
        else:
            pieces[-1].append("." if piece == "_" else re.escape(piece[-1]))
    first, *rest = map("".join, pieces)
    parts = [first, *(f"(?>.*?{part})" for part in rest[:-1])]
    if rest:
        # The last part has to match at the end. Its length is known, and so is its place.
        length = len(pieces[-1])
        parts.append(f"(?>.*(?=.{{{length}}}\\Z)){rest[-1]}" if length else ".*")
    return re.compile("".join(parts) + r"\Z", re.DOTALL | (re.IGNORECASE if ignore_case else 0))


def _like(text: str, pattern: str, escape: str, *, ignore_case: bool = False) -> bool:
    """LIKE, and ILIKE, which ignores case: ``%`` is any text, ``_`` any character, but not after `escape`."""
    return _like_pattern(pattern, escape, ignore_case=ignore_case).match(text) is not None


def _remainder(left: Number | None, right: Number | None) -> Number | None:
    """``%``: the rest of a division that rounds towards 0, with the sign of `left`; null for a division by 0."""
    if left is None or not right or not math.isfinite(left):
        return None
    if isinstance(left, int) and isinstance(right, int):
        return abs(left) % abs(right) * (-1 if left < 0 else 1)
    return math.fmod(left, right)


OPERATOR_FUNCTIONS = (
    SqlFunction("obs_like", null_safe(_like)),
    SqlFunction("obs_ilike", null_safe(partial(_like, ignore_case=True))),
    SqlFunction(
        "obs_matches", null_safe(lambda text, pattern: regular_expression(pattern).search(text.encode()) is not None)
    ),
    SqlFunction("obs_remainder", _remainder),
)
