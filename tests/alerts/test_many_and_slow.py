"""Many incidents at once, and receivers that hang, refuse or answer nonsense."""

import socket
import threading
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from functools import partial
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult

from obs.services import services
from tests.alerts.conftest import add_overdue_jobs
from tests.alerts.receiver import Receiver
from tests.alerts.world import World
from tests.conftest import ACME

HANGING = 8


class Mailbox:
    """A mail server's handler that keeps what it receives."""

    def __init__(self) -> None:
        self.mails: list[EmailMessage] = []

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:  # noqa: N802 - named by aiosmtpd
        self.mails.append(message_from_bytes(envelope.content, policy=default))
        return "250 kept"


@pytest.mark.slow
def test_ten_thousand_jobs_that_fall_silent_are_one_message(
    world: World, receiver: Receiver, held: list[float]
) -> None:
    world.add_channel(receiver)
    add_overdue_jobs(services(world.app).tenancy.databases, 10_000, world.clock())
    held.clear()
    world.pass_time(seconds=1)
    world.pass_time(seconds=10)
    (message,) = receiver.messages()
    assert len(message["incidents"]) == 10_000
    assert message["title"].startswith("10,000 overdue: job-")
    assert max(held) < 0.1 * sum(held)


def test_a_host_that_hangs_delays_no_other_channel(world: World, receiver: Receiver) -> None:
    hanging = [Receiver() for _ in range(HANGING)]
    released = threading.Event()
    for number, one in enumerate(hanging):
        one.hang = released
        world.add_channel(one, f"hangs {number}")
    world.add_channel(receiver, "works")
    world.end("photos", "fail")
    world.sweep()
    world.clock.advance(seconds=11)
    notifier = services(world.app).background.notifier
    notifier.run()
    assert receiver.received.wait(30)
    assert [one.requests for one in hanging] == [[]] * HANGING
    released.set()
    world.deliver()
    for one in hanging:
        one.close()


def test_a_host_gets_two_messages_at_a_time(world: World, receiver: Receiver) -> None:
    receiver.hang = threading.Event()
    for number in range(5):
        world.add_channel(receiver, f"hook {number}")
    world.end("photos", "fail")
    world.sweep()
    world.clock.advance(seconds=11)
    notifier = services(world.app).background.notifier
    notifier.run()
    notifier.run()
    assert [one["attempts"] for one in world.deliveries()] == [1, 1, 0, 0, 0]
    receiver.hang.set()
    world.deliver()
    assert {one["state"] for one in world.deliveries()} == {"sent"}
    assert len(receiver.requests) == 5


def test_an_alert_reaches_a_mailbox(world: World) -> None:
    mailbox = Mailbox()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    controller = Controller(mailbox, hostname="127.0.0.1", port=port)
    controller.start()
    url = f"mailto://127.0.0.1:{port}?from=obs@example.com&to=me@example.com&mode=insecure"
    answer = world.client.post("/api/v1/channels", json={"name": "mail", "url": url})
    assert answer.status_code == 201, answer.json
    query = {"status": "fail", "message": "<b>no space</b> left\nbye"}
    answer = world.client.post("/api/v1/heartbeat/photos/end", query_string=query)
    assert answer.status_code == 200, answer.json
    world.pass_time(seconds=1)
    world.pass_time(seconds=10)
    controller.stop()
    assert [one["answer"] for one in world.deliveries()] == ["Accepted."]
    (mail,) = mailbox.mails
    assert str(mail["Subject"]).startswith("photos failed at ")
    assert mail["To"] == "me@example.com"
    html = mail.get_body(("html",))
    assert html is not None
    assert "&lt;b&gt;no space&lt;/b&gt; left" in html.get_content()
    assert [one["state"] for one in world.deliveries()] == ["sent"]


def test_what_a_mail_server_said_is_shown(world: World) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    refused = AuthResult(success=False, handled=False, message="535 5.7.8 Wrong app password")
    serve = partial(Controller, authenticator=lambda *_: refused, auth_require_tls=False)
    controller = serve(Mailbox(), hostname="127.0.0.1", port=port)
    controller.start()
    url = f"mailto://obs:topsecret@127.0.0.1:{port}?from=obs@example.com&to=me@example.com&mode=insecure"
    channel = world.client.post("/api/v1/channels", json={"name": "mail", "url": url}).json
    answer = world.client.post(f"/api/v1/channels/{channel['id']}/test").json
    controller.stop()
    assert not answer["delivered"]
    assert "535" in answer["answer"]
    assert "Wrong app password" in answer["answer"]
    assert "topsecret" not in answer["answer"]


def test_a_message_is_shortened_to_what_the_service_accepts(world: World) -> None:
    receiver = Receiver()
    port = receiver.url.split(":")[2].split("/")[0]
    answer = world.client.post("/api/v1/channels", json={"name": "phone", "url": f"ntfy://127.0.0.1:{port}/topic"})
    assert answer.status_code == 201, answer.json
    log = "\n".join(["first line", *(f"{number} " + "<&> " * 250 for number in range(9))])
    answer = world.client.post("/api/v1/heartbeat/photos/end?status=fail", data=log)
    assert answer.status_code == 200, answer.json
    world.pass_time(seconds=1)
    world.pass_time(seconds=10)
    assert [one["state"] for one in world.deliveries()] == ["sent"]
    (message,) = receiver.messages()
    assert "first line" in message["message"]
    assert len(message["message"]) <= 7_800
    receiver.close()


@pytest.mark.parametrize(
    ("behaviour", "expected"),
    [
        (b"", "RemoteDisconnected"),
        (b"\x00\x01garbage\r\n\r\n", "BadStatusLine"),
        (b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n", "302"),
        (None, "ConnectionRefusedError"),
    ],
    ids=["closes", "garbage", "redirects", "refuses"],
)
def test_a_receiver_that_does_not_answer_properly_is_tried_again(
    world: World, behaviour: bytes | None, expected: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"

        def serve() -> None:
            connection, _ = listener.accept()
            with connection, connection.makefile("rb") as request:
                length = 0
                while line := request.readline().strip():
                    length = int(line[15:]) if line.lower().startswith(b"content-length:") else length
                request.read(length)  # or the kernel resets the connection when it is closed
                connection.sendall(behaviour or b"")

        if behaviour is None:
            listener.close()
        else:
            threading.Thread(target=serve, daemon=True).start()
        answer = world.client.post("/api/v1/channels", json={"name": "hook", "webhook": {"url": url}})
        assert answer.status_code == 201, answer.json
        world.end("photos", "fail")
        world.pass_time(seconds=1)
        world.pass_time(seconds=10)
    (delivery,) = world.deliveries()
    assert (delivery["state"], delivery["attempts"]) == ("pending", 1)
    assert expected in delivery["answer"]


def test_a_delivery_that_cannot_be_made_blocks_no_other(world: World, receiver: Receiver) -> None:
    world.add_channel(receiver)
    world.end("photos", "fail")
    world.sweep()
    databases = services(world.app).tenancy.databases
    databases.write(ACME, lambda db: db.execute("UPDATE delivery_incidents SET news = 99"))
    world.pass_time(seconds=10)
    world.end("mail", "fail")
    world.pass_time(seconds=1)
    world.pass_time(minutes=5)
    broken, sent = world.deliveries()
    assert (broken["state"], sent["state"]) == ("given_up", "sent")
    assert "99" in broken["answer"]
    assert [one["job"] for message in receiver.messages() for one in message["incidents"]] == ["mail"]


def test_the_age_of_the_oldest_message_and_those_given_up_are_measured(world: World, receiver: Receiver) -> None:
    world.add_channel(receiver)
    receiver.answers = [500] * 100
    assert "oldest_delivery_seconds" not in (world.app.test_client().get("/readyz").json or {})
    world.end("photos", "fail")
    world.pass_time(seconds=1)
    world.pass_time(seconds=10)
    world.pass_time(seconds=50)
    assert (world.app.test_client().get("/readyz").json or {})["oldest_delivery_seconds"] == 50
    assert "obs_oldest_delivery_seconds 50.0" in world.app.test_client().get("/metrics").text
    for _ in range(60):
        world.pass_time(minutes=30)
    text = world.app.test_client().get("/metrics").text
    assert "obs_oldest_delivery_seconds 0.0" in text
    assert "obs_given_up_deliveries 1.0" in text
