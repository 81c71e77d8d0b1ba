"""Totals of an organization in a service whose runs can have a fifth status, ``cancelled``, as JSON.

python -m tests.heartbeat.fifth_status FOLDER

The status is added to the source of `obs.heartbeat.runs` while it is imported, before anything else of obs is.
"""

import json
import re
import sqlite3
import sys
from collections import Counter
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType
from typing import Any
from zoneinfo import ZoneInfo

MODULE = "obs.heartbeat.runs"
DAYS = 4


class _Loader(SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType:
        text = Path(self.path).read_text()
        assert text.count("    LOST = 3\n") == 1
        return compile(text.replace("    LOST = 3\n", "    LOST = 3\n    CANCELLED = 4\n"), self.path, "exec")


class _Finder(MetaPathFinder):
    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if fullname != MODULE:
            return None
        location = str(Path(next(iter(path))) / "runs.py")
        return spec_from_file_location(fullname, location, loader=_Loader(fullname, location))


def totals(folder: Path) -> dict[str, Any]:
    """Create an organization with runs of every status; returns its totals, each as it is counted in one place."""
    from obs import create_app
    from obs.dashboard import drawings, store as dashboard_store, wording
    from obs.heartbeat.runs import STATUSES, Heartbeat, Kind, Status
    from obs.heartbeat.service import SETTLED_MS
    from obs.heartbeat.store import rollups
    from obs.heartbeat.store.record import JobHeartbeat, record
    from obs.services import services
    from obs.tenancy import keys, service, store as tenancy_store
    from obs.times import DAY_MS, HOUR_MS
    from tests.conftest import ACME

    now_ms = 1_782_036_000_000
    app = create_app({"TESTING": True, "INSTANCE": folder, "CLOCK": lambda: now_ms, "QUERY_WORKERS": 0})
    tenancy = services(app).tenancy
    assert service.create_organization(tenancy, "acme") == ACME
    added = tenancy.control.write(lambda db: tenancy_store.add_key(db, ACME, "test", keys.SCOPES[:-1], None, now_ms))
    assert added is not None
    tenancy.keyring.reload()
    client, headers = app.test_client(), {"X-API-Key": added.key}

    def fill(db: sqlite3.Connection) -> None:
        ended = [status for status in Status if status not in (Status.OPEN, Status.LOST)]
        first = now_ms // DAY_MS * DAY_MS - DAYS * DAY_MS
        for number in range(DAYS * 48):
            at = first + number * HOUR_MS // 2
            for place, job in enumerate(("a", "b")):
                status = ended[(number // 2 + place) % len(ended)]
                record(db, JobHeartbeat(job, Heartbeat(Kind.END, at, status=status, duration_ms=1000)), at)
        for at in (first + 60_000, first + 120_000):  # the first becomes lost, the second stays open
            record(db, JobHeartbeat("a", Heartbeat(Kind.START, at)), at)

    def ask(query: str) -> list[list[Any]]:
        answer = client.post("/api/v1/dsl", json={"query": query}, headers=headers)
        assert answer.status_code == 200, answer.text
        return sorted(answer.json["rows"])  # type: ignore[index]

    def count(unit: str) -> dict[str, int]:
        of_all = f"series JOIN series_by_{unit} ON series_id = series.id"
        of_all += " WHERE job_id IS NULL AND attribution_id IS NULL AND kind IS NULL"
        with tenancy.databases.read(ACME) as db:
            rows = db.execute(f"SELECT status, sum(runs) FROM {of_all} GROUP BY status").fetchall()
        return {STATUSES[row[0]]: row[1] for row in rows}

    def rolled_up() -> bool:
        with tenancy.databases.read(ACME) as db:
            return not rollups.hours_to_roll_up(db, 0, (now_ms - SETTLED_MS) // HOUR_MS) and not rollups.missing(
                db, "day"
            )

    queries = [
        f"SELECT count(*) FROM runs {by} LAST 10d" for by in ("", "BY status", "BY job", "BY job, status", "EVERY 1d")
    ]
    tenancy.databases.write(ACME, fill)
    from_rows = [ask(query) for query in queries]
    for _ in range(100):
        services(app).background.tasks["rollups"].run()
        if rolled_up():
            break
    with tenancy.databases.read(ACME) as db:
        rows = {STATUSES[row[0]]: row[1] for row in db.execute("SELECT status, count(*) FROM runs GROUP BY status")}
        days = drawings.days(now_ms, ZoneInfo("UTC"))
        by_day: Counter[str] = Counter()
        titles = ""
        for job in db.execute("SELECT id FROM jobs").fetchall():
            results = dashboard_store.results_by_day(db, job[0], days)
            by_day.update({status: sum(day.get(status, 0) for day in results.values()) for status in STATUSES})
            calendar = drawings.calendar(results, {}, min(days), max(days))
            titles += "\n".join(wording.results(day.counts) for day in calendar)
        drawn: Counter[str] = Counter()
        for number, word in re.findall(r"(\d+) (open|succeeded|failed|lost|cancelled)\b", titles):
            drawn[{"succeeded": "success"}.get(word, word)] += int(number)
    listed = [
        client.get(f"/api/v1/jobs/{job}/runs?limit=1000", headers=headers).json["runs"]  # type: ignore[index]
        for job in ("a", "b")
    ]
    answer = {
        "rows": rows,
        "listed": Counter(run["status"] for runs in listed for run in runs),
        "run_count": [
            client.get(f"/api/v1/jobs/{job}", headers=headers).json["run_count"]  # type: ignore[index]
            for job in ("a", "b")
        ],
        "calendar": by_day,
        "calendar_as_drawn": drawn,
        "is_rolled_up": rolled_up(),
        "rollups": {unit: count(unit) for unit in ("hour", "five_minutes")},
        "oql_from_rows": from_rows,
        "oql_from_rollups": [ask(query) for query in queries],
    }
    tenancy.close()
    return answer


if __name__ == "__main__":
    sys.meta_path.insert(0, _Finder())
    print(json.dumps(totals(Path(sys.argv[1]))))
