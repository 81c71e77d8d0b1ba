"""An organization whose alerts a test can watch, from an incident to what its receivers got."""

from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from flask import Flask

from obs.alerts.courier import Answer
from obs.services import services
from tests.alerts.receiver import Receiver
from tests.conftest import Clock, KeyClient

SECRET = "a secret of the receiver"
ATTEMPT_SECONDS = 60
FAILURES = "SELECT count(*) FROM runs WHERE status = 'failed' LAST 1h"
BY_HOST = "SELECT count(*) FROM runs WHERE status = 'failed' BY host LAST 1h"


class World:
    """An organization, its jobs and the receivers of its channels."""

    def __init__(self, app: Flask, client: KeyClient, clock: Clock) -> None:
        self.client, self.clock = client, clock
        self.use(app)

    def use(self, app: Flask) -> None:
        """Let `app` do the work from now on, and keep what it hands to its courier."""
        app.config["ALLOW_PRIVATE_TARGETS"] = "1"
        self.app = app
        self.on_their_way: list[Future[Answer]] = []
        courier = services(app).alerts.courier
        submit = courier.submit

        def kept(order: Mapping[str, Any]) -> Future[Answer]:
            self.on_their_way.append(submit(order))
            return self.on_their_way[-1]

        courier.submit = kept  # type: ignore[method-assign]

    def add_channel(self, receiver: Receiver, name: str = "hook", **fields: Any) -> int:
        body = {"name": name, "webhook": {"url": receiver.url, "secret": SECRET}, **fields}
        answer = self.client.post("/api/v1/channels", json=body)
        assert answer.status_code == 201, answer.json
        return int((answer.json or {})["id"])

    def end(self, job: str, status: str, host: str = "") -> None:
        headers = {"X-Platform-Host": host} if host else {}
        path = f"/api/v1/heartbeat/{job}/end?status={status}"
        assert self.client.post(path, headers=headers).status_code == 200

    def sweep(self) -> None:
        services(self.app).background.run("sweep")

    def deliveries(self) -> list[dict[str, Any]]:
        """All deliveries, the oldest first."""
        return list((self.client.get("/api/v1/deliveries").json or {})["deliveries"])[::-1]

    def pass_time(self, **length: int) -> None:
        """Move the clock, sweep, and send what is due until every answer is recorded."""
        self.clock.advance(**length)
        self.sweep()
        self.deliver()

    def deliver(self) -> None:
        """Send what is due until every answer is recorded."""
        background = services(self.app).background
        background.run("deliveries")
        while self.on_their_way:
            self.on_their_way.pop().result(ATTEMPT_SECONDS)
            if not self.on_their_way:
                background.run("deliveries")


def titles(receiver: Receiver) -> list[str]:
    return [message["title"] for message in receiver.messages()]


def create_alert(world: World, **fields: Any) -> dict[str, Any]:
    body = {"name": "failures", "query": FAILURES, "operator": ">", "threshold": 1, **fields}
    answer = world.client.post("/api/v1/alerts", json=body)
    assert answer.status_code == 201, answer.json
    return dict(answer.json)


def evaluate(world: World, **length: int) -> None:
    """Move the clock, evaluate what is due, and send what follows from it."""
    world.clock.advance(**length)
    services(world.app).background.tasks["alerts on queries"].run()
    world.deliver()


def fail(world: World, times: int = 1, host: str = "") -> None:
    for _ in range(times):
        world.end("backup", "fail", host)


def shown_alert(world: World, alert: dict[str, Any]) -> dict[str, Any]:
    return dict(world.client.get(f"/api/v1/alerts/{alert['id']}").json)


def incidents_of_alerts(world: World) -> list[list[Any]]:
    world.clock.advance(ms=1)  # a window ends before now
    query = "SELECT job, kind, value, time, ended_at FROM incidents WHERE kind = 'alert' ORDER BY time LAST 30d"
    return list(world.client.post("/api/v1/dsl", json={"query": query}).json["rows"])


def limit(world: World, name: str, value: int | None) -> None:
    """Set a limit of the organization; None for its default."""
    with services(world.app).tenancy.control.read() as db:
        org = db.execute("SELECT id FROM organizations").fetchone()["id"]
    change = "DELETE FROM organization_limits WHERE organization_id = ?"
    if value is not None:
        change = f"INSERT INTO organization_limits VALUES (?, '{name}', {value})"
    services(world.app).tenancy.control.write(lambda db: db.execute(change, (org,)))
    services(world.app).background.tasks["quotas and disk space"].run()
