"""The query page: a statement in the address, its answer drawn, and the same to take away."""

import csv
import io
import json
from typing import Any

from flask import Blueprint, Response, render_template, request
from flask.typing import ResponseReturnValue

from obs.alerts.source import INCIDENTS
from obs.annotations import store as annotation_store
from obs.annotations.source import ANNOTATIONS
from obs.dashboard import charts, marks
from obs.dashboard.viewer import Viewer, viewer
from obs.errors import ServiceError
from obs.heartbeat.source import SOURCES
from obs.query.execution.run import QueryResponse, QueryResult
from obs.services import services

blp = Blueprint("query", __name__, url_prefix="/query")
_ROWS_SHOWN = 500
_EXAMPLES = (
    ("Runs in an hour", "SELECT count(*) FROM runs EVERY 1h LAST 2d"),
    ("Failures by job", "SELECT count(*) FROM runs WHERE status = 'failed' BY job TOP 10 LAST 7d"),
    ("How long jobs take", "SELECT job, p50(duration_ms), p95(duration_ms), max(duration_ms) FROM runs BY job LAST 7d"),
    ("This week and the one before", "SELECT count(*) FROM runs EVERY 1d COMPARE WITH 7d AGO LAST 7d"),
    ("Around deploys", "SELECT avg(duration_ms) FROM runs AROUND 'deploy/' WITHIN 2h LAST 30d"),
    ("Time in trouble by job", "SELECT sum(duration_ms) FROM incidents BY job TOP 10 LAST 30d"),
    ("Logs that tell of errors", "SELECT time, job, message FROM logs WHERE message ILIKE '%error%' LIMIT 50 LAST 1d"),
    (
        "Share of failed runs",
        "SELECT count(*) FILTER (WHERE status = 'failed') * 100.0 / count(*) AS percent FROM runs LAST 30d",
    ),
)


@blp.get("")
def page() -> ResponseReturnValue:
    """The editor, and the answer to the statement in the query string."""
    looking, text, over = viewer(), _statement(), request.args.get("over", "")
    with looking.read() as db:
        prefixes = [one.prefix for one in annotation_store.prefixes(db, looking.now_ms)]
    shown: dict[str, Any] = {"answer": None, "specs": [], "fault": None}
    status = 200
    if text.strip():
        try:
            answer = _answer(_ask(looking, text))
        except ServiceError as error:
            shown["fault"], status = error, error.status
        else:
            numbers = [place for place in range(len(answer.columns)) if charts.is_number(answer.rows, place)]
            shown |= {"answer": answer, "numbers": numbers, "specs": _specs(looking, answer, over)}
    page = render_template(
        "query.html",
        text=text,
        over=over,
        prefixes=prefixes,
        examples=_EXAMPLES,
        sources=(*SOURCES, INCIDENTS, ANNOTATIONS),
        rows_shown=_ROWS_SHOWN,
        bars_shown=charts.MOST_BARS,
        **shown,
    )
    return page, status


@blp.get("/answer.csv")
def as_csv() -> Response:
    """The answer as CSV with a line of names."""
    answer = _answer(_ask(viewer(), _statement()))
    lines = io.StringIO()
    writer = csv.writer(lines)
    writer.writerow(answer.columns)
    writer.writerows(answer.rows)
    return _to_take_away(Response(lines.getvalue(), mimetype="text/csv"), "csv")


@blp.get("/answer.json")
def as_json() -> Response:
    """The answer as the API gives it."""
    return _to_take_away(Response(_ask(viewer(), _statement()).body, mimetype="application/json"), "json")


def _statement() -> str:
    """The statement, with the line ends of the editor: a form sends others, which would move the place of a fault."""
    return request.args.get("q", "").replace("\r\n", "\n")


def _ask(looking: Viewer, text: str) -> QueryResponse:
    return services().queries.run(looking.as_caller(), text)


def _answer(reply: QueryResponse) -> QueryResult:
    return QueryResult(**json.loads(reply.body), window=reply.window)


def _specs(looking: Viewer, answer: QueryResult, over: str) -> list[charts.Spec]:
    """The drawings of an answer; none where a number or the table says it all."""
    if answer.rows and answer.output_type == "bar":
        return [charts.bar(answer.columns, answer.rows)]
    if not answer.rows or answer.output_type != "timeseries":
        return []
    laid_over: list[charts.Mark] = []
    if over and answer.window is not None:
        prefix = "" if over == "all" else over
        with looking.read() as db:
            laid_over = marks.between(db, answer.window.start, answer.window.end, looking.now_ms, prefix)
    return charts.series(answer.columns, answer.rows, laid_over)


def _to_take_away(response: Response, kind: str) -> Response:
    response.headers["Content-Disposition"] = f"attachment; filename=answer.{kind}"
    response.headers["Cache-Control"] = "no-store"
    return response
