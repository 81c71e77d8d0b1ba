"""The parts of docs/oql.md that are generated from the tables that the code uses.

python -m tests.query.reference        writes them into docs/oql.md
"""

import re
import tomllib
from pathlib import Path

from obs import SOURCES
from obs.config import SETTINGS
from obs.errors import ERROR_CODES
from obs.query.execution.window import AUTO_MS
from obs.query.language.actions import UNITS_MS
from obs.query.language.functions import FUNCTIONS, Family, Function
from obs.query.language.scan import RESERVED

PAGE = Path(__file__).parents[2] / "docs" / "oql.md"
_DESCRIPTIONS = tomllib.loads(Path(__file__).with_name("functions.toml").read_text("utf-8"))
_SHORT = {
    Family.ANY: "x",
    Family.NUMBER: "x",
    Family.ORDERED: "x",
    Family.TEXT: "text",
    Family.TIME: "time",
    Family.CONDITION: "condition",
    Family.DIGITS: "digits",
    Family.PERCENT: "percent",
    Family.AGGREGATE: "aggregate",
    Family.LENGTH: "duration",
    Family.WIDTH: "width",
    Family.REGEX: "regex",
    Family.PATH: "path",
}


def _call(function: Function) -> str:
    names = [_SHORT[family] for family in function.parameters]
    if function.name == "if":
        names = ["condition", "x", "y"]
    required = names[: len(names) - function.optional]
    text = ", ".join(required) + "".join(f"[, {name}]" for name in names[len(required) :])
    return f"{function.name}({text}{', ...' if function.repeats else ''})"


def _functions(*, aggregate: bool) -> str:
    lines = ["| Function | Arguments | Result |", "|---|---|---|"]
    for function in FUNCTIONS.values():
        if function.aggregate is aggregate:
            takes = ", ".join(dict.fromkeys(family.text for family in function.parameters))
            lines.append(f"| `{_call(function)}` | {takes} | {_DESCRIPTIONS[function.name]} |")
    return "\n".join(lines)


def _sources() -> str:
    parts = []
    for source in SOURCES:
        lines = [f"### {source.name}", "", f"One row is {source.row}; its time is {source.time}.", ""]
        lines += ["| Column | Type | Meaning |", "|---|---|---|"]
        for name, column in source.by_name().items():
            lines.append(f"| `{name}` | {column.type.value} | {column.description} |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _limits() -> str:
    lines = ["| Setting | Default | Limit |", "|---|---|---|"]
    lines += [f"| `{s.name}` | {s.default:,} | {s.help} |" for s in SETTINGS if s.name.startswith("QUERY_")]
    return "\n".join(lines)


def _errors() -> str:
    codes = [(name, *code) for name, code in ERROR_CODES.items() if name.startswith(("oql_", "query_limit"))]
    return "\n".join(
        [
            "| Code | Status | Meaning |",
            "|---|---|---|",
            *(f"| `{name}` | {status} | {meaning} |" for name, status, meaning in codes),
        ]
    )


def _units() -> str:
    by_length: dict[int, list[str]] = {}
    for unit, length in UNITS_MS.items():
        by_length.setdefault(length, []).append(f"`{unit}`")
    return "\n".join(f"- {', '.join(names)}" for _, names in sorted(by_length.items()))


def _auto() -> str:
    units = ((604_800_000, "1w"), (86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s"))
    texts = []
    for length in AUTO_MS:
        size, unit = next((size, unit) for size, unit in units if length % size == 0)
        texts.append(unit if unit == "1w" else f"{length // size}{unit}")
    return ", ".join(texts)


def parts() -> dict[str, str]:
    """The generated parts, by the name of their marks in the page."""
    return {
        "sources": _sources(),
        "aggregates": _functions(aggregate=True),
        "functions": _functions(aggregate=False),
        "limits": _limits(),
        "errors": _errors(),
        "units": _units(),
        "auto": _auto(),
        "reserved": ", ".join(f"`{word}`" for word in sorted(RESERVED)),
    }


def mark(name: str) -> re.Pattern[str]:
    """Finds a part in the page."""
    return re.compile(rf"(?<=<!-- {name} -->\n).*?(?=\n<!-- end -->)", re.DOTALL)


def _escaped(text: str) -> str:
    """`text` as a replacement in which no backslash has a meaning."""
    return text.replace("\\", r"\\")


def statements() -> list[str]:
    """Every statement in the page: each code block marked ``sql`` has one."""
    return [block.strip() for block in re.findall(r"```sql\n(.*?)```", PAGE.read_text(), re.DOTALL)]


if __name__ == "__main__":
    page = PAGE.read_text()
    for part, text in parts().items():
        page = mark(part).sub(_escaped(text), page, count=1)
    PAGE.write_text(page)
