"""While many heartbeats arrive, background work pauses after each organization, and still reaches all of them."""

from collections.abc import Callable

import pytest
from flask import Flask

from obs.services import services
from obs.tenancy import quotas
from tests.conftest import Clock, KeyClient


def test_background_work_leaves_most_of_its_time_to_many_heartbeats(
    app: Flask, new_client: Callable[..., KeyClient], clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    clients = [new_client(org) for org in ("acme", "globex")]
    pauses = list[float]()
    monkeypatch.setattr(services(app).tenancy.databases.winding_down, "wait", pauses.append)
    run = services(app).background.tasks["sweep"].run

    def learned() -> list[bool]:
        return [client.get("/api/v1/jobs/tick").json["expected_at"] is not None for client in clients]

    for _ in range(9):
        clock.advance(minutes=10)
        for client in clients:
            client.post("/api/v1/heartbeat/tick/ping")
    run()
    assert pauses == []
    assert learned() == [True, True]

    for number in range(quotas.MANY_PER_SECOND // 2 + 1):
        for client in clients:
            client.post(f"/api/v1/heartbeat/burst-{number % 5}/ping")
    run()
    assert len(pauses) == 2  # one for each organization
    assert 0 < min(pauses) <= max(pauses) <= 2
    assert all(client.get("/api/v1/jobs/burst-0").json["run_count"] == 51 for client in clients)

    clock.advance(seconds=1)
    for client in clients:
        client.post("/api/v1/heartbeat/tick/ping")
    run()
    assert len(pauses) == 2  # it is quiet again
