"""What a person changes of a job: a pinned schedule, its name, what is refused."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.conftest import Clock, KeyClient
from tests.heartbeat.conftest import Sender

JOB = "/api/v1/jobs/backup"
Sweep = Callable[[], None]


def _read(client: KeyClient) -> dict[str, Any]:
    answer = client.get(JOB)
    assert answer.status_code == 200
    return dict(answer.json or {})


@pytest.mark.parametrize(
    ("pin", "expected", "overdue_at"),
    [
        (
            {"cron": "0 2 * * *", "timezone": "Europe/Berlin", "grace_seconds": 300},
            "2026-06-22T00:00:00.000Z",
            "2026-06-22T00:05:00.000Z",
        ),
        ({"cron": "30 10 * * *"}, "2026-06-21T10:30:00.000Z", "2026-06-21T10:31:00.000Z"),
        ({"interval_seconds": 7200, "grace_seconds": 0}, "2026-06-21T12:00:00.000Z", "2026-06-21T12:00:00.000Z"),
        ({"never": True}, None, None),
    ],
)
def test_a_pinned_schedule_is_judged_from_the_last_heartbeat(
    by_path: Sender, admin: KeyClient, sweep: Sweep, pin: dict[str, Any], expected: str, overdue_at: str
) -> None:
    by_path("ping")
    assert admin.patch(JOB, json={"pin": pin}).status_code == 200
    sweep()
    job = _read(admin)
    assert (job["expected_at"], job["overdue_at"]) == (expected, overdue_at)
    assert pin.items() <= job["pin"].items()


def test_a_pinned_job_is_overdue_after_its_grace(by_path: Sender, admin: KeyClient, clock: Clock, sweep: Sweep) -> None:
    by_path("ping")
    admin.patch(JOB, json={"pin": {"interval_seconds": 600, "grace_seconds": 60}})
    sweep()
    clock.advance(seconds=659)
    assert _read(admin)["status"] == "late"
    clock.advance(seconds=1)
    assert _read(admin)["status"] == "overdue"


def test_a_job_that_is_never_overdue_is_not_new_for_ever(
    by_path: Sender, admin: KeyClient, clock: Clock, sweep: Sweep
) -> None:
    by_path("ping")
    sweep()
    assert _read(admin)["status"] == "new"
    admin.patch(JOB, json={"pin": {"never": True}})
    sweep()
    clock.advance(days=400)
    sweep()
    assert (_read(admin)["status"], _read(admin)["overdue"]) == ("ok", False)


def test_unpinning_gives_the_job_back_to_the_learner(by_path: Sender, admin: KeyClient, sweep: Sweep) -> None:
    by_path("ping")
    admin.patch(JOB, json={"pin": {"interval_seconds": 600}})
    sweep()
    admin.patch(JOB, json={"pin": None})
    sweep()
    job = _read(admin)
    assert (job["pin"], job["overdue_at"]) == (None, None)
    assert job["learned"]["summary"] == "Learning: 1 of 3 runs so far"


def test_what_was_learned_is_described_in_words(by_path: Sender, admin: KeyClient, clock: Clock, sweep: Sweep) -> None:
    for day in range(20):
        clock.set(f"2026-06-{day + 1:02}T02:00:{day * 7 % 20 + 1:02}Z")
        by_path("ping")
        sweep()
    learned = _read(admin)["learned"]
    assert learned["state"] == "regular"
    assert "02:00" in learned["summary"]
    assert learned["evidence"] == "Learned from 20 runs (all match)"
    assert learned["cron"] == "0 2 * * *"
    assert learned["confidence"] > 0.5


def test_renaming_keeps_the_history(by_path: Sender, admin: KeyClient) -> None:
    by_path("ping")
    by_path("ping")
    answer: Any = admin.patch(JOB, json={"name": "nas/backup"}).json
    assert (answer["name"], answer["run_count"]) == ("nas/backup", 2)
    assert admin.get(JOB).status_code == 404
    runs: Any = admin.get("/api/v1/jobs/nas/backup/runs").json
    assert [run["job"] for run in runs["runs"]] == ["nas/backup", "nas/backup"]


def test_a_name_that_is_taken_is_refused(by_path: Sender, admin: KeyClient) -> None:
    by_path("ping")
    by_path("ping", "other")
    answer = admin.patch(JOB, json={"name": "other"})
    assert answer.status_code == 409


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"name": ""},
        {"name": " padded"},
        {"pin": {}},
        {"pin": {"cron": "61 * * * *"}},
        {"pin": {"cron": "0 2 * * *", "timezone": "Mars/Olympus"}},
        {"pin": {"cron": "0 2 * * *", "interval_seconds": 60}},
        {"pin": {"interval_seconds": 0}},
        {"pin": {"interval_seconds": 60, "grace_seconds": -1}},
        {"pin": {"never": False}},
        {"pin": {"never": True, "grace_seconds": 1}},
        {"paused": "yes"},
        {"paused_until": "2020-01-01T00:00:00Z"},
        {"paused": False, "paused_until": "2027-01-01T00:00:00Z"},
        {"failure_tolerance": 0},
        {"unknown": 1},
    ],
)
def test_what_makes_no_sense_is_refused_and_changes_nothing(
    by_path: Sender, admin: KeyClient, changes: dict[str, Any]
) -> None:
    by_path("ping")
    before = _read(admin)
    answer = admin.patch(JOB, json=changes)
    assert (answer.status_code, (answer.json or {})["error"]) == (422, "invalid_field")
    assert _read(admin) == before


def test_a_job_that_is_not_paused_can_be_resumed(by_path: Sender, admin: KeyClient, sweep: Sweep) -> None:
    by_path("ping")
    sweep()
    before = _read(admin)
    assert admin.patch(JOB, json={"paused": False}).status_code == 200
    assert _read(admin) == before


def test_changing_takes_an_admin_key(by_path: Sender, client: KeyClient) -> None:
    by_path("ping")
    assert client.patch(JOB, json={"paused": True}).status_code == 403


def test_an_unknown_job_is_not_found(admin: KeyClient) -> None:
    assert admin.patch(JOB, json={"paused": True}).status_code == 404


@pytest.mark.parametrize("pin", [None, {"cron": "0 3 * * *"}, {"interval_seconds": 31_000_000}])
def test_a_job_can_be_paused_until_the_end_of_the_calendar(
    by_path: Sender, admin: KeyClient, clock: Clock, sweep: Sweep, pin: dict[str, Any] | None
) -> None:
    for _ in range(6):
        by_path("ping")
        clock.advance(hours=24)
    sweep()
    changes = {"paused_until": "9999-12-31T23:59:59.999Z", "pin": pin}
    assert admin.patch(JOB, json=changes).status_code == 200
    sweep()
    assert _read(admin)["status"] == "paused"
    assert admin.get("/api/v1/jobs").status_code == 200
