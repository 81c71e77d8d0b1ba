"""Channels over the API, on the page and on the command line, and what is refused."""

import html
import re
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from click.testing import CliRunner
from flask import Flask

from obs import cli
from obs.alerts.courier import Answer
from obs.alerts.store import channels
from obs.alerts.store.channels import Channel
from obs.errors import ServiceError
from obs.services import services
from obs.tenancy import service
from obs.times import DAY_MS
from tests.alerts.receiver import Receiver
from tests.alerts.world import World, titles
from tests.conftest import Clock, KeyClient
from tests.dashboard.conftest import Visitor

HOOK = {"url": "https://example.com/hook"}
VALUES = {
    "server": "https://example.com:8443",
    "address": "ntfy://ntfy.sh/topic",
    "topic": "a/b c",
    "smtp": "smtp.example.com:587",
    "user": "me@example.com",
    "password": "p@ss/word",
    "to": "you@example.com",
    "token": "a" * 30,
    "chat": "12315544",
    "room": "!abc:example.com",
    "key": "u" * 30,
    "sender": "+15551234567",
    "number": "+15551234568",
}
FORM_VALUES: dict[str, dict[str, str]] = {
    **{name: {} for name in ("ntfy", "email", "matrix", "pushover", "homeassistant", "signal", "apprise")},
    "gotify": {"token": "AbCdEfGhIjKlMnO"},
    "telegram": {"token": "123456789:abcdefg_hijklmnop"},
    "discord": {"webhook": "https://discord.com/api/webhooks/4174216298/JHMHI8qBe7bk2ZwO5U711o3dV_js"},
    "slack": {"webhook": "https://hooks.slack.com/services/T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ"},
}
"""The values of the fields of each form where they differ from VALUES."""


@pytest.fixture
def visitor(world: World) -> Visitor:
    one = Visitor(world.app)
    one.sign_in(str(world.client.key))
    one.get("/settings")
    return one


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"events": ["broken"]}, "events"),
        ({"events": []}, "events"),
        ({"always_loud": ["broken"]}, "always_loud"),
        ({"reminder_hours": 0}, "reminder_hours"),
        ({"reminder_hours": 169}, "reminder_hours"),
        ({"quiet_hours": {"from": "25:00", "until": "07:00", "timezone": "UTC"}}, "from"),
        ({"quiet_hours": {"from": "22:00", "until": "22:00", "timezone": "UTC"}}, "quiet_hours"),
        ({"quiet_hours": {"from": "22:00", "until": "07:00", "timezone": "Mars"}}, "timezone"),
        ({"quiet_hours": {"from": "22:00", "until": "07:00"}}, "timezone"),
        ({"webhook": {**HOOK, "secret": "short"}}, "secret"),
        ({"webhook": {"url": "ftp://example.com"}}, "url"),
        ({"webhook": {"url": "https://me:hunter2@example.com/hook"}}, "url"),
        ({"webhook": {"url": "https://example.com/hook\x7f"}}, "url"),
        ({"url": "ntfy://ntfy.sh/topic"}, "url"),
        ({"nonsense": 1}, "nonsense"),
        ({"recoveries": "yes"}, "recoveries"),
    ],
)
def test_an_invalid_field_is_named_and_nothing_is_saved(world: World, change: dict[str, Any], field: str) -> None:
    answer = world.client.post("/api/v1/channels", json={"name": "hook", "webhook": HOOK, **change})
    assert answer.status_code == 422
    assert f"{field}'" in str(answer.json["errors"])
    assert world.client.get("/api/v1/channels").json["channels"] == []


def test_the_address_of_a_webhook_is_named_where_it_was_sent(world: World) -> None:
    body = {"name": "hook", "webhook": {"url": "ftp://example.com"}}
    answer = world.client.post("/api/v1/channels", json=body)
    assert answer.json["errors"] == {"json": {"webhook": {"url": ["Not a URL that starts with http:// or https://."]}}}
    assert answer.json["message"].startswith("webhook.url: ")


def test_a_channel_that_is_deleted_while_it_is_changed_stays_deleted(world: World) -> None:
    created = world.client.post("/api/v1/channels", json={"name": "hook", "webhook": HOOK}).json
    path, courier = f"/api/v1/channels/{created['id']}", services(world.app).alerts.courier
    submit = courier.submit

    def deleting(order: Mapping[str, Any]) -> Future[Answer]:
        assert world.client.delete(path).status_code == 204
        return submit(order)

    courier.submit = deleting  # type: ignore[method-assign]
    assert world.client.put(path, json={"webhook": {"url": "https://example.com/other"}}).status_code == 404
    assert world.client.get("/api/v1/channels").json == {"channels": []}


def test_a_courier_that_does_not_answer_is_an_answer(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    created = world.client.post("/api/v1/channels", json={"name": "hook", "webhook": HOOK}).json
    monkeypatch.setattr("obs.alerts.service.ATTEMPT_SECONDS", 0)
    monkeypatch.setattr(services(world.app).alerts.courier, "submit", lambda order: Future[Answer]())
    silent = "The process that sends messages does not answer."
    tested = world.client.post(f"/api/v1/channels/{created['id']}/test")
    assert (tested.status_code, tested.json) == (200, {"delivered": False, "answer": silent})
    refused = world.client.post("/api/v1/channels", json={"name": "other", "webhook": HOOK})
    assert (refused.status_code, refused.json["message"]) == (422, f"webhook.url: {silent}")


def test_a_channel_keeps_what_is_not_changed(world: World) -> None:
    fields = {"host": "nas01", "events": ["lost"], "reminder_hours": 3}
    created = world.client.post("/api/v1/channels", json={"name": "hook", "webhook": HOOK, **fields}).json
    secret = created["webhook"]["secret"]
    assert len(secret) >= 32, "a webhook without a secret gets one"
    assert created["enabled"] is True
    path = f"/api/v1/channels/{created['id']}"
    changed = world.client.put(path, json={"host": None, "enabled": False}).json
    assert changed == {**created, "host": None, "enabled": False, "webhook": {"url": "https://example.com/***"}}
    assert world.client.get(path).json == changed
    assert world.client.put(path, json={}).status_code == 422
    other = world.client.post("/api/v1/channels", json={"name": "other", "url": "ntfy://ntfy.sh/topic"}).json
    assert world.client.put(f"/api/v1/channels/{other['id']}", json={"name": "hook"}).status_code == 409
    assert world.client.delete(path).status_code == 204
    assert world.client.get(path).status_code == 404
    world.clock.advance(minutes=1)
    actions = world.client.post("/api/v1/dsl", json={"query": "SELECT action, object FROM audit LAST 1h"}).json
    assert ["create channel", "hook"] in actions["rows"]
    assert ["delete channel", "hook"] in actions["rows"]


def test_deliveries_are_listed_in_pages_and_by_state_and_channel(world: World, receiver: Receiver) -> None:
    first, second = (world.add_channel(receiver, name) for name in ("first", "second"))
    receiver.answers = [500]
    world.end("photos", "fail")
    world.pass_time(seconds=1)
    world.pass_time(seconds=10)

    def listed(query: str) -> dict[str, Any]:
        answer = world.client.get(f"/api/v1/deliveries?{query}")
        assert answer.status_code == 200
        return dict(answer.json)

    page = listed("limit=1")
    (newest,) = page["deliveries"]
    rest = listed(f"limit=1&cursor={page['next_cursor']}")
    assert rest["next_cursor"] is None
    (oldest,) = rest["deliveries"]
    assert {newest["channel_id"], oldest["channel_id"]} == {first, second}
    assert {one["state"] for one in (newest, oldest)} == {"pending", "sent"}
    assert listed(f"channel={newest['channel_id']}")["deliveries"] == [newest]
    assert listed(f"state={oldest['state']}")["deliveries"] == [oldest]
    for query in ("state=lost", "cursor=nonsense", "limit=0", "channel=x", "channel=9223372036854775808", "unknown=1"):
        assert world.client.get(f"/api/v1/deliveries?{query}").status_code == 422
    answer = world.client.post("/api/v1/dsl", json={"query": "SELECT channel, state FROM deliveries LAST 1h"})
    assert sorted(answer.json["rows"]) == sorted([one["channel"], one["state"]] for one in (newest, oldest))


def test_a_message_that_changes_between_attempts_has_another_key(world: World, receiver: Receiver) -> None:
    """A receiver that drops known keys must not miss the recovery."""
    world.add_channel(receiver)
    receiver.answers = [500, 500]
    world.end("photos", "fail")
    world.pass_time(seconds=1)
    world.pass_time(seconds=10)
    world.pass_time(seconds=30)
    world.end("photos", "ok")
    world.pass_time(seconds=1)
    world.pass_time(minutes=1)
    first, second, third = (headers["Idempotency-Key"] for headers, _ in receiver.requests)
    assert first == second
    assert first != third


def test_a_delivery_of_a_wrong_clock_is_sent_when_the_clock_is_right(
    make_app: Callable[..., Flask], new_client: Callable[..., KeyClient], clock: Clock, receiver: Receiver
) -> None:
    error_ms = 0
    app = make_app(CLOCK=lambda: clock() + error_ms, MONOTONIC=lambda: clock() / 1000)
    world = World(app, new_client("acme", "admin", app=app), clock)
    services(app).background.sweeper.excuse_downtime()
    world.add_channel(receiver)
    error_ms = 400 * DAY_MS
    world.pass_time(seconds=1)
    world.end("photos", "fail")
    world.sweep()
    error_ms = 0
    world.pass_time(seconds=1)
    world.pass_time(seconds=10)
    assert len(receiver.requests) == 1


def test_messages_to_a_deleted_or_disabled_channel_are_given_up(world: World, receiver: Receiver) -> None:
    ids = [world.add_channel(receiver, name) for name in ("deleted", "disabled")]
    world.add_channel(receiver, "other", events=["lost"])
    world.end("photos", "fail")
    world.sweep()
    world.client.delete(f"/api/v1/channels/{ids[0]}")
    world.client.put(f"/api/v1/channels/{ids[1]}", json={"enabled": False})
    world.pass_time(seconds=10)
    answers = [(one["state"], one["answer"]) for one in world.deliveries()]
    assert answers == [("given_up", "The channel was deleted."), ("given_up", "The channel is disabled.")]


def test_every_page_says_when_nobody_is_notified(world: World, receiver: Receiver, visitor: Visitor) -> None:
    assert "nobody is notified" not in visitor.get("/").text
    world.end("photos", "fail")
    world.sweep()
    for path in ("/", "/incidents", "/alerts", "/annotations", "/query"):
        assert "1 open incident and nobody is notified. Add a channel." in visitor.get(path).text
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


def test_a_channel_is_created_tested_disabled_and_deleted_on_the_page(
    world: World, receiver: Receiver, visitor: Visitor
) -> None:
    fields: dict[str, Any] = {"form": "webhook", "name": "hook", "url": receiver.url, "secret": "x" * 16}
    refused = visitor.post("/alerts", **fields, events=["failed"], **{"from": "22:00", "until": "late"})
    assert refused.status_code == 422
    assert '"events" value="overdue" checked>' in visitor.get("/alerts").text
    assert '"events" value="schedule_changed">' in visitor.get("/alerts").text  # not by default
    assert "Not a time of day such as 22:00." in refused.text
    assert visitor.post("/alerts", **fields, events=["failed"], reminder_hours="6").status_code == 302
    assert titles(receiver) == ["This is a test message"]
    page = visitor.get("/alerts").text
    assert "The test message was delivered: 200 thanks" in page
    assert "secret-path" not in page
    (channel,) = world.client.get("/api/v1/channels").json["channels"]
    assert (channel["events"], channel["reminder_hours"], channel["recoveries"]) == (["failed"], 6, False)
    visitor.post(f"/alerts/{channel['id']}", action="disable")
    assert not world.client.get(f"/api/v1/channels/{channel['id']}").json["enabled"]
    visitor.post(f"/alerts/{channel['id']}", action="test")
    assert len(receiver.requests) == 2
    visitor.post(f"/alerts/{channel['id']}", action="delete")
    assert world.client.get("/api/v1/channels").json["channels"] == []


def _form_of(page: str) -> dict[str, Any]:
    """The values of the form of a channel, as a browser would send them."""
    form = page.partition('action="/alerts">')[2].partition("</form>")[0]
    inputs = [dict(re.findall(r'(\w+)(?:="([^"]*)")?', each)) for each in re.findall(r"<input ([^>]*)>", form)]
    sent = [each for each in inputs if each.get("type") != "checkbox" or "checked" in each]
    values = {each["name"]: html.unescape(each["value"]) for each in sent if each["name"] != "csrf_token"}
    return values | {"events": [each["value"] for each in sent if each["name"] == "events"]}


def test_a_channel_is_changed_on_the_page(world: World, receiver: Receiver, visitor: Visitor) -> None:
    quiet = {"from": "22:00", "until": "07:00", "timezone": "Europe/Berlin"}
    hook = world.add_channel(receiver, quiet_hours=quiet, reminder_hours=6, job_prefix="db/", events=["lost"])
    world.client.put(f"/api/v1/channels/{hook}", json={"enabled": False, "always_loud": ["lost"]})
    (org,) = services(world.app).tenancy.keyring.organizations()
    before = services(world.app).alerts.channel(org, hook)
    assert f'href="/alerts?id={hook}#channel"' in visitor.get("/alerts").text
    shown = _form_of(visitor.get(f"/alerts?id={hook}").text)
    refused = visitor.post("/alerts", **shown | {"until": "late", "name": "night"})
    assert refused.status_code == 422
    assert _form_of(refused.text) == shown | {"until": "late", "name": "night"}
    changed = shown | {"name": "night", "until": "08:00", "job_prefix": "", "events": ["failed", "lost"]}
    assert visitor.post("/alerts", **changed).status_code == 302
    assert "Channel night saved." in visitor.get("/alerts").text
    after = services(world.app).alerts.channel(org, hook)
    filters = {"quiet_hours": quiet | {"until": "08:00"}, "job_prefix": None, "events": ["failed", "lost"]}
    assert after == replace(before, name="night", filter={**before.filter, **filters})
    assert visitor.post("/alerts", **changed | {"reminder_hours": "9" * 5000}).status_code == 422
    world.client.delete(f"/api/v1/channels/{hook}")
    assert visitor.post("/alerts", **changed).status_code == visitor.get(f"/alerts?id={hook}").status_code == 404


def test_the_hidden_parts_of_an_address_stay_when_a_channel_is_changed(world: World, visitor: Visitor) -> None:
    url = "gotifys://example.com/AbCdEfGhIjKlMnO"
    made = world.client.post("/api/v1/channels", json={"name": "phone", "url": url}).json
    (org,) = services(world.app).tenancy.keyring.organizations()
    shown = _form_of(visitor.get(f"/alerts?id={made['id']}").text)
    assert "AbCdEfGhIjKlMnO" not in shown["address"]
    visitor.post("/alerts", **shown | {"name": "tablet"})
    assert [(one.name, one.address) for one in services(world.app).alerts.channels(org)] == [("tablet", url)]
    refused = visitor.post("/alerts", **shown | {"address": shown["address"].replace(".com", ".org")})
    assert "Enter the whole address." in refused.text
    visitor.post("/alerts", **shown | {"address": "gotify://example.org/OnMlKjIhGfEdCbA"})
    assert [one.address for one in services(world.app).alerts.channels(org)] == ["gotify://example.org/OnMlKjIhGfEdCbA"]


def test_a_form_with_a_wrong_value_is_refused(visitor: Visitor) -> None:
    fields = {"form": "telegram", "pattern": "tgram://{token}/{chat}", "name": "phone"}
    refused = visitor.post("/alerts", **fields, token="wrong", chat="1", events=["failed"])
    assert refused.status_code == 422
    assert "Telegram" in refused.text


@pytest.mark.parametrize(
    ("server", "address"),
    [
        ("https://example.com", "gotifys://example.com/AbCdEfGhIjKlMnO"),
        ("http://example.com:8080/path", "gotify://example.com:8080/path/AbCdEfGhIjKlMnO"),
        ("example.com", "gotifys://example.com/AbCdEfGhIjKlMnO"),
    ],
)
def test_a_server_is_reached_over_https_unless_its_address_says_http(
    world: World, visitor: Visitor, server: str, address: str
) -> None:
    (org,) = services(world.app).tenancy.keyring.organizations()
    fields = {"form": "gotify", "pattern": "gotify://{server}/{token}", "name": "phone", "events": ["failed"]}
    visitor.post("/alerts", **fields, server=server, token="AbCdEfGhIjKlMnO")
    assert [one.address for one in services(world.app).alerts.channels(org)] == [address]


@pytest.mark.parametrize("service", FORM_VALUES)
def test_every_form_builds_an_address_that_can_be_saved(
    world: World, visitor: Visitor, monkeypatch: pytest.MonkeyPatch, service: str
) -> None:
    shown = visitor.get(f"/alerts?form={service}").text.partition('action="/alerts">')[2]
    ordered: list[dict[str, Any]] = []
    courier = services(world.app).alerts.courier
    kept = courier.submit

    def submit(order: dict[str, Any]) -> Future[Answer]:
        ordered.append(order)
        return kept(order) if order["op"] == "check" else done

    done: Future[Answer] = Future()
    done.set_result({"delivered": True, "answer": "Accepted.", "refused": False})
    monkeypatch.setattr(courier, "submit", submit)
    fields = dict(re.findall(r'<input type="hidden" name="(form|pattern)" value="([^"]*)"', shown))
    fields["pattern"] = html.unescape(fields["pattern"])
    asked = re.findall(r'<input id="(\w+)"[^>]*placeholder', shown.partition("<fieldset>")[0])
    values = {**VALUES, **FORM_VALUES[service]}
    fields |= {name: values[name] for name in asked}
    answer = visitor.post("/alerts", **fields, name="phone", events=["failed"])
    assert answer.status_code == 302, answer.text
    address = ordered[0]["address"]
    (channel,) = services(world.app).alerts.channels(services(world.app).tenancy.keyring.organizations()[0])
    assert channel.address == address
    assert [channel.filter[name] for name in ("host", "service", "project")] == [None] * 3
    for secret in ("p@ss", "p%40ss", "aaaaaa", "uuuuuu", "TIiajk", "JHMHI8"):
        assert secret not in channel.masked
    for name in set(asked) - {"server", "smtp", "webhook", "address"}:
        assert quote(values[name], safe="") in address


def test_channels_on_the_command_line(world: World, receiver: Receiver, tmp_path: Path) -> None:
    def run(*arguments: str, **kwargs: Any) -> tuple[int, str, str]:
        done = CliRunner().invoke(cli.main, ["channel", *arguments, "--instance", str(tmp_path / "instance")], **kwargs)
        return done.exit_code, done.stdout, done.stderr

    code, number, said = run("add", "acme", "hook", "-", "--webhook", input=f"{receiver.url}\n")
    assert code == 0
    assert len(said.split()[-1]) >= 32, "the secret"
    assert run("test", "acme", number.strip())[0] == 0
    assert titles(receiver) == ["This is a test message"]
    code, listed, _ = run("list", "acme")
    number, name, address, state = listed.strip().split("\t")
    assert (name, state) == ("hook", "enabled")
    assert "secret-path" not in address
    receiver.answers = [500]
    code, _, error = run("test", "acme", number)
    assert code == 1
    assert "500 thanks" in error
    assert run("delete", "acme", number)[0] == 0
    assert run("list", "acme")[1] == ""
    assert run("test", "acme", number)[0] == 1
    assert run("add", "acme", "bad", "syslog://")[0] == 1
    code, _, error = run("add", "acme", "n" * 201, receiver.url)
    assert code == 1
    assert "name: Length must be between 1 and 200." in error


def test_the_heartbeat_url_is_fetched_only_while_the_service_works(
    make_app: Callable[..., Flask], receiver: Receiver
) -> None:
    app = make_app(HEARTBEAT_URL=receiver.url)
    background, tenancy = services(app).background, services(app).tenancy
    deleted = service.create_organization(tenancy, "deleted")
    tenancy.databases.path(deleted).unlink()
    background.run("heartbeat")
    background.run("sweep")
    background.run("heartbeat")
    assert receiver.fetched == 0, "the deliveries have not run yet"
    background.run("deliveries")
    background.run("heartbeat")
    assert receiver.fetched == 0, "the file of an organization is missing"
    service.delete_organization(tenancy, deleted)
    with pytest.raises(ServiceError):  # a request that was under way
        tenancy.databases.write(deleted, lambda db: None)
    background.run("heartbeat")
    assert receiver.received.wait(30)
    assert receiver.fetched == 1


def test_an_organization_has_at_most_100_channels(world: World) -> None:
    alerts, tenancy = services(world.app).alerts, services(world.app).tenancy
    (org,) = tenancy.keyring.organizations()
    first = world.client.post("/api/v1/channels", json={"name": "0", "webhook": HOOK}).json
    known = alerts.channel(org, first["id"])
    values = {name: getattr(known, name) for name in Channel.__slots__} | {"organization_id": org.id, "id": None}
    for number in range(1, 100):
        tenancy.control.write(partial(channels.save, values={**values, "name": str(number)}))
    assert world.client.post("/api/v1/channels", json={"name": "100", "webhook": HOOK}).status_code == 409
    assert world.client.delete(f"/api/v1/channels/{first['id']}").status_code == 204
    assert world.client.post("/api/v1/channels", json={"name": "100", "webhook": HOOK}).status_code == 201
