"""From a plan to the SELECT over the rows of its source. Values are bound parameters, all else is the source's."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from obs.query.language.nodes import Literal, Span
from obs.query.language.plan import Aggregate, Apply, Checked, Derived, Plan, Range, Read, Scan, columns_of, terms, walk
from obs.query.sql.expressions import Value, Writer
from obs.sources import Column, Order, Type

OPEN_VIRTUAL = "SELECT 1 FROM {} LIMIT 0"  # makes SQLite open a virtual table, such as a full-text index
MANY_ROWS = 100_000  # among so many, finding out which ones to read takes longer than it saves
_TRIGRAM = 3  # the length of the shortest text that a trigram index can find
_MAX_TRIGRAMS = 12
_MAX_PARTS = 5  # of a pattern, the longest ones
_FOLDED_OTHERWISE = "iI\u0080-\U0010ffff"  # what ILIKE may match in another case where the index does not
_FREQUENT = 5_000  # messages that may be read although they are not in the window
_ROWS_PER_FOUND = 4  # reading so many messages takes as long as finding one of them in the index
_ROWS_PER_LATEST = 200  # as many may be read for each of the latest messages with a text


@dataclass(frozen=True, slots=True)
class SqlStatement:
    sql: str
    parameters: Mapping[str, Value]


def select(plan: Plan, scan: Scan) -> SqlStatement:
    """The SELECT that reads the result of a plan.

    Its columns are the outputs. For a grouped plan they are: the number of the bucket (0 without EVERY), the groups,
    the outputs that are not groups, whether HAVING keeps the row, and the number of rows scanned for it. If empty
    buckets are filled, rows that HAVING drops are returned too: their buckets are not empty.
    """
    return RowSelect(plan, scan, order=_order(plan, scan)).statement()


def select_empty(plan: Plan, scan: Scan) -> SqlStatement:
    """The SELECT for a bucket without rows, of the groups ``:group0``...: other outputs, whether HAVING keeps it, 0."""
    known = {group: f":group{number}" for number, group in enumerate(plan.groups)}
    # Aggregates without GROUP BY return one row even where WHERE chooses no rows.
    no_rows = replace(plan, where=Literal(Span(0, 0), value=False, type=Type.BOOLEAN))
    sql = RowSelect(no_rows, replace(scan, timeline=None, groups=()), known=known)
    values = [sql.expression(output.expression) for output in plan.values]
    return sql.select([*values, sql.kept(), "count(*)"], "")


def select_keys(plan: Plan, scan: Scan, columns: Sequence[Checked]) -> SqlStatement:
    """For a row of the result, whose `columns` are the parameters ``:c0``, ``:c1``...: whether HAVING keeps it, the
    value that TOP ranks by, and those that ORDER BY sorts by.
    """
    sql = Writer(plan, scan, known={column: f":c{number}" for number, column in enumerate(columns)})
    top = "0" if plan.top is None else sql.expression(plan.first_aggregate)
    keys = [sql.expression(expression) for expression, _ in plan.order]
    return SqlStatement(f"SELECT {', '.join([sql.kept(), top, *keys])}", {**sql.parameters, "now": scan.now_ms})


def select_frequent(plan: Plan, scan: Scan, *, is_latest: bool) -> SqlStatement | None:
    """The SELECT of a row if many of the latest rows have the texts that WHERE looks for; None for any other WHERE."""
    if not (texts := _texts(plan.where)):
        return None
    sql = RowSelect(plan, scan)
    ratio = _ROWS_PER_LATEST if is_latest and len(terms(plan.where)) == len(texts) else _ROWS_PER_FOUND
    latest = f"(SELECT max(id) FROM {plan.source.table}) - {_FREQUENT * ratio}"
    return SqlStatement(f"SELECT 1 WHERE ({sql.frequent(*texts)}) > {latest}", sql.parameters)


def select_many(plan: Plan, part: Range, count: int) -> SqlStatement:
    """The SELECT of a row if the source has `count` rows or more in a part of the window, and else of none."""
    rows = f"SELECT 1 FROM {plan.source.table} WHERE {plan.source.time_sql} >= :start AND {plan.source.time_sql} < :end"
    return SqlStatement(f"{rows} LIMIT 1 OFFSET :skipped", {"start": part.start, "end": part.end, "skipped": count - 1})


@dataclass
class RowSelect(Writer):
    order: Order | None = None  # in which the rows are read, if not in that of time
    inner: "RowSelect | None" = None  # what reads the rows, if that is a SELECT of its own
    scanned: str = "count(*)"  # how many rows were read

    def statement(self) -> SqlStatement:
        plan = self.plan
        if _is_costly(plan):
            self.inner = RowSelect(plan, self.scan, {}, self.parameters, self.names, self.joins, order=self.order)
            self.known = {each: f"{plan.source.table}.c{number}" for number, each in enumerate(_reads(plan))}
            self.order, self.time_sql = None, f"{plan.source.table}.c0"
        if not plan.grouped:
            columns = [self.raw(output.expression) for output in plan.outputs]
            return self.select(columns, self.order_by() + self.limit(plan.limit))
        has_buckets = self.scan.timeline is not None
        columns = [self.bucket() if has_buckets else "0"]
        columns += [self.group(group) for group in plan.groups]
        columns += [self.raw(output.expression) for output in plan.values]
        kept = self.kept()
        columns += [kept, self.scanned]
        keys = ["1"] if has_buckets else []
        groups = [key_of(group) or self.day(group) or str(number) for number, group in enumerate(plan.groups, 2)]
        keys += groups if self.order is None else [self.order.key]
        tail = f" GROUP BY {', '.join(keys)}" if keys else ""
        if has_buckets and plan.fills:
            tail += " ORDER BY " + ", ".join(keys) + self.limit()
        else:
            if plan.having is not None:
                tail += f" HAVING {kept}"
            tail += self.order_by() + self.limit(plan.limit, None if has_buckets else plan.top)
        return self.select(columns, tail)

    def select(self, columns: Sequence[str], tail: str) -> SqlStatement:
        sql = f"SELECT {', '.join(columns)} FROM {self.rows()}{tail}"
        window = self.scan.window
        fixed = {"start": window.start, "end": window.end, "now": self.scan.now_ms}
        used = {name: value for name, value in fixed.items() if f":{name}" in sql}
        return SqlStatement(sql, {**self.parameters, **used})

    def rows(self) -> str:
        """The tables, and the conditions for their rows."""
        source = self.plan.source
        if self.inner is not None:
            columns = [f"{self.inner.raw(each)} AS {name.partition('.')[2]}" for each, name in self.known.items()]
            columns += [f"{key} AS {key.partition('.')[2]}" for key in map(key_of, self.plan.groups) if key]
            # With LIMIT, SQLite does not merge it with the SELECT around it, where each use would be computed.
            return f"({self.inner.select(columns, ' LIMIT -1').sql}) AS {source.table}"
        start, end = ("(parts.value ->> 0)", "(parts.value ->> 1)") if self.scan.parts else (":start", ":end")
        conditions = [f"{self.time_sql} >= {start}", f"{self.time_sql} < {end}", *self.conditions()]
        chosen = self.chosen()
        tables = [source.table, *self.joined()] if self.order is None else [self.order.from_sql]
        if self.scan.parts:
            tables[0] = f"json_each({self.bind(json.dumps(self.scan.parts))}) AS parts CROSS JOIN {tables[0]}"
            keys = [column.key for column in source.columns if column.key and len(self.scan.parts[0]) > 2]
            conditions += [f"{key} = (parts.value ->> 2)" for key in keys]
        return f"{' '.join([*tables, *chosen])} WHERE {' AND '.join(conditions)}"

    def chosen(self) -> list[str]:
        """The join with the groups to read, where not all are read."""
        groups = self.scan.groups
        rows = ", ".join(f"({', '.join(map(self.bind, group))})" for group in groups)
        same = (f"chosen.column{place} IS {self.raw(group)}" for place, group in enumerate(self.plan.groups, 1))
        return [f"JOIN (VALUES {rows}) AS chosen ON {' AND '.join(same)}"] if groups else []

    def find(self, aggregate: Aggregate, key: str, limit: str) -> str:
        """The SELECT of the value of `first` or `last` in the rows with this key. An index finds it, within `limit`."""
        value, time = self.expression(aggregate.arguments[0]), self.plan.source.time_sql
        of_several, down = ("max", " DESC") if aggregate.name == "last" else ("min", "")
        has_value = f"{self.raw(aggregate.arguments[0])} IS NOT NULL"
        rows = f"{self.rows()} AND {has_value} AND {key_of(self.plan.groups[0])} = {key}"
        # If this sorted by the value too, SQLite would look for the second row.
        found = f"SELECT {time} FROM {rows} AND {limit} ORDER BY {time}{down} LIMIT 1"
        return f"(SELECT {of_several}({value}) FROM {rows} AND {time} = ({found}))"

    def order_by(self) -> str:
        """ORDER BY as in the statement, then the order of groups, or of time."""
        parts = [f"{self._sort_key(each)}{' DESC' if descending else ''}" for each, descending in self.plan.order]
        if self.plan.grouped:
            if self.scan.timeline is not None:
                parts.append("1")
            elif not parts and self.plan.top is not None:
                parts.append(f"{self.expression(self.plan.first_aggregate)} DESC")
            parts += [self.group(group) if key_of(group) else self._sort_key(group) for group in self.plan.groups]
        elif not any(isinstance(each, Read) and each.column.name == "time" for each, _ in self.plan.order):
            parts.append(self.time_sql)
        return f" ORDER BY {', '.join(parts)}" if parts else ""

    def limit(self, *limits: int | None) -> str:
        """LIMIT: the smallest of `limits` and the limit of the scan."""
        present = [limit for limit in (*limits, self.scan.max_rows) if limit is not None]
        offset = f" OFFSET {self.bind(self.plan.offset)}" if self.plan.offset else ""
        return f" LIMIT {self.bind(min(present))}{offset}" if present else ""

    def conditions(self) -> list[str]:
        """The conditions of the source and of WHERE."""
        source, where = self.plan.source, self.plan.where
        conditions = [f"({source.where})"] if source.where else []
        texts = _texts(where) if self.scan.searches else []
        searches = [self._search(*texts)] if texts else []
        return conditions if where is None else [*conditions, *searches, self.expression(where)]

    def frequent(self, *texts: tuple[Column, str]) -> str:
        """The SELECT of the id of a late row with the texts, if many rows have them."""
        return f"SELECT rowid FROM {self._match(*texts)} ORDER BY rowid DESC LIMIT 1 OFFSET {_FREQUENT}"

    def _match(self, *texts: tuple[Column, str]) -> str:
        """The table and the condition for all texts; a source has one full-text index."""
        index, query = texts[0][0].search, " AND ".join(_trigram_query(part) for _, part in texts)
        return f"{index} WHERE {index} MATCH {self.bind(query)}"

    def _search(self, *texts: tuple[Column, str]) -> str:
        """The condition that the full-text index finds the texts."""
        column = texts[0][0]
        index, table, time = column.search, self.plan.source.table, self.plan.source.time_sql
        # A frequent word is in messages of all times: search those of the window. LIMIT is 0 for a rare one.
        limit = f"{MANY_ROWS} * EXISTS ({self.frequent(*texts)})"
        rows = f"SELECT id FROM {table} WHERE {time} >= :start AND {time} < :end LIMIT {limit}"
        first = f"coalesce(min(id) * (count(*) < {MANY_ROWS}), 0) AS first"
        last = f"coalesce(max(id) + (count(*) = {MANY_ROWS}) * {2**62}, {2**62}) AS last"
        search = f"(SELECT {first}, {last} FROM ({rows})) AS ids CROSS JOIN {self._match(*texts)}"
        found = f"SELECT {index}.rowid FROM {search} AND {index}.rowid BETWEEN first AND last"
        return f"{table}.id IN ({found} UNION ALL {column.unsearched})"

    def _sort_key(self, expression: Checked) -> str:
        """What to sort by. SQLite would take TRUE, or ``x AND FALSE``, for the number of a column."""
        if isinstance(expression, Derived):
            return "1"  # the number of the bucket has the order of its time
        text = self.expression(expression)
        folds = isinstance(expression, Literal) or (isinstance(expression, Apply) and expression.name in ("and", "or"))
        return f"coalesce({text}, NULL)" if folds else text


def _order(plan: Plan, scan: Scan) -> Order | None:
    """The order in which rows of groups by one key need no sorting, or costly columns are read faster; else None."""
    order, by_key = plan.source.by_key, [bool(key_of(group)) for group in plan.groups] == [True]
    is_sorted = by_key and not scan.timeline and not scan.groups
    if order is None or scan.parts or not (is_sorted or _is_costly(plan)):
        return None
    return order if {each.column.name for each in _reads(plan, plan.where)} <= order.columns else None


def _reads(plan: Plan, *more: Checked | None) -> Sequence[Read]:
    """The columns that a plan reads, but for those in WHERE; the time, which others may need, is the first one."""
    time = Read(Span(0, 0), plan.source.by_name()["time"])
    return [*dict.fromkeys(each for each in walk(time, *plan.expressions, *more) if isinstance(each, Read))]


def _is_costly(plan: Plan) -> bool:
    """Whether a costly column is needed of all rows that WHERE selects, and not only of the few that LIMIT keeps."""
    reads = _reads(plan) if plan.grouped else walk(*(each for each, _ in plan.order))
    return any(isinstance(each, Read) and each.column.costly for each in reads)


def finds_row(plan: Plan, aggregate: Aggregate) -> bool:
    """Whether an index finds the row of each group whose value `first` or `last` is: BY job.

    The index has the value and all that WHERE reads, or the rollups know between which times the row is.
    """
    order, by_key = plan.source.by_key, [key_of(group) != "" for group in plan.groups] == [True]
    match aggregate:
        case Aggregate(name="first" | "last", filter=None, arguments=(Read(column=column),)) if order is not None:
            used = columns_of(plan.where)
            measured = {each.name for each in plan.source.columns if each.measured is not None}
            in_index = measured & order.columns
            is_known = not used & measured and column.name in (in_index | plan.source.apart()) and not column.key
            is_fast = is_known or (column.name in in_index and used <= order.columns)
            return by_key and plan.interval_ms is None and is_fast
    return False


def prefix_of(expression: Checked | None) -> str | None:
    """What the columns of cells begin with that have the values of an expression; None if there are none."""
    match expression:
        case Read(column=column) if column.type is not Type.TEXT:
            return column.measured
        case Apply(name="length", arguments=(Read(column=column),)):
            return column.measured
    return None


def simpler(aggregate: Aggregate) -> Checked:
    """What has the same value, from an aggregate of what is measured, which rollups have; else the aggregate itself.

    ``avg(duration_ms / 1000)`` is a multiple, and ``sum(if(status = 'failed', duration_ms, 0))`` has a FILTER instead.
    """
    match aggregate.arguments:
        case (Apply(name="/" | "*", arguments=(part, Literal(value=int() | float() as factor) as literal)) as found,):
            of_part = replace(aggregate, arguments=(part,))
            same: Checked = replace(found, arguments=(of_part, literal))
            is_same = factor > 0 and aggregate.name != "count"
        case (Apply(name="coalesce", arguments=(part, Literal(value=int(value)) as other)) as found,) if value == 0:
            of_part = replace(aggregate, name="sum", arguments=(part,))
            total = replace(found, arguments=(of_part, replace(of_part, arguments=(other,))))  # null without rows
            mean = Apply(found.span, "/", (total, replace(aggregate, name="count", arguments=())), aggregate.type)
            same = mean if aggregate.name == "avg" else total
            is_same = aggregate.name in ("avg", "sum") and not aggregate.distinct
        case (Apply(name="if" | "case", arguments=(condition, part, Literal(value=None | 0) as other)) as found,):
            chosen = (aggregate.filter, condition) if aggregate.filter is not None else (condition,)
            both = Apply(condition.span, "and", chosen, Type.BOOLEAN)
            same = of_part = replace(aggregate, arguments=(part,), filter=both)
            if other.value is not None:  # null only where no rows are, of which it is 0
                rest = replace(found, arguments=(condition, replace(other, value=None), other))
                same = Apply(found.span, "coalesce", (of_part, replace(aggregate, arguments=(rest,))), aggregate.type)
            is_same = other.value is None or (aggregate.name == "sum" and isinstance(other.value, int))
        case _:
            return aggregate
    return same if is_same and (prefix_of(part) is not None or simpler(of_part) is not of_part) else aggregate


def aggregates_of(aggregate: Aggregate) -> Iterator[Aggregate]:
    """The aggregates that its value follows from."""
    for part in walk(simpler(aggregate)):
        if isinstance(part, Aggregate):
            yield from (part,) if part is aggregate else aggregates_of(part)


def key_of(expression: Checked) -> str:
    """The key that makes the same groups as an expression; empty if there is none."""
    return expression.column.key if isinstance(expression, Read) else ""


def _texts(condition: Checked | None) -> list[tuple[Column, str]]:
    """The texts that rows must contain (CONTAINS, LIKE, ILIKE, =~) and an index can find, each with its column."""
    match condition:
        case Apply(name="and"):
            return [text for argument in condition.arguments for text in _texts(argument)]
        case Apply(name="contains" | "=~" as name, arguments=(Read(column=column), Literal(value=str(part)))):
            parts = [part if name == "contains" else _beginning(part)]
        case Apply(
            name="like" | "ilike" as name,
            arguments=(Read(column=column), Literal(value=str(like)), Literal(value=str(escape))),
        ):
            others = "" if name == "like" else _FOLDED_OTHERWISE
            parts = sorted(re.split(f"[%_{re.escape(escape)}{others}]", like), key=len)[-_MAX_PARTS:]
        case _:
            return []
    return [(column, part) for part in parts if column.search and len(part) >= _TRIGRAM and "\0" not in part]


def _beginning(pattern: str) -> str:
    """What each text has where a regular expression begins to match it; empty if its alternatives begin differently."""
    has_brackets = "\\" in pattern or "[" in pattern  # in which parentheses are no group
    found = re.match(r"\^?([\w :/=,-]*)(?![*?+{])", pattern)
    alternatives = "|" in (pattern if has_brackets else re.sub(r"\([^()]*\)", "", pattern))
    return "" if found is None or alternatives else found[1]


def _trigram_query(text: str) -> str:
    """The full-text query for a text: trigrams side by side, at most _MAX_TRIGRAMS. Each row found is still checked."""
    last = len(text) - _TRIGRAM
    starts = [*range(0, last, max(_TRIGRAM, -(-last // (_MAX_TRIGRAMS - 1)))), last]
    trigrams = dict.fromkeys(text[start : start + _TRIGRAM] for start in starts)
    return " AND ".join('"' + trigram.replace('"', '""') + '"' for trigram in trigrams)
