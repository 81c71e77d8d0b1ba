"""The forms of channels: each builds an address that can be saved, and shows it again without its secrets."""

import html
import re
from concurrent.futures import Future
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import pytest

from obs.alerts.courier import Answer
from obs.services import services
from tests.alerts.receiver import Receiver
from tests.alerts.world import World, titles
from tests.dashboard.conftest import Visitor

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
