"""A change on a page counts at once, also in an organization from which no heartbeat comes any more."""

from collections.abc import Callable

import pytest
from flask import Flask

from obs.services import services
from obs.times import format_ms
from tests.conftest import Clock, KeyClient
from tests.dashboard.conftest import Visitor


@pytest.fixture
def sweep(app: Flask) -> Callable[[], None]:
    return services(app).background.tasks["sweep"].run


@pytest.fixture
def overdue_at(client: KeyClient, clock: Clock, sweep: Callable[[], None]) -> str:
    """When a job that pinged every hour would be overdue; all of it was learned, and nothing is due before."""
    for _ in range(8):
        clock.advance(hours=1)
        client.post("/api/v1/heartbeat/backup/ping")
        sweep()
    return str(client.get("/api/v1/jobs/backup").json["overdue_at"])


def _status(client: KeyClient) -> str:
    return str(client.get("/api/v1/jobs/backup").json["status"])


def _incidents(client: KeyClient) -> list[str]:
    query = "SELECT kind FROM incidents WHERE ended_at IS NULL BETWEEN '2026-01-01' AND '2027-01-01'"
    return [row[0] for row in client.post("/api/v1/dsl", json={"query": query}).json["rows"]]


def test_a_job_is_overdue_by_the_interval_that_was_pinned(
    admin: Visitor, client: KeyClient, clock: Clock, sweep: Callable[[], None], overdue_at: str
) -> None:
    assert admin.post("/job/pin?name=backup", kind="interval", interval="10", grace="1").status_code == 302
    sweep()
    assert _status(client) == "ok"
    clock.advance(minutes=11)
    assert format_ms(clock()) < overdue_at
    sweep()
    assert (_status(client), _incidents(client)) == ("overdue", ["overdue"])


def test_a_job_that_is_pinned_as_never_overdue_is_not(
    admin: Visitor, client: KeyClient, clock: Clock, sweep: Callable[[], None], overdue_at: str
) -> None:
    clock.set(overdue_at)
    sweep()
    assert _incidents(client) == ["overdue"]
    assert admin.post("/job/pin?name=backup", kind="never").status_code == 302
    sweep()
    assert (_status(client), _incidents(client)) == ("ok", [])


def test_a_pause_ends_an_incident_and_resuming_watches_the_job_again(
    admin: Visitor, client: KeyClient, clock: Clock, sweep: Callable[[], None], overdue_at: str
) -> None:
    clock.set(overdue_at)
    sweep()
    assert admin.post("/job/pause?name=backup").status_code == 302
    sweep()
    assert (_status(client), _incidents(client)) == ("paused", [])
    clock.advance(days=2)
    assert admin.post("/job/resume?name=backup").status_code == 302
    sweep()
    clock.set(client.get("/api/v1/jobs/backup").json["overdue_at"])
    sweep()
    assert (_status(client), _incidents(client)) == ("overdue", ["overdue"])


def test_a_job_is_overdue_at_its_moment_once_a_maintenance_window_is_deleted(
    admin: Visitor,
    new_client: Callable[..., KeyClient],
    client: KeyClient,
    clock: Clock,
    sweep: Callable[[], None],
    overdue_at: str,
) -> None:
    window = {"start_time": format_ms(clock()), "end_time": format_ms(clock() + 7 * 86_400_000)}
    made = new_client("acme", "admin").post("/api/v1/maintenance", json=window).json
    sweep()
    assert admin.post(f"/incidents/maintenance/{made['id']}/delete").status_code == 302
    sweep()
    clock.set(overdue_at)
    sweep()
    assert (_status(client), _incidents(client)) == ("overdue", ["overdue"])
