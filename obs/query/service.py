"""Running OQL statements for an organization within its limits, and their results as CSV and NDJSON."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

from obs.errors import invalid_field
from obs.query.execution.run import QueryRequest, QueryResponse
from obs.query.execution.session import Limits
from obs.query.execution.workers import Workers
from obs.query.language.functions import NUMERIC
from obs.query.language.nodes import DAYS
from obs.query.language.plan import Aggregate, Listing
from obs.sources import Source
from obs.tenancy import keys
from obs.tenancy.auth import Caller

FORMATS = ("application/json", "text/csv", "application/x-ndjson")
_NOT_SET = "(not set)"
_FORMULA = tuple("=+-@\t\r\n＝＋－＠")  # noqa: RUF001 - spreadsheets know the full-width signs too


class QueryService:
    """Runs the statements of all organizations, in worker processes or in this one."""

    def __init__(self, sources: Sequence[Source], settings: Mapping[str, Any]) -> None:
        self.sources = sources
        self.workers = Workers(sources, int(settings["QUERY_WORKERS"]))  # with 0, in this process

    def run(self, caller: Caller, statement: str, *, params: Any = None, is_counted: bool = True) -> QueryResponse:
        """Run a statement with its `params`, within the rate limit. Raises ServiceError: 400, 403, 422, 429 or 503."""
        quotas, databases = caller.tenancy.quotas, caller.tenancy.databases
        own = quotas.limits(caller.org).items()
        of_queries = {name.removeprefix("query_"): value for name, value in own if name.startswith("query_")}
        limits = Limits(**of_queries, may_spill=not quotas.space.is_low)
        if is_counted:
            quotas.rates.take((caller.org, "query_rate_per_minute"), limits.rate_per_minute, caller.now_ms)
        is_admin = keys.allows(caller.scopes, "admin")
        sent = json.dumps(params or {}, ensure_ascii=False)
        request = QueryRequest(statement, databases.path(caller.org), caller.now_ms, limits, is_admin, sent)
        with caller.read():  # keeps the file open, and its schema up to date, while another connection reads it
            return self.workers.run(caller.org, request)

    def numbers(self, caller: Caller, statement: str) -> tuple[dict[str, float | None], float | None]:
        """The number that a statement returns, or one for each group, by the texts of the group; for alerts.

        The group of a statement without BY, or without any group, is "". The second value is the number of all other
        groups: 0 if the statement counts all rows, else None. Raises ServiceError like `run`, and 422 for other forms.
        """
        rows = json.loads(self.run(caller, statement, is_counted=False).body)["rows"]
        plan = self.workers.engine.plan(statement)
        if isinstance(plan, Listing) or not self.returns_numbers(statement):
            message = "It must return one number, or one for each group, in a window relative to now."
            hint = "Select one aggregate, such as count(*), with a window such as LAST 1h, and without EVERY."
            raise invalid_field("json", "query", message, hint=hint)
        [output] = [one for one in plan.values if not one.hidden]
        place, value = plan.outputs.index(output), output.expression
        returns_all = (plan.top, plan.limit, plan.offset, plan.having) == (None, None, 0, None)
        absent = 0 if returns_all and isinstance(value, Aggregate) and value.name == "count" else None
        found = {", ".join(map(_in_group, (*row[:place], *row[place + 1 :]))): row[place] for row in rows}
        return found or {"": absent}, absent

    def returns_numbers(self, statement: str) -> bool:
        """Whether a statement that runs without parameters is of the form that `numbers` takes, and for all readers."""
        plan = self.workers.engine.plan(statement)
        return (
            not isinstance(plan, Listing)
            and not plan.source.admin_only
            and [one.expression.type in NUMERIC for one in plan.values if not one.hidden] == [True]
            and (plan.grouped, plan.explain, plan.is_derived, plan.interval_ms) == (True, False, False, None)
            and {moment.text for moment in (plan.window.since, plan.window.until) if moment} <= {None, *DAYS}
        )


def _in_group(cell: Any) -> str:
    """A cell in the text of a group. A text is quoted if it could be taken for two cells, or for another one."""
    if cell is None:
        return _NOT_SET
    is_plain = isinstance(cell, str) and cell != _NOT_SET and ", " not in cell and not cell.startswith('"')
    return cell if is_plain else json.dumps(cell, ensure_ascii=False)


def converted(result: bytes, mimetype: str) -> bytes | str:
    """A result, as it is sent in JSON, in one of FORMATS: NDJSON has an object for each row."""
    if mimetype == FORMATS[0]:
        return result
    found = json.loads(result)
    columns, rows = found["columns"], found["rows"]
    if mimetype == FORMATS[2]:
        return "".join(json.dumps(dict(zip(columns, row, strict=True))) + "\n" for row in rows)
    text = io.StringIO()
    csv.writer(text).writerows(map(_cell, row) for row in (columns, *rows))
    return text.getvalue()


def _cell(value: Any) -> Any:
    """A cell of CSV. An apostrophe keeps spreadsheets from running text as a formula, as OWASP advises."""
    if isinstance(value, bool):
        return json.dumps(value)
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
