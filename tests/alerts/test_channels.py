"""Channels over the API and on the command line: what is saved, changed, refused and deleted."""

from collections.abc import Mapping
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from obs import cli
from obs.alerts.courier import Answer
from obs.alerts.store import channels
from obs.alerts.store.channels import Channel
from obs.services import services
from tests.alerts.receiver import Receiver
from tests.alerts.world import World, titles

HOOK = {"url": "https://example.com/hook"}


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


def test_two_changes_at_once_are_both_kept(world: World) -> None:
    created = world.client.post("/api/v1/channels", json={"name": "hook", "webhook": HOOK, "job_prefix": "a"}).json
    path, courier = f"/api/v1/channels/{created['id']}", services(world.app).alerts.courier
    submit, other = courier.submit, {"enabled": False, "events": ["lost"], "host": "nas", "job_prefix": None}

    def changing(order: Mapping[str, Any]) -> Future[Answer]:
        assert world.client.put(path, json=other).status_code == 200
        return submit(order)

    courier.submit = changing  # type: ignore[method-assign]
    first = {"webhook": {"url": "https://example.org/other"}, "recoveries": False}
    assert world.client.put(path, json=first).status_code == 200
    changed = {**created, **other, "webhook": {"url": "https://example.org/***"}, "recoveries": False}
    assert world.client.get(path).json == changed


def test_a_courier_that_does_not_answer_is_an_answer(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    created = world.client.post("/api/v1/channels", json={"name": "hook", "webhook": HOOK}).json
    monkeypatch.setattr("obs.alerts.service.ATTEMPT_SECONDS", 0)
    monkeypatch.setattr(services(world.app).alerts.courier, "submit", lambda order: Future[Answer]())
    silent = "The process that sends messages does not answer."
    tested = world.client.post(f"/api/v1/channels/{created['id']}/test")
    assert (tested.status_code, tested.json) == (200, {"delivered": False, "answer": silent})
    refused = world.client.post("/api/v1/channels", json={"name": "other", "webhook": HOOK})
    assert (refused.status_code, refused.json["message"]) == (422, f"webhook.url: {silent}")


def test_at_most_eight_requests_wait_for_an_answer(world: World) -> None:
    created = world.client.post("/api/v1/channels", json={"name": "hook", "webhook": HOOK}).json
    path, answers = f"/api/v1/channels/{created['id']}/test", list[str]()

    def asking_again(order: Mapping[str, Any]) -> Future[Answer]:
        answers.append(world.client.post(path).json["answer"])
        answer = Future[Answer]()
        answer.set_result({"delivered": True, "answer": "200"})
        return answer

    services(world.app).alerts.courier.submit = asking_again  # type: ignore[method-assign]
    for _ in range(2):
        answers.clear()
        assert world.client.post(path).status_code == 200
        assert answers == ["Too many messages are being tested at this moment. Try again later.", *["200"] * 7]


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
    world.client.put(f"/api/v1/channels/{number}", json={"name": "hook\nfake\t\x1b[31m"})
    assert run("list", "acme")[1] == f"{number}\thook fake  [31m\t{address}\tenabled\n"
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
