"""Filters of the lists of jobs and of runs."""

from collections.abc import Callable
from typing import Any

import pytest

from obs.times import parse_iso
from tests.conftest import Clock, KeyClient


@pytest.fixture
def jobs(client: KeyClient) -> KeyClient:
    for name, host, project, status in (
        ("db/main", "nas", "home", "ok"),
        ("db/replica", "nas", "work", "fail"),
        ("DB/old", "vm", "home", "ok"),
    ):
        service = f"{project}-sync"
        headers = {"X-Platform-Host": host, "X-Platform-Service": service, "X-Platform-Project": project}
        client.post(f"/api/v1/heartbeat/{name}/end?status={status}", headers=headers)
    return client


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("prefix=db/", ["db/main", "db/replica"]),
        ("host=nas", ["db/main", "db/replica"]),
        ("project=home", ["DB/old", "db/main"]),
        ("project=home&host=nas", ["db/main"]),
        ("service=home-sync", ["DB/old", "db/main"]),
        ("q=DB&project=work", ["db/replica"]),
        ("host=n", []),
        ("status=failed", ["db/replica"]),
        ("status=failed&host=vm", []),
    ],
)
def test_jobs_can_be_filtered(jobs: KeyClient, query: str, names: list[str]) -> None:
    assert [job["name"] for job in jobs.get(f"/api/v1/jobs?{query}").json["jobs"]] == names


def test_filters_apply_to_all_pages(jobs: KeyClient) -> None:
    first = jobs.get("/api/v1/jobs?host=nas&limit=1").json
    second = jobs.get(f"/api/v1/jobs?host=nas&limit=1&cursor={first['next_cursor']}").json
    assert [page["jobs"][0]["name"] for page in (first, second)] == ["db/main", "db/replica"]
    assert second["next_cursor"] is None


@pytest.mark.parametrize("query", ["status=broken", "host=", "colour=red"])
def test_invalid_filters_of_jobs_are_rejected(jobs: KeyClient, query: str) -> None:
    assert jobs.get(f"/api/v1/jobs?{query}").status_code == 422


@pytest.fixture
def listed(client: KeyClient, clock: Clock) -> Callable[[str], Any]:
    """Lists the runs that a query selects, as hours of their starts: one each hour, at 1 and 3 failed."""
    start = clock.now_ms
    for hour in range(5):
        client.post(f"/api/v1/heartbeat/backup/end?status={'fail' if hour % 2 else 'ok'}")
        clock.advance(hours=1)

    def read(query: str) -> Any:
        response = client.get(f"/api/v1/jobs/backup/runs?{query}")
        if response.status_code != 200:
            return response.status_code
        return [(parse_iso(run["started_at"]) - start) // 3_600_000 for run in response.json["runs"]]

    return read


@pytest.mark.parametrize(
    ("query", "hours"),
    [
        ("", [4, 3, 2, 1, 0]),
        ("status=failed", [3, 1]),
        ("start=-3h", [4, 3, 2]),
        ("start=2026-06-21T11:00:00Z&end=2026-06-21T13:00:00Z", [2, 1]),
        ("status=success&end=-3h", [0]),
        ("status=broken", 422),
        ("start=yesterday", 422),
    ],
)
def test_runs_can_be_filtered(listed: Callable[[str], Any], query: str, hours: Any) -> None:
    assert listed(query) == hours
