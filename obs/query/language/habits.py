"""What people write who know another query language, and what to write in OQL instead."""

import re
from collections.abc import Collection, Mapping

from obs.query.language.scan import RESERVED

_ONE_SOURCE = "A statement reads one source. Ask two statements, or use a source that has both columns."
_LIKE_REGEX = "Write =~ 'regex', !~ 'regex' or LIKE 'pattern%'."
_BUCKETS = "Write EVERY 1h or EVERY 1d: it makes one row for each bucket of time."
_SELECT = "A statement begins with SELECT: SELECT count(*) FROM runs WHERE status = 'failed' LAST 1d."
_COUNT_IF = "Write count(*) FILTER (WHERE condition)."

WORDS: Mapping[str, str] = {
    **dict.fromkeys(("JOIN", "INNER", "LEFT", "OUTER", "UNION", "INTERSECT", "EXCEPT"), _ONE_SOURCE),
    **dict.fromkeys(("RLIKE", "REGEXP", "SIMILAR", "~", "MATCHES", "GLOB"), _LIKE_REGEX),
    **dict.fromkeys(("TIMESERIES", "SAMPLE", "RANGE"), _BUCKETS),
    **dict.fromkeys(("INSERT", "UPDATE", "DELETE", "DROP", "CREATE", "ALTER"), "OQL reads data and cannot change it."),
    **dict.fromkeys(("TOP", "FIRST"), "Write LIMIT 10 at the end, or BY job TOP 10."),
    **dict.fromkeys(("TZ", "WITH", "ZONE", "AT"), "Write TIMEZONE 'Europe/Berlin'."),
    ";": "Send one statement at a time.",
    "`": "Write names without quotes, or in double quotes.",
    "FACET": "Write BY.",
    "INTERVAL": "Write the duration alone: 1d, 90s or 5 minutes.",
    "OVER": "OQL has no window functions. BY and EVERY group rows.",
    ".": "Write the column without the name of its source: a statement reads one source.",
    "SELECT": "A statement has one SELECT: there are no subqueries.",
    **dict.fromkeys(("HOUR", "DAY", "WEEK"), "Write a number and a unit: 1 hour, 1 day."),
}
"""What to write instead of a word or sign that the grammar does not know, in capital letters."""

_AFTER: Mapping[str, str] = {
    ",": "Remove the comma, or write what follows it.",
    **dict.fromkeys(("IS", "NOT"), "IS takes NULL or NOT NULL. Write = or != to compare values."),
    "IN": "Write the values in parentheses: IN ('failed', 'lost').",
    "INTERVAL": WORDS["INTERVAL"],
    "FROM": "A statement reads one source: there are no subqueries. SHOW SOURCES lists the sources.",
}
"""What to write instead of what follows these words and signs, in capital letters."""

FUNCTIONS: Mapping[str, str] = {
    **dict.fromkeys(("mean", "average", "avg_over_time"), "Write avg(x)."),
    **dict.fromkeys(
        ("uniq", "uniques", "uniquecount", "count_distinct", "countdistinct", "dcount", "approx_count_distinct"),
        "Write count(DISTINCT x).",
    ),
    **dict.fromkeys(("countif", "count_if", "sumif", "sum_if", "percentage", "filter"), _COUNT_IF),
    **dict.fromkeys(
        ("date_trunc", "time_bucket", "bin", "tostartofhour", "tostartofday", "date_bin", "dateadd"), _BUCKETS
    ),
    **dict.fromkeys(("latest", "last_value", "arg_max", "argmax"), "Write last(x)."),
    **dict.fromkeys(("earliest", "first_value", "arg_min", "argmin"), "Write first(x)."),
    **dict.fromkeys(("quantile", "quantile_cont", "percentile_cont", "quantile_over_time"), "Write percentile(x, 95)."),
    **dict.fromkeys(("std", "stdev", "stddev_samp", "stddev_pop", "variance"), "Write stddev(x)."),
    **dict.fromkeys(("ifnull", "nvl", "isnull"), "Write coalesce(x, y), or x IS NULL."),
    **dict.fromkeys(("to_date", "todate", "dateof", "strftime", "to_char", "date_format"), "Write date(time)."),
    **dict.fromkeys(("lag", "lead"), "Read gap_ms of runs: the time since the run before."),
    **dict.fromkeys(("cast", "try_cast", "convert"), "Columns have types. SHOW COLUMNS FROM runs lists them."),
}
"""What to write instead of a function that OQL does not have."""

TEXTS: Mapping[str, str] = {
    **dict.fromkeys(("running", "started", "in progress", "in_progress", "active", "pending"), "open"),
    **dict.fromkeys(
        ("ok", "succeeded", "successful", "passed", "completed", "complete", "done", "finished"), "success"
    ),
    **dict.fromkeys(("error", "errored", "failure", "fail", "err", "crashed", "ko"), "failed"),
    **dict.fromkeys(("missing", "timeout", "timed out", "timed_out", "dead", "aborted", "killed"), "lost"),
}
"""Texts that people expect in a column, and what it has instead, if it has that."""


def advice(found: str, text: str, expected: Collection[str]) -> str | None:
    """What to write instead of `found`, a word or sign that follows `text`, where `expected` could be written."""
    last = re.search(r"(\w+|\S)\s*\Z", text)
    before = last[1].upper() if last else ""
    if found.startswith("'") and "a duration" in expected:
        return f"Remove the quotes: {found[1:-1]}."
    if found.startswith("'") and before == "AS":
        return f"A name needs no quotes, or double quotes: AS {found[1:-1]}."
    if found.upper() in WORDS and found.upper() not in expected:
        return WORDS[found.upper()]
    if "EXPLAIN" in expected:
        return _SELECT
    if before in _AFTER:
        return _AFTER[before]
    if not found[:1].isalpha() or found.upper() in ("", *expected):
        return None
    if found.upper() in RESERVED:
        return "Write FROM and a source before it." if "FROM" in expected else None
    if "AS" in expected:
        return f"Write a comma before a column, or AS before a name: AS {found}."
    return "A source needs no other name." if re.search(r"\bFROM\s+\w+\s*\Z", text, re.IGNORECASE) else None
