"""While many heartbeats arrive, a sweep takes little time, and the next one goes on."""

from collections.abc import Callable

import pytest
from flask import Flask

from obs import sweep
from obs.services import services
from tests.conftest import Clock, KeyClient


def test_a_sweep_that_has_no_time_leaves_its_work_to_the_next(
    app: Flask, new_client: Callable[..., KeyClient], clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "BUSY_SECONDS", 0.0)
    clients = [new_client(org) for org in ("acme", "globex")]
    for client in clients:
        for _ in range(9):
            client.post("/api/v1/heartbeat/tick/ping")
            clock.advance(minutes=10)
    for _ in range(1_001):
        services(app).heartbeats.queue.note(services(app).tenancy.keyring.organizations()[0])

    def learned() -> list[bool]:
        return [client.get("/api/v1/jobs/tick").json["expected_at"] is not None for client in clients]

    run = services(app).background.tasks["sweep"].run
    run()
    assert learned() == [False, False]
    run()
    assert learned() == [True, True]
