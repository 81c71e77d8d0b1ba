"""The overview in memory shows what is stored, whatever changes it, and reads only what has changed."""

import sqlite3
from collections.abc import Callable
from contextlib import closing

import pytest
from flask import Flask

from obs.heartbeat.runs import Heartbeat, Kind
from obs.heartbeat.store.record import JobHeartbeat, record
from obs.services import services
from obs.storage.databases import Org
from obs.times import HOUR_MS, format_ms
from tests.conftest import Clock, KeyClient
from tests.dashboard.conftest import Visitor
from tests.dashboard.test_jobs_page import Watching

QUERIES = ("", "sort=name&desc=1", "sort=last", "state=ok", "q=job-1", "project=shop&sort=next&desc=1")


class World:
    """An organization with viewers, and what can happen to its jobs."""

    def __init__(self, app: Flask, client: KeyClient, clock: Clock) -> None:
        self.app, self.client, self.clock = app, client, clock

    def send(self, path: str, **headers: str) -> None:
        sent = {f"X-Platform-{name.capitalize()}": value for name, value in headers.items()}
        assert self.client.post(f"/api/v1/heartbeat/{path}", headers=sent).status_code == 200

    def change(self, job: str, **fields: object) -> None:
        assert self.client.patch(f"/api/v1/jobs/{job}", json=fields).status_code == 200

    def delete(self, job: str) -> None:
        assert self.client.delete(f"/api/v1/jobs/{job}").status_code == 204

    def sweep(self) -> None:
        services(self.app).background.tasks["sweep"].run()

    def write_from_another_process(self, sql: str) -> None:
        with closing(sqlite3.connect(services(self.app).tenancy.databases.path(self.org))) as db, db:
            db.execute(sql)

    @property
    def org(self) -> Org:
        return services(self.app).tenancy.keyring.organizations()[0]

    def add_maintenance(self) -> None:
        window = {"start_time": "2026-06-21T11:00:00Z", "end_time": "2026-06-21T23:00:00Z", "title": "x"}
        assert self.client.post("/api/v1/maintenance", json=window).status_code == 201


EVENTS: dict[str, Callable[[World], object]] = {
    "a heartbeat": lambda world: world.send("job-1/ping"),
    "a new job": lambda world: world.send("job-10/ping", project="shop"),
    "a failure": lambda world: world.send("job-2/end?status=fail"),
    "a start": lambda world: world.send("job-3/start"),
    "another project": lambda world: world.send("job-1/ping", project="shop"),
    "learning": World.sweep,
    "a late heartbeat": lambda world: world.clock.advance(minutes=10, seconds=1),
    "an overdue heartbeat": lambda world: world.clock.advance(minutes=30),
    "the sweep notices what is overdue": World.sweep,
    "a heartbeat after that": lambda world: world.send("job-1/ping"),
    "a run that takes too long": lambda world: world.clock.advance(days=8),
    "a run that is lost": World.sweep,
    "a rename": lambda world: world.change("job-2", name="job-02"),
    "a pin": lambda world: world.change("job-1", pin={"interval_seconds": 60, "grace_seconds": 60}),
    "learning of the pin": World.sweep,
    "a pause": lambda world: world.change("job-3", paused_until=format_ms(world.clock.now_ms + HOUR_MS)),
    "the end of the pause": lambda world: world.clock.advance(hours=1),
    "a pause without an end": lambda world: world.change("job-1", paused=True),
    "a resume": lambda world: world.change("job-1", paused=False),
    "a failure tolerance": lambda world: world.change("job-1", failure_tolerance=3),
    "a maintenance window": World.add_maintenance,
    "a deleted job": lambda world: world.delete("job-3"),
    "another process": lambda world: world.write_from_another_process("UPDATE jobs SET name = 'job-one' WHERE id = 1"),
    "a deletion by another process": lambda world: world.write_from_another_process("DELETE FROM jobs WHERE id = 4"),
    "a clock that is set back": lambda world: world.clock.advance(days=-1),
}


def test_the_overview_follows_every_change(
    app: Flask, make_app: Callable[..., Flask], new_client: Callable[..., KeyClient], clock: Clock
) -> None:
    world = World(app, new_client("acme", "admin", "heartbeat:write"), clock)
    for _ in range(9):
        for number in range(6):
            world.send(f"job-{number}/ping", **({"project": "shop"} if number % 2 else {}))
        clock.advance(minutes=10)
    world.sweep()
    reader = signed_in(app, world)
    watching = {query: Watching(reader, query) for query in QUERIES}
    seen = set()
    for name, happens in EVENTS.items():
        happens(world)
        stored = signed_in(make_app(), world)  # another process, which knows nothing yet
        for query, page in watching.items():
            page.refresh()
            fresh = Watching(stored, query)
            assert list(page.rows.items()) == list(fresh.rows.items()), (name, query)
            assert page.shown() == fresh.shown(), (name, query)
        seen.add(tuple(watching["sort=last"].rows.items()))
    assert len(seen) == len(EVENTS) - 2  # a long time shows once, and maintenance in the past not at all


def signed_in(app: Flask, world: World) -> Visitor:
    visitor = Visitor(app)
    assert visitor.sign_in(str(world.client.key)).status_code == 302
    return visitor


class Work:
    """What SQLite does for an organization's readers: the statements, and the instructions of its virtual machine."""

    def __init__(self, app: Flask) -> None:
        self.statements: list[str] = []
        self.instructions = 0
        tenancy = services(app).tenancy
        with tenancy.databases.read(tenancy.keyring.organizations()[0]) as db:  # the next reader gets it again
            db.set_trace_callback(self.statements.append)
            db.set_progress_handler(self._count, 1)

    def _count(self) -> None:
        self.instructions += 1

    def of(self, call: Callable[[], object]) -> tuple[int, int]:
        """The numbers of statements and of instructions during a call."""
        self.statements.clear()
        self.instructions = 0
        call()
        return len(self.statements), self.instructions


@pytest.fixture
def many_jobs(app: Flask, client: KeyClient, clock: Clock) -> Callable[[int, int], None]:
    def make(jobs: int, runs: int) -> None:
        def unit(db: sqlite3.Connection) -> None:
            for number in range(jobs):
                for back in range(runs, 0, -1):
                    at = clock.now_ms - back * 60_000
                    record(db, JobHeartbeat(f"job-{number:04}", Heartbeat(Kind.END, at, duration_ms=100)), at)

        services(app).tenancy.databases.write(services(app).tenancy.keyring.organizations()[0], unit)

    return make


def test_a_poll_costs_what_changed_and_not_what_is_stored(
    app: Flask, many_jobs: Callable[[int, int], None], reader: Visitor, client: KeyClient
) -> None:
    costs = []
    for jobs, runs in ((150, 30), (600, 30)):
        many_jobs(jobs, runs)
        page = Watching(reader, "sort=name")
        work = Work(app)
        statements, instructions = work.of(page.refresh)
        assert statements <= 1
        assert instructions < 50
        client.post("/api/v1/heartbeat/job-0007/ping")
        costs.append(work.of(page.refresh)[1])
        assert work.of(lambda: reader.get("/?sort=name"))[0] <= 5
    assert costs[1] < 1.5 * costs[0] < 10_000


def test_the_list_of_jobs_costs_what_its_limit_says(
    app: Flask, many_jobs: Callable[[int, int], None], client: KeyClient
) -> None:
    costs = []
    for jobs, runs in ((20, 2), (1000, 40)):
        many_jobs(jobs, runs)
        costs.append(Work(app).of(lambda: client.get("/api/v1/jobs?limit=10"))[1])
    assert costs[1] < 1.1 * costs[0]
