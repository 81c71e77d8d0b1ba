"""From an incident to a message at its receiver, through the courier process."""

import hashlib
import hmac
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import wait
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from obs.alerts.courier import Courier
from obs.services import services
from obs.times import DAY_MS
from tests.alerts.receiver import Receiver
from tests.alerts.world import ATTEMPT_SECONDS, SECRET, World, titles
from tests.conftest import Clock, KeyClient, children


def test_a_failure_and_its_recovery_are_two_signed_messages(world: World, receiver: Receiver) -> None:
    world.add_channel(receiver)
    world.end("photos", "fail&exit_code=3")
    world.pass_time(seconds=1)
    assert receiver.requests == [], "incidents of the next 10 seconds belong to the same message"
    world.pass_time(seconds=10)
    ((headers, body),) = receiver.requests
    seconds, signature = (part.partition("=")[2] for part in headers["X-Obs-Signature"].split(","))
    assert signature == hmac.new(SECRET.encode(), f"{seconds}.".encode() + body, hashlib.sha256).hexdigest()
    (message,) = receiver.messages()
    assert message["version"] == 1
    assert message["event"] == "failed"
    assert message["title"].startswith("photos failed at ")
    assert message["title"].endswith(" (exit code 3)")
    (incident,) = message["incidents"]
    assert (incident["job"], incident["kind"], incident["ended_at"]) == ("photos", "failed", None)
    (delivery,) = world.deliveries()
    assert (delivery["state"], delivery["attempts"], delivery["answer"]) == ("sent", 1, "200 thanks")
    assert message["delivery"] == headers["Idempotency-Key"]

    world.end("photos", "ok")
    world.pass_time(seconds=1)
    world.pass_time(minutes=5)
    assert titles(receiver)[1:] == ["photos is OK again, after 11 s"]
    assert [one["state"] for one in world.deliveries()] == ["sent", "sent"]


def test_a_failed_attempt_is_repeated_with_the_same_key(world: World, receiver: Receiver) -> None:
    world.add_channel(receiver)
    receiver.answers = [500, 503]
    world.end("photos", "fail")
    world.pass_time(seconds=1)
    world.pass_time(seconds=10)
    (delivery,) = world.deliveries()
    assert (delivery["state"], delivery["attempts"], delivery["answer"]) == ("pending", 1, "500 thanks")
    world.pass_time(seconds=29)
    assert len(receiver.requests) == 1, "the first retry comes after 30 s"
    world.pass_time(seconds=1)
    assert len(receiver.requests) == 2
    world.pass_time(seconds=59)
    assert len(receiver.requests) == 2, "the second one comes a minute later"
    world.pass_time(seconds=1)
    assert len(receiver.requests) == 3
    assert len({headers["Idempotency-Key"] for headers, _ in receiver.requests}) == 1
    assert [one["state"] for one in world.deliveries()] == ["sent"]


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


def test_a_job_that_was_overdue_and_then_fails_is_a_message_about_the_failure(world: World, receiver: Receiver) -> None:
    for _ in range(10):
        world.pass_time(hours=1)
        world.end("photos", "ok")
    world.pass_time(minutes=1)
    world.add_channel(receiver)
    world.pass_time(hours=16)
    world.pass_time(seconds=11)
    assert titles(receiver)[0].startswith("photos is overdue since")
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
        assert [title.split(" ")[2] for title in messages[-2:]] == ["overdue", "overdue"]
        assert messages[-1].startswith("photos was overdue from ")


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


def test_a_host_whose_jobs_are_all_silent_is_one_message_about_the_host(world: World, receiver: Receiver) -> None:
    world.add_channel(receiver)
    for _ in range(12):
        for job in ("photos", "mail", "db"):
            answer = world.client.post(f"/api/v1/heartbeat/{job}/ping", headers={"X-Platform-Host": "nas01"})
            assert answer.status_code == 200
        last = world.clock()
        world.pass_time(hours=1)
    world.pass_time(hours=16)
    world.pass_time(seconds=10)
    (message,) = receiver.messages()
    assert message["title"].startswith("3 jobs on host nas01 have been silent since ")
    assert message["title"].endswith(f"{datetime.fromtimestamp(last / 1000):%b %H:%M}")  # noqa: DTZ006 - the zone here
    assert "last heartbeat from the host; overdue since" in message["text"]


def test_a_channel_gets_only_what_its_filter_lets_through(world: World, receiver: Receiver) -> None:
    world.add_channel(receiver, host="nas01", job_prefix="backup/", recoveries=False)
    for job, host in (("backup/photos", "nas01"), ("backup/mail", "nas02"), ("sync", "nas01")):
        world.end(job, "fail", host)
    world.pass_time(seconds=1)
    world.pass_time(seconds=10)
    world.end("backup/photos", "ok", "nas01")
    world.pass_time(minutes=1)
    world.pass_time(minutes=10)
    assert [one["job"] for message in receiver.messages() for one in message["incidents"]] == ["backup/photos"]


def test_a_hanging_receiver_does_not_delay_another_channel(
    world: World, receiver: Receiver, other_receiver: Receiver
) -> None:

    world.add_channel(receiver, "hangs")
    world.add_channel(other_receiver, "works")
    receiver.hang = threading.Event()
    world.end("photos", "fail")
    world.sweep()
    world.clock.advance(seconds=11)
    end = time.monotonic() + ATTEMPT_SECONDS
    while not other_receiver.requests:
        services(world.app).background.notifier.run()
        assert time.monotonic() < end
    assert receiver.requests == []
    receiver.hang.set()


def test_messages_of_quiet_hours_come_together_when_they_end(world: World, receiver: Receiver) -> None:
    world.clock.set("2026-06-21T22:30:00Z")
    quiet = {"from": "22:00", "until": "07:00", "timezone": "UTC"}
    world.add_channel(receiver, quiet_hours=quiet, always_loud=["lost"])
    for job in ("photos", "mail"):
        world.end(job, "fail")
        world.pass_time(hours=1)
    world.end("mail", "ok")
    world.pass_time(hours=1)
    assert receiver.requests == []
    world.clock.set("2026-06-22T07:00:00Z")
    world.pass_time(seconds=0)
    (message,) = receiver.messages()
    assert {(one["job"], one["ended_at"] is None) for one in message["incidents"]} == {
        ("photos", True),
        ("mail", False),
    }


def test_what_lasts_is_reported_again(world: World, receiver: Receiver) -> None:
    world.add_channel(receiver, reminder_hours=2)
    world.end("photos", "fail")
    world.pass_time(seconds=1)
    world.pass_time(seconds=10)
    world.pass_time(hours=2)
    world.pass_time(hours=2)
    assert [title.partition(" since ")[0] for title in titles(receiver)[1:]] == ["photos is still failing"] * 2
    world.end("photos", "ok")
    world.pass_time(hours=2)
    world.pass_time(hours=2)
    assert titles(receiver)[3:] == ["photos is OK again, after 4 h"]


@pytest.mark.parametrize(("before", "after"), [(None, 2), (24, 2), (1, 3), (1, None)])
def test_a_change_of_the_reminders_applies_to_what_lasts_already(
    world: World, receiver: Receiver, before: int | None, after: int | None
) -> None:
    channel_id = world.add_channel(receiver, reminder_hours=before)
    for job in ("photos", "mail"):  # each is in a message of its own
        world.end(job, "fail")
        world.pass_time(seconds=1)
        world.pass_time(minutes=6)
    world.end("mail", "ok")
    world.pass_time(minutes=6)
    world.pass_time(seconds=10)
    told = len(receiver.requests)
    change = {"reminder_hours": after}
    for _ in range(2):  # the second one changes nothing
        assert world.client.put(f"/api/v1/channels/{channel_id}", json=change).status_code == 200
        world.pass_time(minutes=15)
    hours = list[int]()
    for quarter in range(1, 30):
        world.pass_time(minutes=15)
        hours += [quarter // 4] * (len(receiver.requests) - told - len(hours))
    assert hours == ([] if after is None else [*range(after - 1, 7, after)])
    assert {title.partition(" since ")[0] for title in titles(receiver)[told:]} <= {"photos is still failing"}


def test_a_reminder_to_come_is_no_message_yet_in_oql_either(world: World, receiver: Receiver) -> None:
    """It is not sent if the incident ends before. So it must not count as a message that does not get through."""
    world.add_channel(receiver, reminder_hours=2)
    world.end("photos", "fail")
    world.pass_time(seconds=1)
    world.pass_time(seconds=10)
    statement = {"query": "SELECT state, attempts FROM deliveries LAST 1d"}
    for sent in (1, 2):
        world.clock.advance(seconds=1)
        rows = world.client.post("/api/v1/dsl", json=statement).json["rows"]
        assert rows == [[one["state"], one["attempts"]] for one in world.deliveries()] == [["sent", 1]] * sent
        world.pass_time(hours=2)


def test_a_job_that_flaps_is_reported_once_and_when_it_has_settled(world: World, receiver: Receiver) -> None:
    world.add_channel(receiver)
    for _ in range(12):
        world.end("photos", "fail")
        world.pass_time(minutes=2)
        world.end("photos", "ok")
        world.pass_time(minutes=2)
    for _ in range(12):
        world.pass_time(minutes=10)
    flapping = [title for title in titles(receiver) if "flapping" in title]
    assert flapping == ["photos is flapping: 6 incidents (failed) within an hour"]
    assert titles(receiver)[-1] == "photos has had no new incident (failed) for an hour"
    assert len(receiver.requests) < 12


@pytest.mark.slow
def test_jobs_that_flap_together_are_reported_together_and_so_is_their_settling(
    world: World, receiver: Receiver
) -> None:
    world.add_channel(receiver)
    for _ in range(7):
        for outcome in ("fail", "ok"):
            for number in range(30):
                world.end(f"photos-{number:02}", outcome)
            world.pass_time(minutes=2)
    for _ in range(12):
        world.pass_time(minutes=10)
    settled = receiver.messages()[-1]
    assert sorted(one["job"] for one in settled["incidents"]) == [f"photos-{number:02}" for number in range(30)]
    assert "photos-07 has had no new incident (failed) for an hour" in settled["text"]
    assert len(receiver.messages()) < 12


def test_a_job_that_flaps_and_then_stays_failed_is_reported_as_failing(world: World, receiver: Receiver) -> None:
    world.add_channel(receiver, events=["failed"])
    for _ in range(8):
        world.end("photos", "fail")
        world.pass_time(minutes=2)
        world.end("photos", "ok")
        world.pass_time(minutes=2)
    world.end("photos", "fail")
    for _ in range(12):
        world.pass_time(minutes=10)
    assert titles(receiver)[-1].startswith("photos is still failing since ")
    assert world.client.patch("/api/v1/jobs/photos", json={"pin": {"never": True}}).status_code == 200
    world.end("photos", "ok")
    world.pass_time(minutes=1)
    world.pass_time(minutes=10)
    assert titles(receiver)[-1].startswith("photos is OK again, after ")


def test_an_answer_does_not_contain_the_secret_parts_of_the_address(world: World, receiver: Receiver) -> None:
    channel = world.add_channel(receiver)
    receiver.answers, receiver.body = [404], b"Cannot POST /hook/secret-path"
    answer = world.client.post(f"/api/v1/channels/{channel}/test").json
    assert answer["answer"].startswith("404 Cannot POST ")
    assert "secret-path" not in answer["answer"]


def test_a_delivery_tried_by_a_wrong_clock_is_tried_again_when_the_clock_is_right(
    make_app: Callable[..., Flask], new_client: Callable[..., KeyClient], clock: Clock, receiver: Receiver
) -> None:
    error_ms = 0
    app = make_app(CLOCK=lambda: clock() + error_ms, MONOTONIC=lambda: clock() / 1000)
    world = World(app, new_client("acme", "admin", app=app), clock)
    services(app).background.sweeper.excuse_downtime()
    world.add_channel(receiver)
    receiver.answers = [500]
    world.end("photos", "fail")
    world.sweep()
    error_ms = 400 * DAY_MS
    world.pass_time(seconds=1)
    assert [one["attempts"] for one in world.deliveries()] == [1]
    error_ms = 0
    world.pass_time(seconds=1)
    world.pass_time(seconds=11)
    assert [one["state"] for one in world.deliveries()] == ["sent"]


def test_a_delivery_is_given_up_after_a_day_and_reported_through_another_channel(
    world: World, receiver: Receiver, other_receiver: Receiver
) -> None:
    world.add_channel(receiver, "broken")
    world.add_channel(other_receiver, "works", events=["lost"])
    receiver.answers = [500] * 100
    world.end("photos", "fail")
    world.pass_time(seconds=1)
    for _ in range(60):
        world.pass_time(minutes=30)
    first, second = world.deliveries()
    assert (first["state"], first["channel"]) == ("given_up", "broken")
    assert (second["state"], second["channel"]) == ("sent", "works")
    assert 20 < len(receiver.requests) < 40
    assert titles(other_receiver) == ["The channel broken does not work: 500 thanks"]

    receiver.answers = []
    assert world.client.post(f"/api/v1/deliveries/{first['id']}/retry").status_code == 200
    world.pass_time(seconds=0)
    assert world.deliveries()[0]["state"] == "sent"


def test_a_delivery_survives_the_end_of_the_service(
    world: World, receiver: Receiver, make_app: Callable[..., Flask]
) -> None:
    world.add_channel(receiver)
    world.end("photos", "fail")
    world.sweep()
    world.use(make_app())
    world.pass_time(seconds=11)
    assert len(receiver.requests) == 1


def test_a_redirect_is_not_followed(world: World, receiver: Receiver, other_receiver: Receiver) -> None:
    channel = world.add_channel(receiver)
    receiver.answers, receiver.location = [307], other_receiver.url
    answer = world.client.post(f"/api/v1/channels/{channel}/test")
    assert (answer.json or {})["delivered"] is False
    assert other_receiver.requests == []


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("nosuch://token", "nosuch"),
        ("ntfy://ntfy.sh/topic?template=/etc/passwd", "template"),
        ("mailto://a:b@example.com?pgppub=/etc/passwd", "pgppub"),
        ("syslog://", "syslog"),
        ("dbus://", "dbus"),
        ("just text", "Apprise URL"),
    ],
)
def test_an_address_that_cannot_be_used_is_refused(world: World, url: str, reason: str) -> None:
    answer = world.client.post("/api/v1/channels", json={"name": "one", "url": url})
    assert answer.status_code == 422
    assert reason in (answer.json or {})["message"]
    assert (world.client.get("/api/v1/channels").json or {})["channels"] == []


@pytest.mark.parametrize("host", ["127.0.0.1", "0x7f000001", "[::1]", "169.254.169.254", "10.0.0.1", "localhost"])
def test_private_addresses_are_refused_where_they_are_not_allowed(world: World, host: str) -> None:
    world.app.config["ALLOW_PRIVATE_TARGETS"] = "0"
    for body in ({"webhook": {"url": f"http://{host}/x"}}, {"url": f"gotify://{host}/AbCdEfGhIjKlMnO"}):
        answer = world.client.post("/api/v1/channels", json={"name": "one", **body})
        assert answer.status_code == 422, (body, answer.json)


def test_a_connection_is_checked_when_it_is_made(world: World, receiver: Receiver) -> None:
    channel = world.add_channel(receiver)
    world.app.config["ALLOW_PRIVATE_TARGETS"] = "0"
    answer = world.client.post(f"/api/v1/channels/{channel}/test")
    assert (answer.json or {})["delivered"] is False
    assert receiver.requests == []


def test_secrets_are_shown_once_at_most(world: World, receiver: Receiver) -> None:
    channel = world.add_channel(receiver)
    created = world.client.post("/api/v1/channels", json={"name": "phone", "url": "ntfy://me:pw@ntfy.sh/my-topic"})
    assert (created.json or {})["url"] == "ntfy://***@ntfy.sh/***"
    everything = world.client.get("/api/v1/channels").text + world.client.get(f"/api/v1/channels/{channel}").text
    for secret in (SECRET, "secret-path", "my-topic", "pw@"):
        assert secret not in everything


def test_a_second_answer_to_an_attempt_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An attempt may be ended by its time limit after it has written its answer: then there are two."""
    program = tmp_path / "courier"
    first, second = (f'{{"id": {number}, "delivered": true, "answer": "{number}"}}' for number in (1, 2))
    program.write_text(f"#!/bin/sh\nread -r order; echo '{first}'; echo '{first}'; read -r order; echo '{second}'\n")
    program.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(program))
    with closing(Courier(lambda: True)) as courier:
        for number in ("1", "2"):
            assert courier.submit({"op": "fetch", "kind": "webhook"}).result(10)["answer"] == number


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lists the children of a process")
def test_attempts_that_end_at_once_are_all_answered() -> None:
    """The signal of a process that ends may interrupt the handling of another one."""
    order = {"op": "check", "kind": "webhook", "address": "https://example.com/hook"}
    with closing(Courier(lambda: True)) as courier:
        before = children()
        courier.submit(order).result(60)
        (process,) = children() - before
        for _ in range(5):
            waiting = [courier.submit(order) for _ in range(200)]
            while wait(waiting, timeout=0.0005).not_done:
                os.kill(process, signal.SIGCHLD)
            assert {tuple(one.result()) for one in waiting} == {("masked",)}
