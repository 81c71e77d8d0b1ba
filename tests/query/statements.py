"""Hypothesis strategies for OQL: valid statements, damaged statements, and noise."""

from functools import cache

from hypothesis import strategies as st

NUMBERS = ["duration_ms", "late_ms", "exit_code", "id", "gap_ms"]
TEXTS = ["job", "status", "host", "service", "project", "run_id"]
TIMES = ["time", "ended_at"]
ANY = [*NUMBERS, *TEXTS, *TIMES]

_text = st.text(max_size=8).map(lambda value: "'" + value.replace("'", "''") + "'")
text_literals = st.sampled_from(["'failed'", "'backup'", "'%a_'", "'%O%'", "''", "'2026-06-21'", "'[a-z]+'"]) | _text
durations = st.builds(
    "{}{}".format, st.integers(1, 90), st.sampled_from(["ms", "s", "m", "h", "d", "w", " minutes", " hour"])
)
numbers = st.one_of(
    st.integers(0, 10**6).map(str),
    st.sampled_from(["0", "9223372036854775807", "1.5", "1e308", "0.1", "2e-5"]),
    durations,
    st.sampled_from(NUMBERS),
)
times = st.one_of(st.sampled_from(TIMES), st.sampled_from(["'2026-06-21T08:00:00Z'", "'1970-01-01'", "'9999-12-31'"]))
texts = st.recursive(
    st.one_of(st.sampled_from(TEXTS), text_literals),
    lambda inner: st.one_of(
        st.builds("extract({}, {})".format, inner, st.sampled_from(["'a(.)'", "'(x)?'", "'[0-9]+'"])),
        st.builds("json({}, {})".format, inner, st.sampled_from(["'$.a'", "'$[0].\"b\"'", "'$'"])),
        st.builds("concat({}, {})".format, inner, inner),
    ),
    max_leaves=2,
)


def _grow_number(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds("({} {} {})".format, inner, st.sampled_from("+-*/%"), inner),
        st.builds("- {}".format, inner),
        st.builds("{}({})".format, st.sampled_from(["abs", "round", "floor", "ceil"]), inner),
        st.builds("round({}, {})".format, inner, st.integers(0, 400)),
        st.builds("coalesce({}, {})".format, inner, inner),
        st.builds("if({}, {}, {})".format, conditions(), inner, inner),
        st.builds("CASE WHEN {} THEN {} ELSE {} END".format, conditions(), inner, inner),
        st.builds("length({})".format, texts),
        st.builds("number({})".format, texts),
        st.builds("histogram({}, {})".format, inner, st.sampled_from(["1m", "7", "0.1", "1e-300", "1e300"])),
        st.builds("{}({})".format, st.sampled_from(["hour", "weekday"]), times),
        st.builds("({} - {})".format, st.sampled_from(TIMES), st.sampled_from(TIMES)),
    )


def _grow_condition(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds("{} AND {}".format, inner, inner),
        st.builds("({} OR {})".format, inner, inner),
        st.builds("NOT {}".format, inner),
        st.builds("({})".format, inner),
    )


_compare = st.sampled_from(["=", "!=", "<>", "<", "<=", ">", ">="])
_pattern = st.sampled_from(["LIKE", "NOT LIKE", "ILIKE", "CONTAINS", "STARTS WITH", "NOT CONTAINS"])
_regular = st.sampled_from(["'a+'", "'a|b'", "'(ab|o|ss)'", "'^(a|b)*$'", "'('", "'(?i)x'"])
_leaf_condition = st.one_of(
    st.builds("{} {} {}".format, numbers, _compare, numbers),
    st.builds("{} {} {}".format, texts, _compare, texts),
    st.builds("{} {} {}".format, st.sampled_from(TIMES), _compare, times),
    st.builds("{} {} {}".format, texts, _pattern, text_literals),
    st.builds("{} {} {}".format, texts, st.sampled_from(["=~", "!~"]), _regular),
    st.builds("{} {} {} ESCAPE {}".format, texts, st.sampled_from(["LIKE", "NOT ILIKE"]), text_literals, text_literals),
    st.builds("{} IN ({}, {})".format, texts, text_literals, texts),
    st.builds("{} NOT IN ({})".format, numbers, numbers),
    st.builds("{} BETWEEN {} AND {}".format, numbers, numbers, numbers),
    st.builds("{} IS {}NULL".format, st.sampled_from(ANY), st.sampled_from(["", "NOT "])),
    st.sampled_from(["TRUE", "FALSE", "NULL"]),
)


@cache
def conditions() -> st.SearchStrategy[str]:
    return st.recursive(_leaf_condition, _grow_condition, max_leaves=4)


number_expressions = st.deferred(lambda: st.recursive(numbers, _grow_number, max_leaves=3))


_aggregates = st.one_of(
    st.just("count(*)"),
    st.builds("count(DISTINCT {})".format, st.sampled_from(ANY)),
    st.builds(
        "{}({})".format,
        st.sampled_from(["sum", "avg", "min", "max", "stddev", "median", "p95", "approx_p50"]),
        number_expressions,
    ),
    st.builds("{}({})".format, st.sampled_from(["any", "first", "last", "count", "min"]), st.sampled_from(ANY)),
    st.builds("percentile(duration_ms, {})".format, st.sampled_from(["0", "99.9", "100", "101"])),
    st.just("rate(count(*), 1m)"),
)


@st.composite
def _some_aggregate(draw: st.DrawFn) -> str:
    made = draw(_aggregates)
    if not made.startswith("rate") and draw(st.integers(0, 5)) == 0:
        made += f" FILTER (WHERE {draw(conditions())})"
    if draw(st.integers(0, 5)) == 0:
        return f"coalesce({made}, {made}) + 1"
    return str(made)


@cache
def aggregates() -> st.SearchStrategy[str]:
    return _some_aggregate()


windows = st.one_of(
    (durations | st.sampled_from(["1mo", "14 months", "2y"])).map("LAST {}".format),
    st.sampled_from(["BETWEEN '2026-06-20' AND '2026-06-21'", "SINCE NOW - 3h", "SINCE '2026-06-21' UNTIL NOW"]),
    st.sampled_from(["BETWEEN '9999-12-30' AND '9999-12-31'", "BETWEEN '1970-01-01' AND '9999-12-31T23:59:59Z'"]),
)
zones = st.sampled_from(
    ["'Europe/Berlin'", "'UTC'", "'Asia/Kolkata'", "'Africa/Cairo'", "'America/Havana'", "'Mars/X'"]
)


@st.composite
def statements(draw: st.DrawFn) -> str:
    """Statements, nearly all of them valid."""
    grouped = draw(st.booleans())
    groups: list[str] = []
    clauses = [draw(windows)]
    if draw(st.booleans()):
        clauses.append(f"WHERE {draw(conditions())}")
    if grouped:
        items = draw(st.lists(aggregates(), min_size=1, max_size=3))
        if draw(st.booleans()):
            groups = draw(
                st.lists(st.sampled_from([*TEXTS, "exit_code", "hour(time)"]), min_size=1, max_size=2, unique=True)
            )
            clauses.append(f"{draw(st.sampled_from(['BY', 'GROUP BY']))} {', '.join(groups)}")
            if draw(st.booleans()):
                clauses.append(f"TOP {draw(st.integers(1, 5))}")
        if draw(st.booleans()):
            clauses.append(f"EVERY {draw(durations | st.sampled_from(['AUTO', '1mo', '3 months', '1y']))}")
            if draw(st.booleans()):
                clauses.append(f"FILL {draw(st.sampled_from(['NONE', 'NULL', 'PREVIOUS', '0', '-1.5']))}")
        if draw(st.integers(0, 3)) == 0:
            conditions_of_groups = ["count(*) > 1", "count(*) = 0", "max(duration_ms) > 1s", "max(time) < NOW - 1h"]
            clauses.append(f"HAVING {draw(st.sampled_from(conditions_of_groups))}")
        if draw(st.integers(0, 3)) == 0:
            clauses.append(f"COMPARE WITH {draw(durations)} AGO")
        if draw(st.integers(0, 7)) == 0:
            clauses.append("AROUND 'deploy/' WITHIN 1h")
        if draw(st.booleans()):
            clauses.append(f"ORDER BY {draw(st.sampled_from(['c0', 'c0 DESC', 't DESC']))}")
    else:
        items = draw(st.lists(number_expressions | conditions() | texts | times, min_size=1, max_size=4))
        if draw(st.booleans()):
            clauses.append(f"ORDER BY {draw(st.sampled_from(['c0', 'time DESC', 'duration_ms']))}")
    if draw(st.booleans()):
        clauses.append(f"LIMIT {draw(st.integers(0, 20))}")
    if draw(st.integers(0, 3)) == 0:
        clauses.append(f"TIMEZONE {draw(zones)}")
    named = ", ".join(f"{item} AS c{number}" for number, item in enumerate(items))
    return f"SELECT {named} FROM runs {' '.join(draw(st.permutations(clauses)))}"


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """Statements in which a piece was removed, doubled, inserted or replaced."""
    pieces = draw(statements()).split(" ")
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, len(pieces) - 1))
        match draw(st.integers(0, 3)):
            case 0:
                pieces.insert(place, pieces[draw(st.integers(0, len(pieces) - 1))])
            case 1:
                pieces[place] = draw(
                    st.sampled_from(["(", ")", "'", '"', "*", ",", "--", "NULL", "AND", "5x", "9" * 30, "ß"])
                )
            case 2:
                pieces[place] = draw(st.text(max_size=5))
            case 3 if len(pieces) > 1:
                del pieces[place]
    return " ".join(pieces)


noise = st.one_of(
    st.text(max_size=200),
    st.text("SELECT count(*)FROM runs'\"\n\t-,.<>=~!%5dhm", max_size=100),
    st.builds(
        lambda piece, times: (piece * times)[:10_001],
        st.sampled_from(["(", "- ", "NOT ", "CASE WHEN ", "1+", "'", "a,", "💥"]),
        st.integers(1, 10_001),
    ),
    st.builds(
        lambda piece, times: f"SELECT {piece * times}1{')' * (piece.count('(') * times)} FROM runs LAST 1d",
        st.sampled_from(["(", "-", "- ", "abs(", "NOT ", "1+", "1*", "if(TRUE,1,", "CASE WHEN TRUE THEN "]),
        st.integers(1, 2_000),
    ),
)
