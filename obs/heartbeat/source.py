"""The area's sources for OQL, described in ``source.toml``, and the SQL for the state of a job at ``:now``."""

from dataclasses import replace

from obs.api import PLACE
from obs.heartbeat.runs import KINDS, STATES, STATUSES, JobState, Kind, Status
from obs.sources import Grain, Order, read_source
from obs.times import DAY_MS, HOUR_MS, MAX_MS, MINUTE_MS, WEEK_MS

# SQLite would choose the index runs_job, and read every run of the job.
_OPEN_RUNS = f"FROM runs INDEXED BY runs_open WHERE runs.job_id = jobs.id AND runs.status = {Status.OPEN:d}"
UNSEEN_MS_SQL = (
    "max(0, coalesce((SELECT received_at FROM events WHERE run_id = runs.id ORDER BY id LIMIT 1), 0) - started_at)"
    " + (SELECT coalesce(sum(end_time - start_time), 0) FROM unknown_times WHERE job_id IS NULL"
    " AND start_time >= started_at)"
)
"""How long of an open run nobody knew of it, or the service was down: the client may have kept the end of the run."""
OVERRUNS_AT_SQL = f"(SELECT min(started_at + {UNSEEN_MS_SQL}) + jobs.overrun_after_ms {_OPEN_RUNS})"
# What was expected before the last heartbeat does not apply after it.
IS_LEARNED_SQL = "(jobs.learned_event_id = jobs.last_event_id OR jobs.by_host)"  # by host, others may have reported
PAUSED_SQL = "(jobs.paused_at IS NOT NULL AND coalesce(jobs.paused_until > :now, 1))"
SILENT_SQL = f"jobs.first_heartbeat_at = {MAX_MS}"  # no heartbeat yet
OVERDUE_SQL = f"coalesce((jobs.overdue_at <= :now OR jobs.overdue_since) AND {IS_LEARNED_SQL} AND NOT {PAUSED_SQL}, 0)"
_CONDITIONS = {  # for each state but ok; the first that applies decides
    JobState.PAUSED: PAUSED_SQL,
    JobState.FAILED: f"jobs.last_outcome = {Status.FAILED:d}",
    JobState.LOST: f"jobs.last_outcome = {Status.LOST:d}",
    JobState.OVERDUE: OVERDUE_SQL,
    JobState.OVERRUNNING: f"{OVERRUNS_AT_SQL} <= :now",
    JobState.LATE: f"jobs.expected_at <= :now AND {IS_LEARNED_SQL}",
    JobState.RUNNING: f"EXISTS (SELECT 1 {_OPEN_RUNS})",
    JobState.NEW: f"(jobs.overdue_at IS NULL AND jobs.pin IS NULL) OR {SILENT_SQL}",
}
_WHENS = " ".join(f"WHEN {condition} THEN '{state}'" for state, condition in _CONDITIONS.items())
STATE_SQL = f"CASE {_WHENS} ELSE '{JobState.OK}' END"

AVERAGE_DURATION_SQL = "CAST(jobs.total_duration_ms AS REAL) / nullif(jobs.timed_run_count, 0)"

_UNITS = {"week": WEEK_MS, "day": DAY_MS, "hour": HOUR_MS, "five_minutes": 5 * MINUTE_MS}
_PLACES = {name: {"sql": f"attributions.{name}", "join": "attributions"} for name in PLACE}


def _job(table: str) -> dict[str, str]:
    lookup = f"SELECT jobs.name FROM jobs WHERE jobs.id = {table}.job_id"
    return {"sql": "jobs.name", "join": "jobs", "key": f"{table}.job_id", "lookup": lookup}


def _joins(table: str) -> tuple[tuple[str, str], ...]:
    attributions = f"LEFT JOIN attributions ON attributions.id = {table}.attribution_id"
    return ("jobs", f"JOIN jobs ON jobs.id = {table}.job_id"), ("attributions", attributions)


def _known(unit: str, parts: int = 1) -> str:
    """The spans of parts of complete units. A unit minus its place among these is the same for consecutive units."""
    first, last = f":first / {parts}", f"(:end - 1) / {parts}"
    complete = f"rolled_up_{unit}s WHERE {unit} BETWEEN {first} AND {last} AND attempt IS NULL"
    has_all = f"(SELECT count(*) FROM {complete}) > {last} - {first}"  # counting takes a tenth of the time
    known = f"SELECT {unit}, {unit} - row_number() OVER (ORDER BY {unit}) AS run"
    known += f" FROM (SELECT 1 WHERE NOT {has_all}) CROSS JOIN {complete}"
    span = f"max(min({unit}) * {parts}, :first), min((max({unit}) + 1) * {parts}, :end)"
    return f"SELECT :first, :end WHERE {has_all} UNION ALL SELECT {span} FROM ({known}) GROUP BY run ORDER BY 1"


def _grains(table: str, column: str, *more: str) -> tuple[Grain, ...]:
    """The cells of all rows by `column`, those by place too, and those by job too."""
    is_run = f"{table}.kind IS {'NULL' if table == 'runs' else 'NOT NULL'}"
    grains = []
    of_place = (*PLACE, *more)
    for ids, units, columns in (
        ("BETWEEN -100 AND -1", ("hour", "five_minutes"), ()),
        ("< -100", ("week", "day", "hour"), of_place),
        ("> 0", ("week", "day", "hour"), ("job", *of_place)),
    ):
        for unit in units:
            known = _known("hour", 12) if unit == "five_minutes" else _known(unit)
            series, cells = f"series AS {table}", f"series_by_{unit} AS cells"
            on = f"ON cells.series_id = {table}.id AND {is_run} AND {table}.id {ids}"
            from_sql = f"{series} {{joins}} CROSS JOIN {{spans}} CROSS JOIN {cells} {on}"
            by_time = ""
            if unit != "five_minutes":  # the only cells that are not stored in the order of time
                by_time = f"{{spans}} CROSS JOIN rolled_up_{unit}s AS marks ON marks.{unit} >= spans.column1"
                by_time += f" AND marks.{unit} < spans.column2 CROSS JOIN {cells} ON cells.{unit} = marks.{unit}"
                by_time += f" AND cells.series_id {ids} CROSS JOIN {series} {on} {{joins}}"
            apart = frozenset({column, *columns})
            grains.append(Grain(_UNITS[unit], f"cells.{unit}", known, apart, from_sql, "cells", by_time))
    return tuple(grains)


_BEFORE = "FROM runs AS r INDEXED BY runs_job WHERE r.job_id = runs.job_id AND r.started_at < runs.started_at"
_GAP_SQL = f"runs.started_at - (SELECT r.started_at {_BEFORE} ORDER BY r.started_at DESC LIMIT 1)"
_IN_RUNS_JOB = frozenset({"job", "time", "status", "duration_ms", "gap_ms"})
_ROLLUPS = ("series", *(f"series_by_{unit}" for unit in _UNITS), *(f"rolled_up_{unit}s" for unit in list(_UNITS)[:3]))
RUNS = read_source(
    __file__,
    "runs",
    {
        "job": _job("runs"),
        "status": {"values": STATUSES},
        "duration_ms": {"measured": ""},
        "late_ms": {"measured": "late_"},
        "gap_ms": {"sql": _GAP_SQL, "costly": True},
        **_PLACES,
    },
    tables=("runs", "jobs", "attributions", "json_each", *_ROLLUPS),
    joins=_joins("runs"),
    grains=_grains("runs", "status", "exit_code"),
    by_key=Order("jobs CROSS JOIN runs ON runs.job_id = jobs.id", "jobs.id", _IN_RUNS_JOB),
)

_INDEX = "event_messages"
_MESSAGES = ("indexed_messages", *(_INDEX + part for part in ("", "_config", "_data", "_idx")))
_UNINDEXED = (
    "SELECT id FROM events WHERE instr(events.message, char(0)) > 0"
    " UNION ALL SELECT id FROM events WHERE id > (SELECT up_to FROM indexed_messages)"
)
_MESSAGE = {"search": _INDEX, "unsearched": _UNINDEXED, "measured": ""}
EVENTS = read_source(
    __file__,
    "events",
    {"job": _job("events"), "kind": {"values": KINDS}, "message": _MESSAGE, **_PLACES},
    tables=("events", "jobs", "attributions", "json_each", *_MESSAGES, *_ROLLUPS),
    joins=_joins("events"),
    grains=_grains("events", "kind"),
)
_NOT_KIND = tuple(column for column in EVENTS.columns if column.name != "kind")
LOGS = replace(EVENTS, name="logs", row="a log message", columns=_NOT_KIND, where=f"events.kind = {Kind.LOG:d}")

JOBS = read_source(
    __file__,
    "jobs",
    {
        "job": {"sql": "jobs.name"},
        "status": {"sql": STATE_SQL, "texts": STATES},
        "overdue": {"sql": OVERDUE_SQL},
        "avg_duration_ms": {"sql": AVERAGE_DURATION_SQL},
        **_PLACES,
    },
    time_sql="min(jobs.last_heartbeat_at, :now - 1)",  # the clock of its host may be ahead
    tables=("jobs", "runs", "attributions", "events", "unknown_times"),
    joins=(("attributions", "LEFT JOIN attributions ON attributions.id = jobs.attribution_id"),),
)

SOURCES = (RUNS, EVENTS, LOGS, JOBS)
