"""What people write who know another query language, and what to write in OQL instead."""

import re
import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from obs.query.language.errors import mismatch
from obs.query.language.functions import regular_expression
from obs.query.language.nodes import Literal
from obs.query.language.plan import Aggregate, Apply, Checked, Read
from obs.query.language.scan import RESERVED
from obs.sources import Column, Type
from obs.times import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS

_FILE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
_HABITS: dict[str, dict[str, str]] = {  # the advice by the word that it is for, in each part of the file
    part: {word: advice for advice, words in listed.items() for word in words.split(", ")}
    for part, listed in _FILE.items()
}
FIRST, WORDS, AFTER, PATTERNS = _HABITS["first"], _HABITS["words"], _HABITS["after"], _HABITS["patterns"]
FUNCTIONS, ARGUMENTS, NUMBERS = (_HABITS[part] for part in ("functions", "arguments", "numbers"))
SOURCES, TEXTS = _HABITS["sources"], _HABITS["texts"]
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_PARTIAL_DAY = re.compile(r"\d{4}(-\d\d){0,2}")
_LONGEST_CHECKED = 100  # characters of a pattern; RE2 may not have the memory for thousands
EQUALITY = ("=", "!=", "in")
_UNITS = (SECOND_MS, MINUTE_MS, HOUR_MS, DAY_MS)
_PARTS: Mapping[str, tuple[range, str]] = {  # what parts of a time can be
    "weekday": (range(1, 8), "1 for Monday to 7 for Sunday"),
    "hour": (range(24), "0 to 23"),
    "minute": (range(60), "0 to 59"),
}


def advice(found: str, text: str, expected: Collection[str]) -> str | None:
    """What to write instead of `found`, a word or sign that follows `text`, where `expected` could be written."""
    before = "".join(re.findall(r"(\b\w++|\S)\s*\Z", text)).upper()
    if re.match(r"'\d", found) and "a duration" in expected:
        return f"Remove the quotes: {found[1:-1]}."
    if "EXPLAIN" in expected:
        return FIRST.get(found.upper(), FIRST["SELECT"])
    for words in (f"{before} {found}".upper(), found.upper()):
        if words in WORDS and words not in expected:
            return WORDS[words]
    for pattern, words in PATTERNS.items():
        if re.search(rf"{pattern}\Z", text + found, re.IGNORECASE):
            return words
    if before in AFTER:
        return AFTER[before]
    if not found[:1].isalpha() or found.upper() in ("", *expected):
        return None
    if found.upper() in RESERVED:
        return "Write FROM and a source before it." if "FROM" in expected else None
    return f"Write a comma before a column, or AS before a name: AS {found}." if "AS" in expected else None


def instead_of(name: str, columns: Collection[str]) -> str | None:
    """What to write instead of a name that none of the `columns` has."""
    if re.fullmatch(r"\w+_(previous|before|after|change_pct)", name):
        return "The result has this column, but only HAVING and ORDER BY can use it."
    for words, names in _FILE["names"].items():
        column = re.fullmatch(r"Write ([a-z_]+)([ :][^a-z].*)?\.", words)
        if name.upper() in names.split(", ") and (column is None or column[1] in columns):
            return str(words)
    return None


def condition(text: str, columns: Iterable[Column]) -> str | None:
    """What to write instead of a name that is a text of a column, such as ``failed``, or means one, such as ``ok``."""
    for one in (text, TEXTS.get(text, "")):
        for column in columns:
            if one in (column.values or column.texts):
                same, other = f"{column.name} = '{one}'", f"{column.name} != '{one}'"
                return f"Write {same}, or {other}. To count such rows, count(*) FILTER (WHERE {same})."
    return None


def percentile(name: str) -> str | None:
    """What to write instead of a function such as ``p97``, ``p99_9`` or ``p999``; None for another name."""
    found = re.fullmatch(r"p(\d\d?|100)_?((?<=_)\d+|(?<=p99)9+)?", name)
    return found and f"Write percentile(x, {'.'.join(filter(None, found.groups()))})."


def has_unit(expression: Checked) -> bool:
    """Whether a value is a duration with a unit, such as 5m, or the time between two times."""
    if isinstance(expression, Apply):
        return expression.name == "-" and {each.type for each in expression.arguments} == {Type.TIME}
    return isinstance(expression, Literal) and expression.type is Type.DURATION


def has_no_unit(expression: Checked) -> bool:
    """Whether a value is a whole number but 0, or a duration in seconds or the like such as ``duration_ms / 1000``."""
    match expression:
        case Apply(name="/", arguments=(_, Literal(value=int() | float() as divisor))) if divisor in _UNITS:
            return True
    is_any = isinstance(expression, Literal) and (expression.is_sent or not expression.value)
    return expression.type is Type.INTEGER and not is_any


def check_counted(arguments: Sequence[Checked]) -> None:
    """Raises OqlError where count() has a choice that is never null, such as 1 and 0: it counts all rows."""
    match arguments:
        case [Apply(name="if" | "case", arguments=of) as choice]:
            values = [*of[1:-1:2], of[-1]]
            if all(isinstance(each, Literal) and each.value is not None for each in values):
                raise mismatch(choice.span, "This counts all rows.", hint="Write count(*) FILTER (WHERE condition).")


def check_terms(operator: str, terms: Sequence[Checked]) -> None:
    """Raises OqlError where AND joins two values that one thing is equal to, or OR two that it is not equal to."""
    equality, message = ("=", "This is never true.") if operator == "and" else ("!=", "This is always true.")
    hint = f"Write {'IN' if operator == 'and' else 'NOT IN'} ('a', 'b') for several values."
    values: dict[Checked, object] = {}
    for term in terms:
        match term:
            case Apply(name=name, arguments=(compared, Literal(value=value) as literal)) if name == equality:
                is_code = compared.type in (Type.TEXT, Type.INTEGER) and not literal.is_sent
                if is_code and values.setdefault(compared, value) != value:
                    raise mismatch(term.span, message, hint=hint)


def check_unquoted(arguments: Sequence[Checked], columns: Collection[str]) -> None:
    """Raises OqlError where a text stands for the column of this name: first, and beside no column."""
    match arguments:
        case [Literal(value=str(name)) as first, *others] if name in columns and not first.is_sent:
            if all(isinstance(each, Literal) for each in others):
                raise mismatch(first.span, "This is a text, not a column.", hint=f"Remove the quotes: {name}.")


def check_wildcards(operator: str, pattern: Literal) -> None:
    """Raises OqlError where a wildcard of another language stands in a pattern."""
    text = "" if pattern.is_sent else str(pattern.value)
    if operator in ("like", "ilike") and re.fullmatch(r"\*[^*%]+\*?|[^*%]+\*", text):
        hint = f"Write % for any characters: '{text.replace('*', '%')}'."
        raise mismatch(pattern.span, "* stands for itself.", hint=hint)
    if operator == "contains" and re.fullmatch(r"([%*])[^%*]+\1", text):
        raise mismatch(pattern.span, f"{text[0]} stands for itself.", hint=f"Write the text alone: '{text[1:-1]}'.")


def check_range(compared: Checked, first: Checked, last: Checked) -> None:
    """Raises OqlError for literals between which no value is, or only one moment."""
    hint = "Write the smaller one first."
    match compared, first, last:
        case Apply(name=name), Literal(value=int(low)), Literal(value=int(high)) if name in _PARTS and low > high:
            hint = f"Write ({name}(time) >= {low} OR {name}(time) <= {high})."
        case _, Literal(value=int(low), type=Type.TIME), Literal(value=int(high)) if low == high and not low % DAY_MS:
            hint = "For one day, write date(time) = '2026-06-21'."
        case _, Literal(value=int() | float() as low), Literal(value=int() | float() as high) if low > high:
            pass
        case _:
            return
    raise mismatch(last.span, "Nothing is between these two.", hint=hint)


def check_possible(compared: Checked, argument: Checked, operator: str) -> None:
    """Raises OqlError where a time, or a part of one, is compared with a literal that it never is."""
    is_equality = operator in EQUALITY
    value = argument.value if isinstance(argument, Literal) and argument.type is not Type.DURATION else None
    days = _DAY if is_equality else _PARTIAL_DAY
    match compared:
        case Apply(name=name) if (is_equality or operator == "between") and name in _PARTS:
            if not isinstance(value, int) or value in _PARTS[name][0]:
                return
            possible = _PARTS[name][1]
            raise mismatch(argument.span, f"{name} is never {value}.", [possible], f"Write {possible}.")
        case Apply(name="date") if isinstance(value, str) and not days.fullmatch(value):
            raise mismatch(argument.span, f"date is never {value!r}.", hint="Write a day, such as '2026-06-21'.")
        case Read(column=column) if column.type is Type.TIME and is_equality and _DAY.fullmatch(str(value)):
            window = f" For the window, write SINCE {value!r}, and UNTIL with the day after it."
            hint = f"Write date({column.name}) instead." + (window if column.name == "time" else "")
            raise mismatch(argument.span, "A day is not one time.", hint=hint)


def check_pattern(operator: str, compared: Checked, pattern: Literal) -> None:
    """Raises OqlError for a pattern, without ESCAPE, that no text of the column matches. Long ones are not checked."""
    text = re.escape(written := str(pattern.value))
    column = compared.column if isinstance(compared, Read) and not pattern.is_sent else None
    known = () if column is None or len(written) > _LONGEST_CHECKED else column.values or column.texts
    like = "".join({"%": ".*", "_": "."}.get(each, re.escape(each)) for each in written)
    wanted = {"contains": text, "starts with": f"^{text}", "like": f"^{like}$", "ilike": f"(?i)^{like}$"}
    if known and not any(regular_expression(wanted.get(operator, written)).search(each.encode()) for each in known):
        check_known((compared, pattern))


def check_known(arguments: tuple[Checked, ...]) -> None:
    """Raises OqlError where a column is compared with a text that it never has."""
    texts = (each for each in arguments if each.type is Type.TEXT)
    reads = (each.arguments[0] if isinstance(each, Aggregate) else each for each in texts)
    for column in [each.column for each in reads if isinstance(each, Read)]:
        known = column.values or column.texts
        for argument in arguments:
            if known and isinstance(argument, Literal) and argument.value not in known:
                quoted, words = [f"'{text}'" for text in known], re.split(r" *[|,] *", str(argument.value))
                meant = [TEXTS.get(word.lower(), word) for word in words]
                use = f"Use '{meant[0]}'." if meant[0] in known else f"It is one of {', '.join(quoted)}."
                several = len(meant) > 1 and {*meant} <= {*known}
                hint = f"Write {column.name} IN ({str(meant)[1:-1]})." if several else None
                error = mismatch(argument.span, f"{column.name} is never {argument.value!r}.", quoted, hint)
                error.known, error.advice = quoted, use
                raise error
