"""Ways to lose an alert, or to be told what is not true: faults around a delivery, and what a message claims."""

import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from flask import Flask

from obs.alerts import courier
from obs.errors import ServiceError
from obs.services import services
from obs.times import DAY_MS, format_ms
from tests.alerts.receiver import Receiver
from tests.alerts.world import ATTEMPT_SECONDS, World, titles
from tests.conftest import ACME, Clock, KeyClient
from tests.crash.alerts_under_kills import courier_of
from tests.dashboard.conftest import Visitor

LONG_NAME = "a-job-with-a-name-that-fills-the-whole-title-of-a-message-and-goes-on-for-a-while-after-that"


def test_a_file_that_cannot_be_read_for_a_moment_loses_no_alert(
    world: World, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.add_channel(receiver)
    world.deliver()
    world.end("photos", "fail")
    world.sweep()

    def locked(_: object) -> nullcontext[sqlite3.Connection]:
        raise ServiceError("storage_busy")

    with monkeypatch.context() as patch:
        patch.setattr(services(world.app).tenancy.databases, "read", locked)
        world.deliver()
    world.pass_time(seconds=10)
    assert [one["state"] for one in world.deliveries()] == ["sent"]


def test_a_courier_that_cannot_be_started_is_a_failed_attempt(
    world: World, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.add_channel(receiver)
    services(world.app).alerts.courier.close()
    world.end("photos", "fail")
    world.sweep()
    with monkeypatch.context() as patch:
        patch.setattr("sys.executable", "/nonexistent/python")  # as when there is no memory for another process
        world.pass_time(seconds=10)
    (delivery,) = world.deliveries()
    assert (delivery["state"], delivery["attempts"]) == ("pending", 1)
    assert "cannot be started" in delivery["answer"]
    world.pass_time(seconds=30)
    assert [one["state"] for one in world.deliveries()] == ["sent"]


def test_a_courier_that_hangs_is_replaced(world: World, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    world.add_channel(receiver)
    process = courier_of(os.getpid())
    assert process is not None
    os.kill(process, signal.SIGSTOP)
    world.end("photos", "fail")
    world.sweep()
    world.clock.advance(seconds=10)
    notifier = services(world.app).background.notifier
    notifier.run()
    later = SimpleNamespace(monotonic=lambda: time.monotonic() + 61)
    with monkeypatch.context() as patch:
        patch.setattr(courier, "time", later)
        notifier.run()
    assert world.on_their_way.pop().result(ATTEMPT_SECONDS)["answer"] == "The process that sends messages has ended."
    world.deliver()
    world.pass_time(seconds=30)
    assert [one["state"] for one in world.deliveries()] == ["sent"]


def test_answers_that_cannot_be_recorded_delay_no_other_organization(
    world: World, receiver: Receiver, new_client: Callable[..., KeyClient]
) -> None:
    for name in ("first", "second"):
        world.add_channel(receiver, name)
    world.deliver()
    world.end("photos", "fail")
    world.sweep()
    world.clock.advance(seconds=10)
    notifier = services(world.app).background.notifier
    notifier.run()
    assert len(world.on_their_way) == 2, "as many as one host gets at a time"
    while world.on_their_way:
        world.on_their_way.pop().result(ATTEMPT_SECONDS)
    services(world.app).tenancy.control.write(lambda db: db.execute("UPDATE channels SET filter = 'not JSON'"))

    other = World(world.app, new_client("globex", "admin"), world.clock)
    other.add_channel(receiver)
    other.end("mail", "fail")
    other.pass_time(seconds=1)
    other.pass_time(seconds=10)
    assert [one["state"] for one in other.deliveries()] == ["sent"]
    services(world.app).tenancy.control.write(lambda db: db.execute("UPDATE channels SET filter = '{}'"))
    notifier.run()
    assert [one["state"] for one in world.deliveries()] == ["sent", "sent"]
    assert len(receiver.requests) == 3


def test_a_delivery_is_not_given_up_because_the_machine_was_suspended(world: World, receiver: Receiver) -> None:
    world.add_channel(receiver)
    receiver.answers = [500, 500]
    world.end("photos", "fail")
    world.pass_time(seconds=1)
    world.pass_time(seconds=10)
    world.pass_time(days=3)
    assert [(one["state"], one["attempts"]) for one in world.deliveries()] == [("pending", 2)]
    world.pass_time(minutes=1)
    assert [one["state"] for one in world.deliveries()] == ["sent"]


def test_an_attempt_after_a_correction_of_the_clock_has_the_same_key(
    make_app: Callable[..., Flask], new_client: Callable[..., KeyClient], clock: Clock, receiver: Receiver
) -> None:
    error_ms = 0
    app = make_app(CLOCK=lambda: clock() + error_ms, MONOTONIC=lambda: clock() / 1000)
    world = World(app, new_client("acme", "admin", app=app), clock)
    services(app).background.sweeper.excuse_downtime()
    world.add_channel(receiver)
    receiver.answers = [500]
    error_ms = 400 * DAY_MS
    world.end("photos", "fail")
    world.pass_time(seconds=1)
    world.pass_time(seconds=10)
    assert [one["attempts"] for one in world.deliveries()] == [1]
    error_ms = 0
    world.pass_time(seconds=1)
    world.pass_time(seconds=11)
    first, second = (headers["Idempotency-Key"] for headers, _ in receiver.requests)
    assert first == second


@pytest.mark.parametrize(
    "action",
    [
        "open('/etc/passwd')",
        "open('{folder}/new', 'w')",
        "os.mkdir('{folder}/new')",
        "os.symlink('/etc/passwd', '{folder}/new')",
        "os.rename('{folder}', '{folder}-new')",
        "os.kill(os.getppid(), 0)",
        "os.system('true')",
        "sqlite3.connect('{folder}/new')",
        "socket.socket().bind(('127.0.0.1', 0))",
        "socket.socket(socket.AF_UNIX).connect('/run/docker.sock')",
        "socket.socket().connect_ex(('127.0.0.1', 9))",
    ],
)
def test_a_library_that_sends_a_message_cannot_do_anything_else(action: str, tmp_path: Path) -> None:
    setup = "import os, socket, sqlite3, sys; sys.path.insert(0, sys.argv[1]); from courier import policy"
    code = f"{setup}; policy.restrict(allow_private=False); {action.format(folder=tmp_path)}"
    folder = str(Path(courier.__file__).parent.parent)
    done = subprocess.run([sys.executable, "-c", code, folder], capture_output=True, text=True, check=False)
    assert "PermissionError" in done.stderr


def test_quiet_hours_keep_reminders_and_messages_that_are_due_in_them(world: World, receiver: Receiver) -> None:
    quiet = {"from": "22:00", "until": "07:00", "timezone": "UTC"}
    world.add_channel(receiver, quiet_hours=quiet, reminder_hours=1)
    world.clock.set("2026-06-21T21:30:00Z")
    world.end("photos", "fail")
    world.pass_time(seconds=1)
    world.pass_time(seconds=10)
    assert len(receiver.requests) == 1
    world.clock.set("2026-06-21T21:59:55Z")
    world.end("mail", "fail")
    world.pass_time(seconds=0)
    for _ in range(8):
        world.pass_time(hours=1)
    assert len(receiver.requests) == 1
    assert "oldest_delivery_seconds" not in (world.app.test_client().get("/readyz").json or {})
    world.clock.set("2026-06-22T07:00:00Z")
    world.deliver()
    world.deliver()
    assert [title.partition(" at ")[0].partition(" since ")[0] for title in titles(receiver)[1:]] == [
        "photos is still failing",
        "mail failed",
    ]


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
    log = "\x1b[1;31mno space\x1b[0m left"
    assert world.client.post("/api/v1/heartbeat/photos/end?status=fail", data=log).status_code == 200
    world.pass_time(seconds=1)
    world.pass_time(seconds=10)
    (message,) = receiver.messages()
    assert "\n    no space left\n" in message["text"]


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
        "photos is overrunning",
        "photos was overrunning",
    ]


@pytest.mark.parametrize("is_retried", [False, True])
def test_a_problem_that_lasts_is_reported_again_after_a_message_was_given_up(
    world: World, receiver: Receiver, is_retried: bool
) -> None:
    world.add_channel(receiver, reminder_hours=6)
    world.end("photos", "fail")
    world.pass_time(seconds=1)
    receiver.answers = [500] * 100
    while world.deliveries()[0]["state"] != "given_up":
        world.pass_time(hours=1)
    receiver.answers.clear()
    tried = len(receiver.requests)
    if is_retried:
        number = world.deliveries()[0]["id"]
        assert world.client.post(f"/api/v1/deliveries/{number}/retry").status_code == 200
    for _ in range(13):
        world.pass_time(hours=1)
    found = [title.partition(" at ")[0].partition(" since ")[0] for title in titles(receiver)[tried:]]
    assert found == ["photos failed"] * is_retried + ["photos is still failing"] * 2


def test_an_attempt_that_failed_is_not_repeated_in_quiet_hours(world: World, receiver: Receiver) -> None:
    quiet = {"from": "22:00", "until": "07:00", "timezone": "UTC"}
    world.add_channel(receiver, quiet_hours=quiet, always_loud=["lost"])
    world.clock.set("2026-06-21T21:40:00Z")
    receiver.answers = [500] * 5
    world.end("photos", "fail")
    world.pass_time(seconds=1)
    for _ in range(60):
        world.pass_time(minutes=1)
    assert len(receiver.requests) == 5
    assert world.deliveries()[0]["next_attempt_at"] == "2026-06-22T07:00:00.000Z"
    world.clock.set("2026-06-22T07:00:00Z")
    world.deliver()
    assert (len(receiver.requests), world.deliveries()[0]["state"]) == (6, "sent")


@pytest.mark.parametrize(("failed_at", "answers"), [("21:59:30", [500]), ("23:00:00", [])])
def test_what_waits_for_the_end_of_quiet_hours_does_not_delay_what_is_loud(
    world: World, receiver: Receiver, failed_at: str, answers: list[int]
) -> None:
    quiet = {"from": "22:00", "until": "07:00", "timezone": "UTC"}
    world.add_channel(receiver, quiet_hours=quiet, always_loud=["lost"])
    world.clock.set(f"2026-06-21T{failed_at}Z")
    receiver.answers = list(answers)
    world.end("photos", "fail")
    for seconds in (1, 10):
        world.pass_time(seconds=seconds)
    world.clock.set("2026-06-21T23:00:20Z")
    for _ in range(2):
        assert world.client.post("/api/v1/heartbeat/mail/start").status_code == 200
    for seconds in (1, 10):
        world.pass_time(seconds=seconds)
    assert [title.partition(" at ")[0] for title in titles(receiver)[len(answers) :]] == ["mail lost a run"]
    world.clock.set("2026-06-22T07:00:00Z")
    world.deliver()
    assert titles(receiver)[-1].startswith("photos failed at ")


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


def test_a_message_about_a_job_with_a_pin_does_not_claim_what_was_learned(world: World, receiver: Receiver) -> None:
    world.add_channel(receiver)
    for _ in range(8):
        world.clock.advance(hours=1)
        assert world.client.post("/api/v1/heartbeat/photos/ping").status_code == 200
        world.sweep()
    pin = {"interval_seconds": 600, "grace_seconds": 60}
    assert world.client.patch("/api/v1/jobs/photos", json={"pin": pin}).status_code == 200
    world.pass_time(minutes=12)
    world.pass_time(seconds=10)
    (message,) = receiver.messages()
    assert message["title"].startswith("photos is overdue since ")
    assert message["text"].startswith("Pinned: interval_seconds 600, grace_seconds 60\n")


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


@pytest.mark.parametrize("channel", [{"webhook": True}, {"url": "ntfy://me:hunter2@ntfy.sh/topic"}])
def test_an_address_that_is_sent_back_as_it_was_shown_stays(
    world: World, receiver: Receiver, channel: dict[str, Any]
) -> None:
    fields = {"webhook": {"url": receiver.url}} if "webhook" in channel else channel
    created = world.client.post("/api/v1/channels", json={"name": "hook", **fields}).json
    (before,) = services(world.app).alerts.channels(ACME)
    path = f"/api/v1/channels/{created.pop('id')}"
    created.get("webhook", {}).pop("secret", None)
    changed = world.client.put(path, json={**created, "host": "nas01"})
    assert changed.status_code == 200, changed.json
    (after,) = services(world.app).alerts.channels(ACME)
    assert (after.address, after.secret) == (before.address, before.secret)
    assert after.filter["host"] == "nas01"


def test_a_secret_that_a_change_generates_is_shown_once(world: World) -> None:
    created = world.client.post("/api/v1/channels", json={"name": "hook", "url": "ntfy://ntfy.sh/topic"}).json
    path = f"/api/v1/channels/{created['id']}"
    changed = world.client.put(path, json={"webhook": {"url": "https://example.com/hook"}}).json
    assert len(changed["webhook"]["secret"]) >= 32
    changed = world.client.put(path, json={"webhook": {"url": "https://example.com/other"}}).json
    assert changed["webhook"] == {"url": "https://example.com/***"}


def test_pages_say_who_was_notified_of_an_incident(world: World, receiver: Receiver) -> None:
    visitor = Visitor(world.app)
    visitor.sign_in(str(world.client.key))
    world.add_channel(receiver, "phone of Ann")
    world.end("photos", "fail")
    world.pass_time(seconds=1)
    assert "Nobody has been notified yet" in visitor.get("/job?name=photos").text
    assert '<td data-label="notified">nobody</td>' in visitor.get("/incidents").text
    world.pass_time(seconds=10)
    sent_at = world.deliveries()[0]["sent_at"][:19]
    for page in ("/job?name=photos", "/incidents"):
        assert f'phone of Ann <time datetime="{sent_at}Z"' in visitor.get(page).text
    assert "Nobody has been notified yet" not in visitor.get("/job?name=photos").text


def test_the_page_of_a_job_says_which_of_its_incidents_was_notified(world: World, receiver: Receiver) -> None:
    visitor = Visitor(world.app)
    visitor.sign_in(str(world.client.key))
    world.add_channel(receiver, "phone of Ann")
    world.client.put("/api/v1/jobs/photos", json={"pin": {"interval_seconds": 3600}})
    world.end("photos", "fail")
    world.pass_time(seconds=30)
    world.pass_time(hours=2)
    world.pass_time(seconds=30)
    page = visitor.get("/job?name=photos")
    assert page.status_code == 200
    assert re.findall(r"Notified \((\w+)\): phone of Ann", page.text) == ["failing", "overdue"]
