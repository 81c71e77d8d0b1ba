"""``obs import healthchecks``: the checks of a project of Healthchecks as jobs with the same UUIDs."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from unicodedata import category
from urllib.parse import quote

from .outbox import now, warn
from .server import Server, ServerError, configured
from .views import show, table


def healthchecks(options: Any) -> int:
    """Import each check that is not a job yet, or show what would be imported. Returns 1 if there were errors."""
    server, rows, failed = configured(), [], 0
    jobs = {job.get("uuid", job["name"]): job["name"] for job in server.request("GET", "checks/", "checks")["checks"]}
    source = Server(options.url, options.api_key, "v3")
    try:
        checks = source.request("GET", "checks/", "checks")["checks"]
    except ServerError:  # of an older version, or for another reason, which occurs again
        source = Server(options.url, options.api_key, "v1")
        checks = source.request("GET", "checks/", "checks")["checks"]
    if any("ping_url" not in check for check in checks):
        raise ServerError("this API key is read-only, so Healthchecks shows no UUIDs. Use one that can read and write.")
    names = [check["name"].strip() for check in checks]
    for check, name in zip(checks, names):
        uuid = check["ping_url"].rpartition("/")[2]
        if name and names.count(name) > 1:
            name = f"{name} {uuid[:8]}"
        name = jobs.get(uuid) or name or uuid
        tag = "" if options.tags == "none" else check["tags"].partition(" ")[0]
        job = {"name": name, "ping_uuid": uuid, **({options.tags: tag} if tag else {})}
        try:
            if uuid not in jobs and name in jobs.values():
                raise ServerError("there is another job with this name")
            if uuid not in jobs and any(category(character) in ("Cc", "Cf") for character in name):
                raise ServerError("the name has invisible characters. Rename the check.")
            result = "is a job already" if uuid in jobs else _import(options, server, source, check, job)
        except ServerError as error:
            result, failed = f"error: {error}".replace("\n", " "), 1
        schedule = f"{check['schedule']} {check['tz']}" if "schedule" in check else f"every {check['timeout']} s"
        rows.append((name, schedule, f"{check['grace']} s", tag, result))
    show(table(("JOB", "SCHEDULE", "GRACE", "TAG", "RESULT"), rows))
    if not options.write:
        warn("nothing was changed. Add --write to import.")
    return failed


def _import(options: Any, server: Server, source: Server, check: Any, job: dict[str, Any]) -> str:
    """Create `job`, with a pin or its past runs, if the options say so; returns what is done. Raises ServerError."""
    runs, is_paused = list[Any](), check["status"] == "paused"
    if options.learn and check["status"] not in ("down", "paused"):
        runs = _runs(source.request("GET", f"checks/{job['ping_uuid']}/pings/", "pings")["pings"])
    elif not options.learn and len(check.get("schedule", "* * * * *").split()) != 5:
        raise ServerError("the schedule is not a cron expression. With --learn, it is not needed.")
    elif not options.learn:
        names = {"schedule": "cron", "tz": "timezone", "timeout": "interval_seconds", "grace": "grace_seconds"}
        job["pin"] = {names[name]: value for name, value in check.items() if name in names}
    done = "created" if options.write else "would be created"
    done += ", paused" if is_paused else ""
    too_old = 0
    if options.write:
        pause = {"paused_until": now(3600)} if runs else {"paused": is_paused}  # so that nothing past is reported
        server.request("POST", "jobs", "name", {**job, **pause})
        for run in runs:
            try:
                for kind, event in run.items():
                    server.request("POST", f"heartbeat/{kind}", "run_id", {"name": job["name"], **event})
            except ServerError as error:
                if error.status != 422:  # else it is older than obs keeps runs
                    raise
                too_old += 1
        if runs:
            server.request("PATCH", f"jobs/{quote(job['name'], safe='')}", "name", {"paused": False})
    return f"{done}, with {len(runs) - too_old} past runs" if options.learn else done


def _runs(pings: list[Any]) -> list[dict[str, Any]]:
    """The runs of a check up to its last success, each as its heartbeats by their kinds.

    No runs if the check is silent for longer than it ever was: as a job with these runs it would be overdue at once.
    """
    starts, runs = dict[Any, Any](), list[Any]()
    for ping in sorted(pings, key=lambda one: one["n"]):
        event, rid = {"run_id": f"healthchecks-{ping['n']}", "time": ping["date"]}, ping.get("rid")
        if ping["type"] == "start":
            starts[rid] = event
        elif ping["type"] in ("success", "fail"):
            run = {"start": {**starts.pop(rid), "run_id": event["run_id"]}} if rid in starts else {}
            runs.append({**run, "end": {**event, "status": ping["type"]}})
    while runs and runs[-1]["end"]["status"] == "fail":
        runs.pop()
    ends = [datetime.fromisoformat(run["end"]["time"].replace("Z", "+00:00")) for run in runs]
    gaps = [after - before for before, after in zip(ends, ends[1:])]  # noqa: RUF007 - Python 3.9
    return runs if gaps and datetime.now(ends[-1].tzinfo) - ends[-1] <= max(gaps) else []
