"""Several hosts that report one job: those that keep a schedule each are learned separately, others together."""

import random
from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask

from obs.heartbeat import hosts, overdue
from obs.heartbeat.schedule import VERSION, Fit
from obs.services import services
from obs.times import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, format_ms, parse_iso
from tests.conftest import ACME, Clock, KeyClient
from tests.heartbeat.host_stories import MONDAY, STORIES, Beats, Watched, delay, live

NAMES = ("nas01", "nas02")
START = MONDAY + 2 * HOUR_MS


@pytest.fixture
def watched(app: Flask, new_client: Callable[..., KeyClient], clock: Clock) -> Watched:
    clock.now_ms = MONDAY - DAY_MS
    return Watched(app, new_client("acme", "admin"), clock)


def daily(days: range, *names: str) -> Beats:
    """Heartbeats at 02:00 and a few seconds, of each of these hosts."""
    times = [
        (START + day * DAY_MS + (7 * at + day % 3) * SECOND_MS, name) for day in days for at, name in enumerate(names)
    ]
    return sorted(times)


@pytest.fixture
def silent(watched: Watched) -> Watched:
    """Two hosts reported daily for 20 days. Since yesterday, nas02 has not; nas01 has."""
    watched.send(daily(range(20), *NAMES))
    watched.send(daily(range(20, 21), "nas01"))
    watched.until(START + 20 * DAY_MS + HOUR_MS)
    return watched


def open_ones(watched: Watched) -> list[str]:
    return [one["subject"] for one in watched.incidents() if one["ended_at"] is None]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["2 hosts, daily, same time", "3 hosts, daily, other times", "2 hosts, weekly", "2 hosts, hourly and daily"]
)
def test_the_death_of_a_host_is_reported_as_soon_as_that_of_a_job_of_its_own(watched: Watched, name: str) -> None:
    story = STORIES[name][0](random.Random(1))
    false_alarms, right = live(watched, story)
    assert false_alarms <= STORIES[name][1]
    watched.clock.now_ms = MONDAY - DAY_MS
    alone = [time for time, host in story.beats if host == story.dead]
    expected = alone[-1] + (alone[-1] - alone[-2])
    assert delay(right, story) * SECOND_MS + story.died_at < expected + 15 * MINUTE_MS


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        *("containers, daily", "moved, daily", "moved alone, daily", "taken away, daily"),
        *("failover 50 %, daily", "5 nodes, daily", "pair that takes over, daily", "laptop too, daily"),
    ],
)
def test_hosts_that_change_cause_at_most_the_accepted_number_of_false_alarms(watched: Watched, name: str) -> None:
    false_alarms, _ = live(watched, STORIES[name][0](random.Random(2)))
    assert false_alarms <= STORIES[name][1]


def test_the_incident_names_the_host_and_the_job_shows_each(silent: Watched) -> None:
    assert open_ones(silent) == ["backup on nas02"]
    job = silent.job()
    assert (job["status"], job["overdue"]) == ("overdue", True)
    known = {one["host"]: one for one in job["hosts"]}
    assert {one["learned"]["summary"] for one in known.values()} == {"Every day at 02:00, UTC"}
    assert job["overdue_at"] == known["nas02"]["overdue_at"] == silent.incidents()[-1]["started_at"]
    assert known["nas02"]["last_heartbeat_at"] == format_ms(START + 19 * DAY_MS + 8 * SECOND_MS)
    assert parse_iso(known["nas01"]["expected_at"]) - (START + 21 * DAY_MS) < 10 * SECOND_MS
    rows = silent.client.post(
        "/api/v1/dsl", json={"query": "SELECT host FROM incidents WHERE ended_at IS NULL LAST 1d"}
    )
    assert rows.json["rows"] == [["nas02"]]


def test_a_second_host_that_dies_has_an_incident_of_its_own(silent: Watched) -> None:
    silent.until(START + 21 * DAY_MS + HOUR_MS)
    assert sorted(open_ones(silent)) == ["backup on nas01", "backup on nas02"]
    silent.send([(START + 21 * DAY_MS + 2 * HOUR_MS, "nas02")])
    assert open_ones(silent) == ["backup on nas01"]
    silent.send([(START + 21 * DAY_MS + 3 * HOUR_MS, "nas01")])
    assert open_ones(silent) == []


def test_the_incident_of_a_host_stays_open_while_another_one_reports(silent: Watched) -> None:
    silent.send(daily(range(21, 60), "nas01"))
    assert open_ones(silent) == ["backup on nas02"]
    assert len([one for one in silent.incidents() if one["subject"] == "backup on nas02"]) == 1
    assert silent.job()["status"] == "overdue"


def test_a_host_whose_incident_is_a_false_alarm_is_not_waited_for_until_it_reports_regularly_again(
    silent: Watched,
) -> None:
    number = silent.incidents()[-1]["id"]
    answer = silent.client.post(f"/api/v1/incidents/{number}/feedback", json={"verdict": "false_alarm"})
    assert answer.status_code == 200
    silent.sweep()
    silent.send(daily(range(21, 40), "nas01"))
    assert open_ones(silent) == []
    assert silent.job()["status"] == "ok"
    silent.until(START + 40 * DAY_MS + HOUR_MS)
    assert open_ones(silent) == ["backup on nas01"]


def test_false_alarms_end_the_incidents_of_hosts_that_fell_silent_together(watched: Watched) -> None:
    watched.send(daily(range(20), *NAMES))
    watched.until(START + 20 * DAY_MS + HOUR_MS)
    assert sorted(open_ones(watched)) == ["backup on nas01", "backup on nas02"]
    for one in [one for one in watched.incidents() if one["ended_at"] is None]:
        judged = watched.client.post(f"/api/v1/incidents/{one['id']}/feedback", json={"verdict": "false_alarm"})
        assert judged.status_code == 200
        for _ in range(3):
            watched.sweep()
        assert one["subject"] not in open_ones(watched)


def test_a_changed_schedule_ends_the_wait_for_all_hosts(silent: Watched) -> None:
    assert (
        silent.client.patch("/api/v1/jobs/backup", json={"schedule_changed_at": format_ms(silent.clock())}).status_code
        == 200
    )
    silent.sweep()
    silent.send(daily(range(21, 30), "nas01"))
    assert open_ones(silent) == []
    silent.until(START + 30 * DAY_MS + HOUR_MS)
    assert [one.startswith("backup") for one in open_ones(silent)] == [True]


def test_a_pin_applies_to_the_job(silent: Watched) -> None:
    pin = {"cron": "0 2 * * *", "grace_seconds": 600}
    assert silent.client.patch("/api/v1/jobs/backup", json={"pin": pin}).status_code == 200
    silent.sweep()
    assert open_ones(silent) == []
    assert silent.job()["hosts"] == []


def test_a_restart_a_new_learner_and_the_purge_keep_the_hosts(
    silent: Watched, make_app: Callable[..., Flask], new_client: Callable[..., KeyClient]
) -> None:
    def outdate(db: Any) -> None:
        db.execute("DELETE FROM runs WHERE started_at < ?", (START + 19 * DAY_MS,))
        db.execute("UPDATE host_schedules SET version = ?", (VERSION - 1,))
        db.execute("UPDATE fits SET version = ?", (VERSION - 1,))

    services(silent.app).tenancy.databases.write(ACME, outdate)
    again = make_app()
    later = Watched(again, new_client("acme", "admin", app=again), silent.clock)
    later.send(daily(range(21, 24), "nas01"))
    assert open_ones(later) == ["backup on nas02"]
    assert [one["host"] for one in later.job()["hosts"]] == [*NAMES]


def test_hosts_are_not_overdue_because_the_service_was_down(
    watched: Watched, make_app: Callable[..., Flask], new_client: Callable[..., KeyClient]
) -> None:
    watched.send(daily(range(20), *NAMES))
    watched.clock.now_ms = START + 20 * DAY_MS + 5 * HOUR_MS
    again = make_app()
    later = Watched(again, new_client("acme", "admin", app=again), watched.clock)
    services(again).background.sweeper.excuse_downtime()
    later.sweep()
    assert open_ones(later) == []
    later.until(START + 21 * DAY_MS + 6 * HOUR_MS)
    assert sorted(open_ones(later)) == ["backup on nas01", "backup on nas02"]


def test_hosts_are_not_overdue_during_maintenance(watched: Watched) -> None:
    watched.send(daily(range(20), *NAMES))
    due = START + 20 * DAY_MS
    window = {"start_time": format_ms(due - HOUR_MS), "end_time": format_ms(due + HOUR_MS)}
    assert watched.client.post("/api/v1/maintenance", json=window).status_code == 201
    watched.until(due + 4 * HOUR_MS)
    assert open_ones(watched) == []


def test_maintenance_of_other_jobs_leaves_the_hosts_as_they_are(silent: Watched) -> None:
    known, due = silent.job()["hosts"], START + 20 * DAY_MS
    window = {"start_time": format_ms(due - HOUR_MS), "end_time": format_ms(due + 3 * HOUR_MS), "job_prefix": "other"}
    assert silent.client.post("/api/v1/maintenance", json=window).status_code == 201
    assert silent.job()["hosts"] == known


def test_hosts_are_waited_for_when_all_runs_of_the_job_were_purged(silent: Watched) -> None:
    silent.until(START + 400 * DAY_MS)
    services(silent.app).background.tasks["purge"].run()
    assert silent.client.get("/api/v1/jobs/backup/runs").json["runs"] == []
    pause = {"paused_until": format_ms(silent.clock() + HOUR_MS)}
    assert silent.client.patch("/api/v1/jobs/backup", json=pause).status_code == 200
    silent.sweep()
    assert open_ones(silent) == []
    silent.until(silent.clock() + 2 * DAY_MS)
    assert sorted(open_ones(silent)) == [f"backup on {name}" for name in NAMES]


def never(*_: Any) -> Fit:
    raise AssertionError("No host needs to be learned.")


def test_many_hosts_with_few_runs_take_no_time_to_learn() -> None:
    runs = [(START + hour * HOUR_MS + at * SECOND_MS, f"node{at}") for hour in range(3) for at in range(80)]
    assert hosts.streams(runs, [], never, runs[-1][0]) == []


def test_regular_hosts_take_no_time_to_learn_while_too_many_runs_are_of_others() -> None:
    regular = [(START + hour * HOUR_MS + at * SECOND_MS, f"node{at}") for hour in range(40) for at in range(3)]
    others = [(START + hour * HOUR_MS + 20 * MINUTE_MS, f"container{hour}") for hour in range(40)]
    assert hosts.streams(regular + others, [], never, others[-1][0]) == []


def test_no_more_hosts_are_learned_when_as_many_are_known_as_are_told_apart() -> None:
    names = [f"node{at:02}" for at in range(20)]
    runs = [(START + day * DAY_MS + at * MINUTE_MS, name) for day in range(12) for at, name in enumerate(names)]
    learned: list[Any] = []

    def learn(times: Any, fit: Any) -> Fit:
        learned.append(times)
        return overdue.expect(times, (), ["UTC"], None, fit).fit

    known = hosts.streams(runs, [], learn, runs[-1][0])
    assert [one.host for one in known] == names[:16]
    learned.clear()
    assert hosts.streams(runs, known, learn, runs[-1][0]) == known
    assert learned == [one.memory.times for one in known]
