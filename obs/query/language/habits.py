"""What people write who know another query language, and what to write in OQL instead."""

import re
import tomllib
from collections.abc import Collection
from pathlib import Path

from obs.query.language.scan import RESERVED

_HABITS: dict[str, dict[str, str]] = {  # the advice by the word that it is for, in each part of ``habits.toml``
    part: {word: advice for advice, words in listed.items() for word in words.split(", ")}
    for part, listed in tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8")).items()
}
FIRST, WORDS, AFTER, PATTERNS = _HABITS["first"], _HABITS["words"], _HABITS["after"], _HABITS["patterns"]
FUNCTIONS, NAMES, NUMBERS = _HABITS["functions"], _HABITS["names"], _HABITS["numbers"]
SOURCES, TEXTS = _HABITS["sources"], _HABITS["texts"]
_SELECT = "A statement begins with SELECT: SELECT count(*) FROM runs WHERE status = 'failed' LAST 1d."


def advice(found: str, text: str, expected: Collection[str]) -> str | None:
    """What to write instead of `found`, a word or sign that follows `text`, where `expected` could be written."""
    before = "".join(re.findall(r"(\b\w++|\S)\s*\Z", text)).upper()
    if found.startswith("'") and "a duration" in expected:
        return f"Remove the quotes: {found[1:-1]}."
    if "EXPLAIN" in expected:
        return FIRST.get(found.upper(), _SELECT)
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


def percentile(name: str) -> str | None:
    """What to write instead of a function such as ``p97``, ``p99_9`` or ``p999``; None for another name."""
    found = re.fullmatch(r"p(\d\d?|100)_?((?<=_)\d+|(?<=p99)9+)?", name)
    return found and f"Write percentile(x, {'.'.join(filter(None, found.groups()))})."
