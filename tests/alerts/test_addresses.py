"""Addresses of channels: which can be saved, where they lead, and that their secrets are not shown again."""

import re
import string
import warnings
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import apprise
import pytest

from obs.alerts.courier import Answer, Courier
from obs.services import services
from tests.alerts.receiver import Receiver
from tests.alerts.world import SECRET, World
from tests.conftest import ACME

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # the library imports a module that Python deprecates
    from obs.alerts.courier.apprise import LOCAL_SCHEMAS

    _DETAILS = apprise.Apprise().details()["schemas"]
SERVICES = {
    str(schema): service
    for service in _DETAILS
    for schema in [*(service["protocols"] or []), *(service["secure_protocols"] or [])]
}
SECRETS = ("hunter2hunter2", "S3cr3tT0ken")


def _value(token: dict[str, Any]) -> str:
    """A value that the pattern of a token of a URL accepts, with a secret in it where it can be."""
    if token.get("values"):
        return str(next(iter(token["values"])))
    if token["type"].startswith("int"):
        return str(token.get("min") or 8080)
    pattern = (token.get("regex") or ("", ""))[0]
    letters = string.digits if re.fullmatch(r"[\^(]*\+?\[?(0-9|\\d).*", pattern) else string.ascii_letters
    for text in (*SECRETS, "+15551234567", "a" * 8 + "-" + "b" * 4, letters[:8] * 4, letters[:8] * 8):
        if not pattern or re.match(pattern, text, re.I):
            return text
    return letters[:10]


def _url(schema: str) -> str:
    """A URL of a service from the first of its own templates."""
    service = SERVICES[schema]["details"]
    tokens = service["tokens"]
    template = next((one for one in service["templates"] if "{host}" in one), service["templates"][0])
    values = {name: _value(token) for name, token in tokens.items() if "type" in token}
    values |= {"schema": schema, "host": "example.com", "port": "8443", "password": SECRETS[0], "token": SECRETS[1]}
    values = {name: values.get(name, SECRETS[1]) for name in re.findall(r"{(\w+)}", template)}
    return str(template).format(**values)


@pytest.fixture(scope="module")
def courier() -> Iterator[Courier]:
    one = Courier(lambda: True)
    yield one
    one.close()


@pytest.fixture(scope="module")
def answers(courier: Courier) -> dict[str, Answer]:
    """What the courier answers to a URL of each schema."""
    waiting: dict[str, Future[Answer]] = {
        schema: courier.submit({"op": "check", "kind": "apprise", "address": _url(schema)}) for schema in SERVICES
    }
    return {schema: future.result(timeout=120) for schema, future in waiting.items()}


def test_every_service_of_apprise_is_masked_or_refused_by_name(answers: dict[str, Answer]) -> None:
    assert len(answers) > 150
    saved = {schema for schema, answer in answers.items() if "masked" in answer}
    for schema, answer in answers.items():
        if schema in saved:
            assert answer["masked"].startswith(f"{schema}://")
            assert not any(secret in answer["masked"] for secret in SECRETS), answer
        else:
            assert answer["refused"], (schema, answer)
            assert schema in answer["answer"].lower() or len(answer["answer"]) > 20, (schema, answer)
    assert saved.isdisjoint(LOCAL_SCHEMAS)
    assert len(saved) > 0.6 * len(answers), sorted(answers.keys() - saved)


@pytest.mark.parametrize("schema", sorted(LOCAL_SCHEMAS & SERVICES.keys()))
def test_services_of_the_machine_itself_are_refused(schema: str, answers: dict[str, Answer]) -> None:
    assert "the server itself" in answers[schema]["answer"]


@pytest.mark.parametrize(
    "url", ["ftp://example.com", "http://example.com/a b", "http://example.com/ü", "http://ü.example"]
)
def test_the_address_of_a_webhook_is_named_where_it_was_sent(world: World, url: str) -> None:
    answer = world.client.post("/api/v1/channels", json={"name": "hook", "webhook": {"url": url}})
    problem = "Not a URL of ASCII characters that starts with http:// or https://."
    assert answer.json["errors"] == {"json": {"webhook": {"url": [problem]}}}
    assert answer.json["message"].startswith("webhook.url: ")


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("nosuch://token", "nosuch"),
        ("ntfy://ntfy.sh/topic?template=/etc/passwd", "template"),
        ("mailto://a:b@example.com?pgppub=/etc/passwd", "pgppub"),
        ("syslog://", "syslog"),
        ("dbus://", "dbus"),
        ("ntfys://ntfy.sh/%20", "no topic"),
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
        assert "Set OBS_ALLOW_PRIVATE_TARGETS=1" in (answer.json or {})["message"]


def test_a_connection_is_checked_when_it_is_made(world: World, receiver: Receiver) -> None:
    channel = world.add_channel(receiver)
    world.app.config["ALLOW_PRIVATE_TARGETS"] = "0"
    answer = world.client.post(f"/api/v1/channels/{channel}/test")
    assert (answer.json or {})["delivered"] is False
    assert "Set OBS_ALLOW_PRIVATE_TARGETS=1" in (answer.json or {})["answer"]
    assert receiver.requests == []


def test_a_redirect_is_not_followed(world: World, receiver: Receiver, other_receiver: Receiver) -> None:
    channel = world.add_channel(receiver)
    receiver.answers, receiver.location = [307], other_receiver.url
    answer = world.client.post(f"/api/v1/channels/{channel}/test")
    assert (answer.json or {})["delivered"] is False
    assert other_receiver.requests == []


def test_secrets_are_shown_once_at_most(world: World, receiver: Receiver) -> None:
    channel = world.add_channel(receiver)
    created = world.client.post("/api/v1/channels", json={"name": "phone", "url": "ntfy://me:pw@ntfy.sh/my-topic"})
    assert (created.json or {})["url"] == "ntfy://***@ntfy.sh/***"
    everything = world.client.get("/api/v1/channels").text + world.client.get(f"/api/v1/channels/{channel}").text
    for secret in (SECRET, "secret-path", "my-topic", "pw@"):
        assert secret not in everything


def test_a_secret_that_a_change_generates_is_shown_once(world: World) -> None:
    created = world.client.post("/api/v1/channels", json={"name": "hook", "url": "ntfy://ntfy.sh/topic"}).json
    path = f"/api/v1/channels/{created['id']}"
    changed = world.client.put(path, json={"webhook": {"url": "https://example.com/hook"}}).json
    assert len(changed["webhook"]["secret"]) >= 32
    changed = world.client.put(path, json={"webhook": {"url": "https://example.com/other"}}).json
    assert changed["webhook"] == {"url": "https://example.com/***"}


def test_an_answer_does_not_contain_the_secret_parts_of_the_address(world: World, receiver: Receiver) -> None:
    channel = world.add_channel(receiver)
    receiver.answers, receiver.body = [404], b"Cannot POST /hook/secret-path"
    answer = world.client.post(f"/api/v1/channels/{channel}/test").json
    assert answer["answer"].startswith("404 Cannot POST ")
    assert "secret-path" not in answer["answer"]


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
