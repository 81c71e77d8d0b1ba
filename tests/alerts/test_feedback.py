"""A person says that an overdue job was a false alarm: it is waited for longer in that situation, and only there."""

from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask

from obs.heartbeat.schedule import VERSION
from obs.heartbeat.store import expectations
from obs.services import services
from obs.times import DAY_MS, HOUR_MS, MINUTE_MS, format_ms, parse_iso
from tests.alerts.receiver import Receiver
from tests.alerts.world import World, titles
from tests.conftest import Clock, KeyClient

Deadline = tuple[int, int]  # when a run is expected, and from when it is overdue


class Life:
    """The organization ``acme`` over weeks, with jobs that ping at given times."""

    def __init__(self, app: Flask, admin: KeyClient, clock: Clock) -> None:
        self.app, self.admin, self.clock, self.pings = app, admin, clock, 0

    def sweep(self) -> None:
        services(self.app).background.tasks["sweep"].run()

    def ping(self, *jobs: str) -> None:
        """Ping a few seconds after the time that the clock shows, as cron does; the clock stays."""
        self.pings += 1
        at = format_ms(self.clock() + self.pings * 7 % 5 * 1000)
        for job in jobs or ("backup",):
            assert self.admin.post(f"/api/v1/heartbeat/{job}/ping?time={at}").status_code == 200
        self.sweep()

    def every(self, length_ms: int, times: int, *jobs: str) -> None:
        """Ping at once, and then `times` - 1 times more."""
        for number in range(times):
            if number:
                self.pass_ms(length_ms)
            self.ping(*jobs)

    def pass_ms(self, length_ms: int) -> None:
        self.clock.advance(seconds=length_ms // 1000)
        self.sweep()

    def job(self, name: str = "backup") -> dict[str, Any]:
        return dict(self.admin.get(f"/api/v1/jobs/{name}").json or {})

    def deadline(self, name: str = "backup") -> Deadline:
        job = self.job(name)
        return parse_iso(job["expected_at"]), parse_iso(job["overdue_at"])

    def incidents(self, name: str = "backup") -> list[dict[str, Any]]:
        """The newest first."""
        return list((self.admin.get(f"/api/v1/incidents?job={name}").json or {})["incidents"])

    def judge(self, verdict: str, status: int = 200, incident: int = 0) -> dict[str, Any]:
        """Judge an incident, by default the latest one of the job; returns the response."""
        number = incident or self.incidents()[0]["id"]
        answer = self.admin.post(f"/api/v1/incidents/{number}/feedback", json={"verdict": verdict})
        assert answer.status_code == status, answer.json
        self.sweep()
        return dict(answer.json or {})


@pytest.fixture
def life(app: Flask, new_client: Callable[..., KeyClient], clock: Clock) -> Life:
    clock.set("2026-06-01T02:00:00Z")  # a Monday
    return Life(app, new_client("acme", "admin"), clock)


@pytest.fixture
def silent_on_sunday(life: Life) -> Life:
    """A daily job that did not run on Sunday, 28 June at 02:00; now it is 09:00."""
    life.every(DAY_MS, 27)
    life.pass_ms(DAY_MS + 7 * HOUR_MS)
    assert [one["kind"] for one in life.incidents()] == ["overdue"]
    return life


def test_a_false_alarm_ends_and_the_next_run_is_waited_for(silent_on_sunday: Life) -> None:
    life = silent_on_sunday
    assert life.job()["overdue"] is True
    judged = life.judge("false_alarm")
    assert judged["effect"] == "On Sundays around 02:00 (UTC), obs now waits 1 d longer than learned."
    assert (judged["incident"]["verdict"], judged["incident"]["ended_at"]) == (
        "false_alarm",
        "2026-06-28T09:00:00.000Z",
    )
    assert (life.job()["overdue"], life.job()["status"]) == (False, "ok")
    monday = parse_iso("2026-06-29T02:00:00Z")
    assert abs(life.deadline()[0] - monday) < MINUTE_MS
    life.pass_ms(17 * HOUR_MS + 5 * MINUTE_MS)  # the run of Monday does not come either
    assert [one["ended_at"] is None for one in life.incidents()] == [True, False]


def test_the_next_run_is_waited_for_also_if_the_verdict_is_given_at_once(life: Life) -> None:
    life.every(DAY_MS, 27)
    expected_at, overdue_at = life.deadline()
    life.pass_ms(overdue_at - life.clock() + 2_000)
    judged = life.judge("false_alarm")
    assert judged["effect"] == "On Sundays around 02:00 (UTC), obs now waits 1 d longer than learned."
    assert abs(life.deadline()[0] - expected_at - DAY_MS) < MINUTE_MS
    life.pass_ms(10 * MINUTE_MS)
    assert [one["ended_at"] is None for one in life.incidents()] == [False]


def test_a_run_that_comes_soon_after_such_a_verdict_ends_the_silence(life: Life) -> None:
    life.every(DAY_MS, 27)
    life.pass_ms(life.deadline()[1] - life.clock() + 2_000)
    life.judge("false_alarm")
    life.pass_ms(20_000)
    life.ping()
    life.pass_ms(DAY_MS - 60_000)
    life.every(DAY_MS, 6)  # until the Saturday before the next such Sunday
    slot, overdue_at = life.deadline()
    assert overdue_at - slot > DAY_MS - HOUR_MS


def test_on_the_same_day_of_the_next_weeks_it_is_waited_for_until_the_next_run(silent_on_sunday: Life) -> None:
    life = silent_on_sunday
    learned = life.deadline()[1] - life.deadline()[0]
    life.judge("false_alarm")
    life.pass_ms(17 * HOUR_MS)
    for week in range(2):
        life.every(DAY_MS, 6)  # Monday to Saturday
        slot, overdue_at = life.deadline()
        assert overdue_at - slot >= DAY_MS
        reason = life.job()["learned"]["expected"].partition(" because ")[2]
        assert week or reason == "an incident in this situation was a false alarm"
        life.pass_ms(2 * DAY_MS)  # until Monday, without the run of Sunday
        assert len(life.incidents()) == 1, week
    life.ping()
    slot, overdue_at = life.deadline()  # that of Tuesday is as it was
    assert overdue_at - slot <= 2 * learned
    assert "false alarm" not in life.job()["learned"]["expected"]


def test_a_run_that_came_late_may_be_as_late_again(life: Life) -> None:
    life.every(DAY_MS, 27)
    life.pass_ms(DAY_MS + 40 * MINUTE_MS)
    life.ping()
    judged = life.judge("false_alarm")
    assert judged["effect"] == "On Sundays around 02:00 (UTC), obs now waits 44 min 30 s longer than learned."
    life.pass_ms(DAY_MS - 40 * MINUTE_MS)
    life.every(DAY_MS, 6)
    slot, overdue_at = life.deadline()
    assert abs(overdue_at - slot - 45 * MINUTE_MS) < 10 * MINUTE_MS
    life.pass_ms(DAY_MS + HOUR_MS)
    assert life.job()["overdue"] is True


@pytest.mark.parametrize("is_late", [True, False])
def test_all_other_deadlines_stay_as_they_are(
    app: Flask, new_client: Callable[..., KeyClient], clock: Clock, is_late: bool
) -> None:
    """Two organizations send the same heartbeats. Only one of them says that an incident was a false alarm."""
    clock.set("2026-06-02T02:00:00Z")  # a Tuesday
    lives = [Life(app, new_client(org, "admin"), clock) for org in ("acme", "globex")]
    found: list[dict[tuple[str, int], Deadline]] = [{}, {}]

    def day(*jobs: str, length_ms: int = DAY_MS) -> None:
        clock.advance(seconds=length_ms // 1000)
        for life in lives:
            life.ping(*jobs)

    for _ in range(27):
        day("backup", "other")
    if is_late:
        day("other")
        clock.advance(minutes=40)
        for life in lives:
            life.sweep()
            life.ping("backup")
        lives[0].judge("false_alarm")
        rest = DAY_MS - 40 * MINUTE_MS
    else:
        day("other")
        clock.advance(hours=7)
        lives[0].sweep()
        lives[0].judge("false_alarm")
        rest = 17 * HOUR_MS
    for number in range(15):
        day("backup", "other", length_ms=DAY_MS if number else rest)
        for each, life in zip(found, lives, strict=True):
            each |= {(job, number): life.deadline(job) for job in ("backup", "other")}
    # The incident is of a Tuesday: the deadlines that differ are those of the next two, after the runs of Mondays.
    differ = {key for key in found[0] if found[0][key] != found[1][key]}
    assert differ == {("backup", 5), ("backup", 12)}
    assert all(found[0][key][1] > found[1][key][1] for key in differ)


def test_what_was_said_survives_restarts_and_a_new_version_of_the_learner(
    silent_on_sunday: Life, monkeypatch: pytest.MonkeyPatch, make_app: Callable[..., Flask]
) -> None:
    life = silent_on_sunday
    life.judge("false_alarm")
    life.pass_ms(17 * HOUR_MS)
    life.every(DAY_MS, 6)
    before = life.deadline()
    monkeypatch.setattr(expectations, "VERSION", VERSION + 1)
    life.app = make_app()
    services(life.app).background.sweeper.excuse_downtime()
    life.sweep()
    assert life.deadline() == before


@pytest.mark.parametrize(
    "change", [{"schedule_changed_at": "2026-06-02T00:00:00Z"}, {"pin": {"cron": "0 2 * * *", "grace_seconds": 40}}]
)
def test_it_ends_when_the_schedule_is_changed_by_hand(silent_on_sunday: Life, change: dict[str, Any]) -> None:
    life = silent_on_sunday
    life.judge("false_alarm")
    assert life.admin.patch("/api/v1/jobs/backup", json=change).status_code == 200
    assert life.admin.patch("/api/v1/jobs/backup", json={"pin": None}).status_code == 200
    life.pass_ms(17 * HOUR_MS)
    life.every(DAY_MS, 6)
    slot, overdue_at = life.deadline()
    assert overdue_at - slot < HOUR_MS
    assert life.judge("false_alarm", incident=1)["effect"] is None


def test_it_can_be_said_again_and_taken_back(silent_on_sunday: Life) -> None:
    life = silent_on_sunday
    first = life.judge("false_alarm")
    assert life.judge("false_alarm") == first
    judged = life.judge("right")
    assert (judged["incident"]["verdict"], judged["effect"]) == ("right", None)
    assert life.job()["overdue"] is True  # it is as silent as it was
    assert [one["ended_at"] is None for one in life.incidents()] == [True, False]
    life.pass_ms(1000)
    actions = "SELECT object FROM audit WHERE action = 'judge incident' ORDER BY time LAST 1d"
    rows = (life.admin.post("/api/v1/dsl", json={"query": actions}).json or {})["rows"]
    assert rows == [["backup: false_alarm"], ["backup: right"]]


def test_right_is_only_noted(silent_on_sunday: Life) -> None:
    life = silent_on_sunday
    before, deadline = life.incidents()[0], life.deadline()
    judged = life.judge("right")
    assert judged == {"incident": {**before, "verdict": "right"}, "effect": None}
    assert (life.deadline(), life.job()["overdue"]) == (deadline, True)


def test_a_job_at_intervals_is_waited_for_longer_after_each_run(life: Life) -> None:
    for minutes in (0, 61, 64, 59, 62, 58, 63, 60, 62, 57, 61, 64, 59, 62, 58, 63, 60, 62, 57, 61):
        life.pass_ms(minutes * MINUTE_MS)
        life.ping()
    life.pass_ms(3 * HOUR_MS)
    life.ping()
    judged = life.judge("false_alarm")
    assert judged["effect"].startswith("For this job, obs now waits 1 h ")
    life.pass_ms(HOUR_MS)
    life.ping()
    last = life.clock()
    assert life.deadline()[1] - last > 3 * HOUR_MS
    life.pass_ms(3 * HOUR_MS)
    assert len(life.incidents()) == 1
    life.pass_ms(HOUR_MS)
    assert len(life.incidents()) == 2


def test_a_schedule_that_was_set_by_hand_is_not_extended(life: Life) -> None:
    life.ping()
    assert life.admin.patch("/api/v1/jobs/backup", json={"pin": {"interval_seconds": 3600}}).status_code == 200
    life.pass_ms(2 * HOUR_MS)
    refused = life.judge("false_alarm", 409)
    assert (refused["message"], refused["hint"]) == ("The schedule was set by hand.", "Set a longer grace period.")
    assert life.judge("right")["incident"]["verdict"] == "right"


def test_only_overdue_jobs_can_be_judged(life: Life) -> None:
    assert life.admin.post("/api/v1/heartbeat/backup/end?status=fail").status_code == 200
    life.sweep()
    life.judge("false_alarm", 409)
    assert life.admin.post("/api/v1/incidents/1/feedback", json={"verdict": "maybe"}).status_code == 422


def test_the_message_about_the_end_says_that_it_was_a_false_alarm(world: World, receiver: Receiver) -> None:
    world.add_channel(receiver)
    for _ in range(20):
        world.end("backup", "success")
        world.pass_time(hours=1)
    world.pass_time(hours=8)
    world.pass_time(seconds=10)
    (incident,) = (world.client.get("/api/v1/incidents").json or {})["incidents"]
    answer = world.client.post(f"/api/v1/incidents/{incident['id']}/feedback", json={"verdict": "false_alarm"})
    assert answer.status_code == 200
    world.pass_time(minutes=10)
    assert titles(receiver)[1].startswith("backup was overdue from ")
    assert titles(receiver)[1].endswith(" (a false alarm)")


def test_the_longer_wait_does_not_end_during_maintenance(silent_on_sunday: Life) -> None:
    life = silent_on_sunday
    life.ping()
    life.judge("false_alarm")
    life.clock.set("2026-06-29T02:00:00Z")
    life.every(DAY_MS, 6)
    life.clock.set("2026-07-05T02:00:30Z")
    window = {"start_time": "2026-07-05T09:00:00Z", "end_time": "2026-07-05T12:00:00Z"}
    assert life.admin.post("/api/v1/maintenance", json=window).status_code == 201
    life.clock.set("2026-07-05T10:30:00Z")
    life.sweep()
    assert life.job()["overdue"] is False
    assert life.deadline()[1] > parse_iso("2026-07-05T12:00:00Z")


def test_an_older_incident_that_was_a_false_alarm_ends_a_newer_one_in_the_same_situation(
    silent_on_sunday: Life,
) -> None:
    life = silent_on_sunday
    life.ping()
    older = life.incidents()[0]["id"]
    life.clock.set("2026-06-29T02:00:00Z")
    life.every(DAY_MS, 6)
    life.clock.set("2026-07-05T03:00:00Z")
    life.sweep()
    assert life.incidents()[0]["ended_at"] is None
    life.judge("false_alarm", incident=older)
    assert (life.job()["overdue"], life.incidents()[0]["ended_at"] is None) == (False, False)


def test_a_false_alarm_of_a_clock_that_was_ahead_does_not_silence_the_job(
    make_app: Callable[..., Flask], new_client: Callable[..., KeyClient], clock: Clock
) -> None:
    clock.set("2026-06-01T02:00:00Z")
    ahead_ms = 0
    steady: dict[str, Any] = {name: lambda: clock() / 1000 for name in ("MONOTONIC", "BOOT_CLOCK")}
    app = make_app(CLOCK=lambda: clock() + ahead_ms, **steady)
    services(app).background.sweeper.excuse_downtime()
    life = Life(app, new_client("acme", "admin", app=app), clock)
    life.every(DAY_MS, 26)
    life.pass_ms(7 * HOUR_MS)
    ahead_ms = 30 * DAY_MS
    life.pass_ms(DAY_MS)
    life.pass_ms(DAY_MS)
    life.judge("false_alarm")
    ahead_ms = 0
    life.pass_ms(10 * MINUTE_MS)
    life.clock.set("2026-06-29T02:00:00Z")
    life.ping()
    assert life.deadline()[1] < parse_iso("2026-06-30T04:00:00Z")
