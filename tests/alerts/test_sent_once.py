"""A message that was delivered is not sent again: after a restart, nor because of what follows the status."""

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from flask import Flask

from obs.services import services
from tests.alerts.receiver import Receiver
from tests.alerts.world import ATTEMPT_SECONDS, World, titles
from tests.conftest import serving
from tests.dashboard.conftest import Visitor

_CHUNKS = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nno chunk\r\n"
_NOTHING = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"


def _fail(world: World) -> None:
    """Have a job fail, and let the time pass in which other incidents could join the message."""
    world.end("photos", "fail")
    world.sweep()
    world.clock.advance(seconds=11)


def test_an_answer_that_comes_while_the_service_stops_is_recorded(
    world: World, receiver: Receiver, make_app: Callable[..., Flask]
) -> None:
    world.add_channel(receiver)
    _fail(world)
    services(world.app).background.notifier.run()
    assert receiver.received.wait(ATTEMPT_SECONDS)
    services(world.app).background.stop()
    services(world.app).alerts.courier.close()
    world.use(make_app())
    world.pass_time(seconds=1)
    world.pass_time(minutes=10)
    assert titles(receiver) == ["photos failed at 10:00"]
    assert [(one["state"], one["attempts"]) for one in world.deliveries()] == [("sent", 1)]


@pytest.mark.parametrize("response", [_CHUNKS, _NOTHING], ids=["is malformed", "does not come"])
def test_a_message_is_delivered_although_the_rest_of_the_response(world: World, response: bytes) -> None:
    is_over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.wfile.write(response)
            is_over.wait(ATTEMPT_SECONDS)

        def log_message(self, *_: Any) -> None:
            return

    with serving(HTTPServer(("127.0.0.1", 0), Handler)) as url:
        body = {"name": "hook", "webhook": {"url": url}}
        channel = world.client.post("/api/v1/channels", json=body).json["id"]
        answer = world.client.post(f"/api/v1/channels/{channel}/test")
        is_over.set()
    assert answer.json == {"delivered": True, "answer": "200"}


def test_a_reminder_that_a_disabled_channel_does_not_get_is_no_message_that_was_given_up(
    world: World, receiver: Receiver, visitor: Visitor
) -> None:
    channel = world.add_channel(receiver, reminder_hours=1)
    _fail(world)
    world.deliver()
    world.client.put(f"/api/v1/channels/{channel}", json={"enabled": False})
    world.pass_time(hours=1)
    world.client.put(f"/api/v1/channels/{channel}", json={"enabled": True})
    assert [one["state"] for one in world.deliveries()] == ["sent"]
    assert "obs_given_up_deliveries 0.0" in world.client.get("/metrics").text
    assert "given up" not in visitor.get("/alerts").text
