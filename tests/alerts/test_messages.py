"""What a message says, in its title and its text: which incidents belong to it, and nothing that is not true."""

import re
from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any

import pytest

from obs.services import services
from obs.times import DAY_MS, MINUTE_MS, format_ms
from tests.alerts.receiver import Receiver
from tests.alerts.world import BY_HOST, World, create_alert, evaluate, fail, titles

LONG_NAME = "a-job-with-a-name-that-fills-the-whole-title-of-a-message-and-goes-on-for-a-while-after-that"


def test_a_recovery_before_the_alert_was_sent_is_one_message(world: World, receiver: Receiver) -> None:
    world.add_channel(receiver)
    receiver.answers = [500]
    world.end("photos", "fail")
    world.pass_time(seconds=1)
    world.pass_time(seconds=10)
    world.end("photos", "ok")
    world.pass_time(seconds=1)
    world.pass_time(seconds=30)
    world.pass_time(minutes=10)
    failed, recovered = titles(receiver)
    assert failed.startswith("photos failed at")
    assert recovered.startswith("photos was failing from")
    assert len(world.deliveries()) == 1


def test_a_recovery_while_the_alert_is_on_its_way_is_reported(world: World, receiver: Receiver) -> None:
    world.add_channel(receiver)
    world.end("photos", "fail")
    world.pass_time(seconds=1)
    world.clock.advance(seconds=10)
    services(world.app).background.notifier.run()  # handed over, but not recorded
    world.end("photos", "ok")
    world.pass_time(seconds=1)
    world.pass_time(minutes=6)
    assert titles(receiver)[1:] == ["photos is OK again, after 11 s"]


def test_what_is_over_before_it_was_reported_is_a_recovery(world: World, receiver: Receiver) -> None:
    world.add_channel(receiver)
    for job in ("photos", "mail"):
        world.end(job, "fail")
    world.pass_time(seconds=1)
    for job in ("photos", "mail"):
        world.end(job, "ok")
    world.pass_time(seconds=10)
    (message,) = receiver.messages()
    assert (message["event"], message["title"]) == ("recovered", "2 ended: photos, mail")


def test_a_job_that_was_overdue_and_then_fails_is_a_message_about_the_failure(world: World, receiver: Receiver) -> None:
    for _ in range(10):
        world.pass_time(hours=1)
        world.end("photos", "ok")
    world.pass_time(minutes=1)
    world.add_channel(receiver)
    world.pass_time(hours=16)
    world.pass_time(seconds=11)
    assert titles(receiver)[0].startswith("photos has been overdue since")
    world.pass_time(minutes=6)
    world.client.post("/api/v1/heartbeat/photos/end?exit_code=3", data="disk full")
    world.pass_time(seconds=1)
    world.pass_time(seconds=11)
    message = receiver.messages()[1]
    assert message["title"].startswith("photos failed at")
    assert message["title"].endswith("(exit code 3)")
    assert "disk full" in message["text"]
    assert "photos was overdue from 11:00 to 12:07" in message["text"]
    assert "OK again" not in message["text"]


def test_a_job_that_fails_still_is_not_ok_again_when_it_is_no_longer_overdue(
    world: World, receiver: Receiver, other_receiver: Receiver
) -> None:
    for _ in range(30):
        world.pass_time(hours=1)
        world.end("photos", "ok")
    world.add_channel(receiver)
    world.add_channel(other_receiver, "silences", events=["overdue"])
    world.pass_time(hours=1)
    world.end("photos", "fail")
    for _ in range(10):
        world.pass_time(minutes=10)
    world.end("photos", "fail")
    for _ in range(2):
        world.pass_time(minutes=6)
    for messages in (titles(receiver), titles(other_receiver)):
        assert messages[-2].startswith("photos has been overdue since ")
        assert messages[-1].startswith("photos was overdue from ")


def test_a_job_that_was_paused_is_not_reported_as_ok(world: World, receiver: Receiver) -> None:
    world.add_channel(receiver)
    world.end("photos", "fail")
    world.pass_time(seconds=1)
    world.pass_time(seconds=10)
    assert world.client.patch("/api/v1/jobs/photos", json={"paused": True}).status_code == 200
    world.pass_time(seconds=1)
    world.pass_time(minutes=5)
    assert [title.partition(" from ")[0] for title in titles(receiver)[1:]] == ["photos was failing"]


@pytest.mark.parametrize("change", [{"paused": True}, {"failure_tolerance": 5}])
def test_a_failing_job_is_not_ok_because_of_a_success_before_its_last_failure(
    world: World, receiver: Receiver, change: dict[str, Any]
) -> None:
    """A success that a client has kept, and sends late."""
    world.add_channel(receiver)
    world.end("photos", "fail")
    world.pass_time(minutes=2)
    kept = {"name": "photos", "status": "ok", "run_id": "kept", "time": format_ms(world.clock())}
    world.pass_time(minutes=4)
    world.end("photos", "fail")
    world.pass_time(minutes=6)
    assert world.client.post("/api/v1/heartbeat/end", json=kept).status_code == 200
    world.pass_time(seconds=30)
    assert world.client.patch("/api/v1/jobs/photos", json=change).status_code == 200
    world.pass_time(seconds=1)
    world.pass_time(minutes=6)
    found = world.client.get("/api/v1/incidents").json["incidents"]
    (failing,) = (one for one in found if one["kind"] == "failing")
    assert failing["ended_at"] == format_ms(world.clock() - 6 * MINUTE_MS)
    assert not any("OK again" in title for title in titles(receiver))


@pytest.mark.parametrize("change", [{"paused": True}, {"failure_tolerance": 5}])
def test_a_failing_job_is_not_ok_because_of_a_later_failure(
    world: World, receiver: Receiver, change: dict[str, Any]
) -> None:
    world.add_channel(receiver)
    for _ in range(2):
        world.end("photos", "fail")
        world.pass_time(minutes=20)
    assert world.client.patch("/api/v1/jobs/photos", json=change).status_code == 200
    changed_at = format_ms(world.clock())
    world.pass_time(seconds=0)
    world.pass_time(minutes=6)
    assert [title.partition(" from ")[0] for title in titles(receiver)[1:]] == ["photos was failing"]
    (incident,) = (world.client.get("/api/v1/incidents").json or {})["incidents"]
    assert incident["ended_at"] == changed_at


def test_a_run_that_goes_on_is_not_ok_because_of_a_log_message(world: World, receiver: Receiver) -> None:
    world.add_channel(receiver)
    for _ in range(10):
        world.clock.advance(minutes=50)
        assert world.client.post("/api/v1/heartbeat/photos/start").status_code == 200
        world.clock.advance(minutes=10)
        world.end("photos", "ok")
        world.sweep()
    world.clock.advance(minutes=50)
    assert world.client.post("/api/v1/heartbeat/photos/start").status_code == 200
    for _ in range(6):
        world.pass_time(minutes=10)
        assert world.client.post("/api/v1/heartbeat/photos/log", data="still at it").status_code == 200
    assert world.client.patch("/api/v1/jobs/photos", json={"paused": True}).status_code == 200
    world.pass_time(seconds=1)
    world.pass_time(minutes=6)
    assert [title.partition(" from ")[0].partition(" since ")[0] for title in titles(receiver)] == [
        "photos has been overrunning",
        "photos was overrunning",
    ]


def test_a_job_that_starts_again_and_again_without_an_end_is_not_said_to_be_silent(
    world: World, receiver: Receiver
) -> None:
    world.add_channel(receiver, reminder_hours=1)
    for _ in range(6):
        assert world.client.post("/api/v1/heartbeat/photos/start").status_code == 200
        world.pass_time(minutes=30)
    assert [title.partition(" at ")[0] for title in titles(receiver)] == [
        "photos lost a run",
        "photos has not ended a run since it lost one",
    ]


def _of_failures(world: World, receiver: Receiver, jobs: Sequence[str]) -> dict[str, Any]:
    """The only message about jobs that fail at the same time."""
    world.add_channel(receiver)
    for job in jobs:
        world.end(job, "fail")
    world.pass_time(seconds=1)
    world.pass_time(seconds=10)
    (message,) = receiver.messages()
    return message


def test_a_title_names_as_many_jobs_as_have_room_and_the_text_names_the_time_zone(
    world: World, receiver: Receiver
) -> None:
    message = _of_failures(world, receiver, [f"nas01/photos-{number:02}" for number in range(20)])
    names = ", ".join(f"nas01/photos-{number:02}" for number in range(4))
    assert message["title"] == f"20 failed: {names}, …"
    assert re.search(r"\n\nTime zone: \S+\.\n\nhttp", message["text"])


def test_incidents_that_begin_together_are_one_message_and_later_ones_the_next(
    world: World, receiver: Receiver
) -> None:
    message = _of_failures(world, receiver, [f"job-{number}" for number in range(30)])
    assert message["title"].startswith("30 failed: job-0, job-1")
    assert len(message["title"]) <= 80
    assert len(message["incidents"]) == 30
    assert "and 10 more" in message["text"]
    for number in range(30, 33):
        world.end(f"job-{number}", "fail")
        world.pass_time(minutes=1)
    assert len(receiver.requests) == 1
    world.pass_time(minutes=2)
    assert titles(receiver)[1:] == ["3 failed: job-30, job-31, job-32"]


def test_messages_about_new_incidents_are_five_minutes_apart(world: World, receiver: Receiver) -> None:
    world.add_channel(receiver)
    sent_at = list[int]()
    for second in range(0, 1500, 10):
        if second % 60 == 0:
            world.end(f"job-{second}", "fail")
        world.pass_time(seconds=10)
        sent_at += [second] * (len(receiver.requests) - len(sent_at))
    assert [later - earlier for earlier, later in pairwise(sent_at)] == [300] * 4


def test_a_message_about_an_end_delays_no_new_incident(world: World, receiver: Receiver) -> None:
    world.add_channel(receiver)
    for job, status in (("photos", "fail"), ("photos", "ok"), ("mail", "fail")):
        world.pass_time(minutes=10 if status == "ok" else 0)
        world.end(job, status)
        world.pass_time(seconds=1)
        world.pass_time(seconds=10)
    assert titles(receiver)[1:] == ["photos is OK again, after 10 min 11 s", "mail failed at 10:10"]


def _go_silent(world: World, hosts: Sequence[str]) -> int:
    """Three jobs on each host run hourly for half a day, then stop; the time of their last heartbeats."""
    for _ in range(12):
        for host in hosts:
            for job in ("photos", "mail", "db"):
                headers = {"X-Platform-Host": host}
                answer = world.client.post(f"/api/v1/heartbeat/{host}/{job}/ping", headers=headers)
                assert answer.status_code == 200
        last = world.clock()
        world.pass_time(hours=1)
    return last


def test_a_host_whose_jobs_are_all_silent_is_one_message_about_the_host(world: World, receiver: Receiver) -> None:
    world.add_channel(receiver)
    last = _go_silent(world, ["nas01"])
    world.pass_time(hours=16)
    world.pass_time(seconds=10)
    (message,) = receiver.messages()
    assert message["title"].startswith("3 jobs on host nas01 have been silent since ")
    assert message["title"].endswith(f"{datetime.fromtimestamp(last / 1000):%b %H:%M}")  # noqa: DTZ006 - the zone here
    assert f"{message['title']} (last heartbeat from the host).\n\n\N{BULLET} nas01/" in message["text"]


def test_silent_hosts_are_named_among_other_incidents(world: World, receiver: Receiver) -> None:
    world.add_channel(receiver)
    _go_silent(world, ["nas01", "nas02"])
    world.pass_time(hours=16)
    world.end("shop", "fail")
    world.pass_time(seconds=1)
    world.pass_time(seconds=10)
    (message,) = receiver.messages()
    assert message["title"].startswith("1 failed, 6 overdue: shop, ")
    for host in ("nas01", "nas02"):
        assert f"3 jobs on host {host} have been silent since " in message["text"]
    assert message["text"].count("has been overdue since") == 6


def test_the_title_counts_alerts_that_are_firing(world: World, receiver: Receiver) -> None:
    world.add_channel(receiver)
    create_alert(world, query=BY_HOST, threshold=0)
    for host in ("nas01", "nas02"):
        fail(world, host=host)
    evaluate(world, seconds=1)
    world.pass_time(seconds=10)
    (title,) = titles(receiver)
    assert title == "1 failed, 2 firing: backup, failures: nas01, failures: nas02"


def test_the_title_of_a_job_with_a_long_name_says_what_happened(world: World, receiver: Receiver) -> None:
    world.add_channel(receiver)
    world.end(LONG_NAME, "fail&exit_code=3")
    world.pass_time(seconds=1)
    world.pass_time(seconds=10)
    (title,) = titles(receiver)
    assert len(title) == 80
    assert title.startswith("a-job-with-a-name")
    assert title.endswith(" (exit code 3)")
    assert " failed at " in title


def test_a_title_within_the_text_is_escaped(world: World, receiver: Receiver) -> None:
    port = receiver.url.split(":")[2].split("/")[0]
    url = f"rocket://{'a' * 24}/{'b' * 24}@127.0.0.1:{port}/room"
    answer = world.client.post("/api/v1/channels", json={"name": "chat", "url": url})
    assert answer.status_code == 201, answer.json
    world.end("*db*", "fail")
    world.pass_time(seconds=1)
    world.pass_time(seconds=10)
    (message,) = receiver.messages()
    assert message["text"].startswith("\\*db\\* failed at ")


def test_a_message_shows_the_log_of_the_run_that_failed(world: World, receiver: Receiver) -> None:
    world.add_channel(receiver)
    for status, log in (("fail&exit_code=3", "no space left"), ("ok&exit_code=0", "all fine")):
        assert world.client.post(f"/api/v1/heartbeat/photos/end?status={status}", data=log).status_code == 200
        world.pass_time(seconds=1)
    world.pass_time(seconds=10)
    (message,) = receiver.messages()
    assert message["title"].startswith("photos was failing from ")
    assert message["title"].endswith(" (exit code 3)")
    assert message["incidents"][0]["log"] == ["no space left"]


def test_a_message_shows_the_log_without_its_colours(world: World, receiver: Receiver) -> None:
    world.add_channel(receiver)
    log = "\x1b[1;31mno \x1b[38:5:196mspace\x1b[0m left"
    assert world.client.post("/api/v1/heartbeat/photos/end?status=fail", data=log).status_code == 200
    world.pass_time(seconds=1)
    world.pass_time(seconds=10)
    (message,) = receiver.messages()
    assert "\n    no space left\n" in message["text"]


@pytest.mark.parametrize(("hours", "is_named"), [(20, True), (300, False)])
def test_a_message_names_what_began_just_before_but_no_band_that_began_earlier(
    world: World, receiver: Receiver, hours: int, is_named: bool
) -> None:
    world.add_channel(receiver)
    start, end = (format_ms(world.clock() + days * DAY_MS) for days in (0, 25))
    band = {"name": "freeze", "title": "No deploys", "start_time": start, "end_time": end}
    assert world.client.post("/api/v1/annotations", json=band).status_code == 201
    world.clock.advance(hours=hours)
    world.end("photos", "fail")
    world.pass_time(seconds=1)
    world.pass_time(seconds=10)
    (message,) = receiver.messages()
    assert ("Last annotation: freeze (No deploys)" in message["text"]) == is_named


@pytest.mark.parametrize(
    ("pin", "words"),
    [
        ({"interval_seconds": 600, "grace_seconds": 60}, "every 10 min, 1 min grace period"),
        ({"cron": "*/10 * * * *", "timezone": "Europe/Berlin"}, "*/10 * * * *, Europe/Berlin, 1 min grace period"),
    ],
)
def test_a_message_about_a_job_with_a_pin_does_not_claim_what_was_learned(
    world: World, receiver: Receiver, pin: dict[str, Any], words: str
) -> None:
    world.add_channel(receiver)
    for _ in range(8):
        world.clock.advance(hours=1)
        assert world.client.post("/api/v1/heartbeat/photos/ping").status_code == 200
        world.sweep()
    assert world.client.patch("/api/v1/jobs/photos", json={"pin": pin}).status_code == 200
    world.pass_time(minutes=12)
    world.pass_time(seconds=10)
    (message,) = receiver.messages()
    assert message["title"].startswith("photos has been overdue since ")
    assert message["text"].startswith(f"Set manually: {words}\n")


def test_a_message_about_a_job_that_is_never_overdue_says_so(world: World, receiver: Receiver) -> None:
    world.add_channel(receiver)
    world.end("photos", "ok")
    assert world.client.patch("/api/v1/jobs/photos", json={"pin": {"never": True}}).status_code == 200
    world.end("photos", "fail")
    world.pass_time(seconds=1)
    world.pass_time(seconds=10)
    (message,) = receiver.messages()
    assert message["text"].startswith("Set manually: never overdue\n")
