"""The functions of OQL: one table, used by the checker, the compiler and the reference in docs/oql.md."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from obs.sources import Type


class Family(StrEnum):
    """The types that an argument may have."""

    ANY = "anything"
    NUMBER = "a number or a duration"
    ORDERED = "a number, a duration, a time or a text"
    TEXT = "a text"
    TIME = "a time"
    CONDITION = "a condition"
    DIGITS = "a whole number"
    PERCENT = "a number from 0 to 100"
    AGGREGATE = "an aggregate"
    LENGTH = "a duration"


NUMERIC = frozenset({Type.INTEGER, Type.NUMBER, Type.DURATION})
TYPES: Mapping[Family, frozenset[Type]] = {
    Family.ANY: frozenset(Type),
    Family.NUMBER: NUMERIC,
    Family.ORDERED: NUMERIC | {Type.TIME, Type.TEXT},
    Family.TEXT: frozenset({Type.TEXT}),
    Family.TIME: frozenset({Type.TIME}),
    Family.CONDITION: frozenset({Type.BOOLEAN}),
    Family.DIGITS: frozenset({Type.INTEGER}),
    Family.PERCENT: frozenset({Type.INTEGER, Type.NUMBER}),
    Family.AGGREGATE: NUMERIC,
    Family.LENGTH: frozenset({Type.DURATION}),
}


@dataclass(frozen=True, slots=True)
class Function:
    """A function. `result` None: the type of the first argument of the family ANY, NUMBER or ORDERED.

    `optional` arguments may be left out at the end; with `repeats` the last one may be given any number of times.
    `percent` is set for p50, p75, ...
    """

    name: str
    parameters: tuple[Family, ...]
    result: Type | None
    description: str
    aggregate: bool = False
    optional: int = 0
    repeats: bool = False
    percent: float | None = None


PERCENTS = (50, 75, 90, 95, 99)
_X = (Family.NUMBER,)


def _scalar(
    name: str,
    parameters: tuple[Family, ...],
    result: Type | None,
    description: str,
    *,
    optional: int = 0,
    repeats: bool = False,
) -> Function:
    return Function(name, parameters, result, description, optional=optional, repeats=repeats)


def _aggregate(
    name: str, parameters: tuple[Family, ...], result: Type | None, description: str, *, percent: float | None = None
) -> Function:
    return Function(name, parameters, result, description, aggregate=True, percent=percent)


_ALL = (
    _aggregate(
        "count", (Family.ANY,), Type.INTEGER, "Rows (`count(*)`), values, or different values (`count(DISTINCT x)`)."
    ),
    _aggregate("sum", _X, None, "Sum of the values; null without any."),
    _aggregate("avg", _X, None, "Mean of the values."),
    _aggregate("min", (Family.ORDERED,), None, "Smallest value."),
    _aggregate("max", (Family.ORDERED,), None, "Largest value."),
    _aggregate("any", (Family.ANY,), None, "One of the values."),
    _aggregate("first", (Family.ANY,), None, "The value of the earliest row that has one."),
    _aggregate("last", (Family.ANY,), None, "The value of the latest row that has one."),
    _aggregate("stddev", _X, None, "Standard deviation of a sample; null below two values."),
    _aggregate("median", _X, None, "The middle value; the same as p50.", percent=50),
    *(
        _aggregate(
            f"p{percent}",
            _X,
            None,
            f"The {percent}th percentile, between two values by their distance.",
            percent=percent,
        )
        for percent in PERCENTS
    ),
    _aggregate("percentile", (Family.NUMBER, Family.PERCENT), None, "Any percentile: `percentile(duration_ms, 99.9)`."),
    *(
        _aggregate(
            f"approx_p{percent}", _X, None, f"The {percent}th percentile within 1 %, in little memory.", percent=percent
        )
        for percent in PERCENTS
    ),
    _aggregate(
        "rate",
        (Family.AGGREGATE, Family.LENGTH),
        Type.NUMBER,
        "An aggregate for each stretch of time: `rate(count(*), 1m)`.",
    ),
    _scalar("abs", _X, None, "The value without its sign."),
    _scalar("round", (Family.NUMBER, Family.DIGITS), None, "To the nearest whole number, or to n digits.", optional=1),
    _scalar("floor", _X, None, "The whole number at or below."),
    _scalar("ceil", _X, None, "The whole number at or above."),
    _scalar("lower", (Family.TEXT,), Type.TEXT, "In small letters."),
    _scalar("upper", (Family.TEXT,), Type.TEXT, "In capital letters."),
    _scalar("length", (Family.TEXT,), Type.INTEGER, "How many characters."),
    _scalar("coalesce", (Family.ANY,), None, "The first argument that is not null.", repeats=True),
    _scalar(
        "if",
        (Family.CONDITION, Family.ANY, Family.ANY),
        None,
        "The second argument where the first holds, else the third.",
    ),
    _scalar("hour", (Family.TIME,), Type.INTEGER, "Hour of the day, 0 to 23, in TIMEZONE."),
    _scalar("weekday", (Family.TIME,), Type.INTEGER, "Day of the week, 1 (Monday) to 7 (Sunday), in TIMEZONE."),
    _scalar("date", (Family.TIME,), Type.TEXT, "Day as text, `2026-06-21`, in TIMEZONE."),
)

FUNCTIONS: Mapping[str, Function] = {function.name: function for function in _ALL}
