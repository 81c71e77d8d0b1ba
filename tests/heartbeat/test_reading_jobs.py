"""Jobs and runs over HTTP: what is listed, page by page, and what deleting takes with it."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.conftest import Clock, KeyClient
from tests.heartbeat.conftest import Sender

Rows = Callable[..., list[dict[str, Any]]]
JOBS = "/api/v1/jobs"


def _pages(client: KeyClient, path: str, of: str, **query: Any) -> list[list[dict[str, Any]]]:
    """All pages of a list, following next_cursor."""
    pages, cursor = [], None
    while True:
        answer = client.get(path, query_string={**query, **({"cursor": cursor} if cursor else {})})
        assert answer.status_code == 200, answer.json
        assert answer.json is not None
        pages.append(answer.json[of])
        cursor = answer.json["next_cursor"]
        if cursor is None:
            return pages


def test_no_jobs(client: KeyClient) -> None:
    assert client.get(JOBS).json == {"jobs": [], "next_cursor": None}


def test_a_job_as_it_is_read(client: KeyClient, by_path: Sender) -> None:
    by_path("end", duration_ms=61_500, headers={"X-Platform-Host": "web-1"})
    expected = {
        "name": "backup",
        "status": "new",
        "last_outcome": "success",
        "overdue": False,
        "overrunning": False,
        "last_heartbeat_at": "2026-06-21T10:00:00.000Z",
        "interval_ms": None,
        "expected_at": None,
        "overdue_at": None,
        "avg_duration_ms": 61_500.0,
        "run_count": 1,
        "host": "web-1",
        "service": None,
        "project": None,
        "created_at": "2026-06-21T10:00:00.000Z",
        "first_heartbeat_at": "2026-06-21T10:00:00.000Z",
    }
    job = client.get(f"{JOBS}/backup").json
    assert job is not None
    assert {name: job[name] for name in expected} == expected
    listed = {name: value for name, value in job.items() if name not in ("ping_url", "hosts")}
    assert client.get(JOBS).json == {"jobs": [listed], "next_cursor": None}


def test_a_run_as_it_is_read(client: KeyClient, by_path: Sender) -> None:
    number = by_path("end", duration_ms=1_000, exit_code=2, run_id="a", message="bye").json["run_id"]
    run = client.get(f"/api/v1/runs/{number}").json
    assert run == {
        "id": number,
        "run_id": "a",
        "job": "backup",
        "status": "failed",
        "started_at": "2026-06-21T09:59:59.000Z",
        "ended_at": "2026-06-21T10:00:00.000Z",
        "duration_ms": 1_000,
        "exit_code": 2,
        "late_ms": None,
        "host": None,
        "service": None,
        "project": None,
        "timeline": [
            {
                "kind": "end",
                "time": "2026-06-21T10:00:00.000Z",
                "received_at": "2026-06-21T10:00:00.000Z",
                "message": "bye",
            }
        ],
        "left_out": 0,
    }
    del run["timeline"], run["left_out"]
    assert client.get(f"{JOBS}/backup/runs").json == {"runs": [run], "next_cursor": None}


@pytest.mark.parametrize("limit", [1, 3, 7, 8])
def test_pages_hold_each_job_once_by_name(client: KeyClient, by_body: Sender, limit: int) -> None:
    names = ["b", "a/2", "a/1", "ü", "A", "a", "z"]
    for name in names:
        by_body("ping", name)
    pages = _pages(client, JOBS, "jobs", limit=limit)
    assert [job["name"] for page in pages for job in page] == sorted(names)
    assert all(len(page) <= limit for page in pages)


@pytest.mark.parametrize("limit", [1, 3, 7, 8])
def test_pages_hold_each_run_once_newest_start_first(
    client: KeyClient, by_path: Sender, clock: Clock, limit: int
) -> None:
    numbers = []
    for step in (0, 0, 5, 5, 5, -3, 1):  # several at the same millisecond, and one that came late
        clock.advance(seconds=max(step, 0))
        time: dict[str, Any] = {"time": "2026-06-21T09:00:00Z"} if step < 0 else {}
        numbers.append(by_path("ping", **time).json["run_id"])
    by_path("ping", "other")
    runs = [run for page in _pages(client, f"{JOBS}/backup/runs", "runs", limit=limit) for run in page]
    assert sorted(run["id"] for run in runs) == sorted(numbers)
    assert [(run["started_at"], run["id"]) for run in runs] == sorted(
        ((run["started_at"], run["id"]) for run in runs), reverse=True
    )


def test_a_page_is_not_shaken_by_runs_that_come_meanwhile(client: KeyClient, by_path: Sender, clock: Clock) -> None:
    for _ in range(4):
        clock.advance(seconds=1)
        by_path("ping")
    first = client.get(f"{JOBS}/backup/runs?limit=2").json
    assert first is not None
    clock.advance(seconds=1)
    by_path("ping")
    second = client.get(f"{JOBS}/backup/runs", query_string={"limit": 2, "cursor": first["next_cursor"]}).json
    assert second is not None
    assert len({run["id"] for run in first["runs"] + second["runs"]}) == 4
    assert second["next_cursor"] is None


def test_jobs_by_a_text_in_their_name(client: KeyClient, by_body: Sender) -> None:
    for name in ("db/Backup", "web", "50%", "a_b"):
        by_body("ping", name)
    for q, expected in (("back", ["db/Backup"]), ("%", ["50%"]), ("_", ["a_b"]), ("x", [])):
        answer = client.get(JOBS, query_string={"q": q})
        assert answer.json is not None
        assert [job["name"] for job in answer.json["jobs"]] == expected


@pytest.mark.parametrize("query", ["limit=0", "limit=1001", "limit=x", "limit=1.5", "a=1"])
@pytest.mark.parametrize("path", [JOBS, f"{JOBS}/backup/runs"])
def test_a_page_that_cannot_be_is_refused(client: KeyClient, by_path: Sender, path: str, query: str) -> None:
    by_path("ping")
    answer = client.get(f"{path}?{query}")
    assert answer.status_code == 422
    assert answer.json is not None
    assert answer.json["error"] == "invalid_field"


def test_a_cursor_of_another_list_is_refused(client: KeyClient, by_path: Sender) -> None:
    for job in ("a", "backup", "backup"):
        by_path("ping", job)
    lists = [JOBS, f"{JOBS}/backup/runs"]
    jobs, runs = (client.get(path, query_string={"limit": 1}).json["next_cursor"] for path in lists)
    for path, cursors in zip(lists, ([runs, f"{jobs}x", "x", "ü"], [jobs, runs[1:], "x"]), strict=True):
        for cursor in cursors:
            answer = client.get(path, query_string={"cursor": cursor})
            assert answer.status_code == 422
            assert answer.json is not None
            assert answer.json["errors"] == {"query": {"cursor": ["Not a valid cursor for this list."]}}


@pytest.mark.parametrize(
    ("method", "path", "word"),
    [
        ("GET", f"{JOBS}/nothing", "job_not_found"),
        ("GET", f"{JOBS}/nothing/runs", "job_not_found"),
        ("DELETE", f"{JOBS}/nothing", "job_not_found"),
        ("GET", "/api/v1/runs/1", "run_not_found"),
        ("GET", "/api/v1/runs/9223372036854775807", "run_not_found"),
        ("GET", "/api/v1/runs/9223372036854775808", "not_found"),
        ("GET", "/api/v1/runs/-1", "not_found"),
        ("GET", "/api/v1/runs/x", "not_found"),
    ],
)
def test_what_is_not_there(new_client: Callable[..., KeyClient], method: str, path: str, word: str) -> None:
    answer = new_client("acme", "admin").open(path, method=method)
    assert answer.status_code == 404
    assert answer.json is not None
    assert answer.json["error"] == word


def test_deleting_a_job_takes_its_runs_and_timelines(
    by_path: Sender, client: KeyClient, new_client: Callable[..., KeyClient], rows: Rows
) -> None:
    for name in ("db/backup", "web"):
        by_path("log", name, message="loose")
        by_path("start", name)
        by_path("end", name)
    first = client.get(f"{JOBS}/db/backup/runs").json
    admin = new_client("acme", "admin")
    assert admin.delete(f"{JOBS}/db/backup").status_code == 204
    assert admin.delete(f"{JOBS}/db/backup").status_code == 404
    assert rows("SELECT name FROM jobs") == [{"name": "web"}]
    assert (len(rows("SELECT id FROM runs")), len(rows("SELECT id FROM events"))) == (1, 3)
    again = by_path("ping", "db/backup")
    assert first is not None
    assert again.json["run_id"] > max(run["id"] for run in first["runs"])
    assert client.get(f"{JOBS}/db/backup").json["run_count"] == 1
