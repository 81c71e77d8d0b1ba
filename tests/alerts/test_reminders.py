"""A problem that lasts is reported again, as often as the channel says."""

import pytest

from tests.alerts.receiver import Receiver
from tests.alerts.world import World, titles


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
