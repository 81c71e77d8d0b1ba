"""The names of columns of the answer that were given none."""

import re

from obs.query.language.functions import FUNCTIONS
from obs.query.language.plan import Aggregate, Apply, Checked, Read


def name_of(expression: Checked, text: str) -> str:
    """The name of a column of the answer that was given none; `text` is how it was written."""
    match expression:
        case Read():
            return expression.column.name
        case Aggregate(name="rate"):
            return f"rate_{name_of(expression.arguments[0], text.partition('(')[2].rpartition(',')[0])}"
        case Aggregate(name="percentile"):
            parts = [f"p{expression.percent:g}".replace(".", "_")]
        case Aggregate():
            parts = [expression.name, *(["distinct"] if expression.distinct else [])]
        case Apply() if expression.name in FUNCTIONS:
            parts = [expression.name]
        case _:
            return text
    if expression.arguments:
        inside = text.partition("(")[2].partition(")")[0]
        parts += [a.column.name if isinstance(a, Read) else _word(inside) for a in expression.arguments[:1]]
    return "_".join(parts)


def _word(text: str) -> str:
    """Text as a part of a name."""
    return re.sub(r"\W+", "_", text).strip("_")
