"""Pages say who was notified of an incident, and when nobody is."""

import re

from tests.alerts.receiver import Receiver
from tests.alerts.world import World
from tests.dashboard.conftest import Visitor


def test_every_page_says_when_nobody_is_notified(world: World, receiver: Receiver, visitor: Visitor) -> None:
    assert "nobody is notified" not in visitor.get("/").text
    world.end("photos", "fail")
    world.sweep()
    for path in ("/", "/incidents", "/annotations", "/query"):
        assert '1 open incident and nobody is notified. <a href="/alerts">Add a channel</a>' in visitor.get(path).text
    assert "1 open incident and nobody is notified. Add a channel." in visitor.get("/alerts").text
    world.add_channel(receiver)
    assert "nobody is notified" not in visitor.get("/").text
    receiver.answers = [500] * 100
    world.end("mail", "fail")
    for _ in range(60):
        world.pass_time(minutes=30)
    assert "Messages to hook were given up." in visitor.get("/").text
    receiver.answers = []
    (failed,) = (one for one in world.deliveries() if one["state"] == "given_up")
    assert visitor.post(f"/alerts/deliveries/{failed['id']}/retry").status_code == 302
    world.pass_time(seconds=0)
    assert "given up" not in visitor.get("/").text


def test_pages_say_who_was_notified_of_an_incident(world: World, receiver: Receiver, visitor: Visitor) -> None:
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


def test_the_page_of_a_job_says_which_of_its_incidents_was_notified(
    world: World, receiver: Receiver, visitor: Visitor
) -> None:
    world.add_channel(receiver, "phone of Ann")
    world.client.put("/api/v1/jobs/photos", json={"pin": {"interval_seconds": 3600}})
    world.end("photos", "fail")
    world.pass_time(seconds=30)
    world.pass_time(hours=2)
    world.pass_time(seconds=30)
    page = visitor.get("/job?name=photos")
    assert page.status_code == 200
    assert re.findall(r"Notified \((\w+)\): phone of Ann", page.text) == ["failing", "overdue"]
