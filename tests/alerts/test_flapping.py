"""Jobs that fail and recover again and again are reported once, and again when they have settled."""

import pytest

from tests.alerts.receiver import Receiver
from tests.alerts.world import World, titles


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
    assert [title[:22] for title in titles(receiver) if "flapping" in title] == ["30 flapping, 30 ended:"]
    settled = receiver.messages()[-1]
    assert sorted(one["job"] for one in settled["incidents"]) == [f"photos-{number:02}" for number in range(30)]
    assert "photos-07 has had no new incident (failed) for an hour" in settled["text"]
    assert len(receiver.messages()) < 12


def test_many_silent_hosts_of_a_job_are_no_flapping(world: World, receiver: Receiver) -> None:
    hosts = [f"host{number}" for number in range(8)]

    def report(*names: str, minutes: int = 60) -> None:
        for name in names:
            world.client.post("/api/v1/heartbeat/fleet/ping", headers={"X-Platform-Host": name})
        world.pass_time(minutes=minutes)

    for _ in range(30):
        report(*hosts)
    world.add_channel(receiver)
    for _ in range(5):
        report()
    report(*hosts, minutes=1)
    world.pass_time(minutes=1)
    told = "\n".join(one["title"] + "\n" + one["text"] for one in receiver.messages())
    assert "flapping" not in told
    assert "This happened" not in told
    assert [told.count(f"fleet on {host} is OK again") for host in hosts] == [1] * 8


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
