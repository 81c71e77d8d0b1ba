"""Background work visits only the organizations that changed; only the hourly purge visits all of them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from flask import Flask

from obs.services import services
from obs.storage.databases import Org
from tests.conftest import Clock, KeyClient

TASKS = ("sweep", "index of messages", "rollups")
"""The purge runs once an hour and visits all."""


@pytest.fixture
def run_tasks(app: Flask, monkeypatch: pytest.MonkeyPatch) -> Callable[[], set[str]]:
    """Runs all tasks once; returns the organizations whose files they used."""
    databases = services(app).tenancy.databases
    used: set[str] = set()
    read, write = databases.read, databases.write

    @contextmanager
    def noted_read(org: Org) -> Iterator[object]:
        used.add(str(org))
        with read(org) as db:
            yield db

    def noted_write(org: Org, unit: object) -> object:
        used.add(str(org))
        return write(org, unit)  # type: ignore[arg-type]

    monkeypatch.setattr(databases, "read", noted_read)
    monkeypatch.setattr(databases, "write", noted_write)

    def run() -> set[str]:
        used.clear()
        for name in TASKS:
            services(app).background.tasks[name].run()
        return set(used)

    return run


def rest(run_tasks: Callable[[], set[str]]) -> None:
    """Run the tasks until they have nothing to do: they look once more at what they wrote themselves."""
    assert any(not run_tasks() for _ in range(5))


def test_the_files_of_idle_organizations_are_not_used(
    run_tasks: Callable[[], set[str]], new_client: Callable[..., KeyClient], clock: Clock
) -> None:
    acme, globex = new_client("acme"), new_client("globex")
    for client in (acme, globex):
        client.post("/api/v1/heartbeat/tick/log", data="a message")
    assert run_tasks() == {"acme", "globex"}
    rest(run_tasks)
    for _ in range(3):
        clock.advance(minutes=1)
        assert run_tasks() == set()
    acme.post("/api/v1/heartbeat/tick/log", data="another message")
    assert run_tasks() == {"acme"}
    clock.advance(hours=1)
    assert run_tasks() == {"acme", "globex"}


def test_an_annotation_and_a_change_by_a_user_are_seen(
    run_tasks: Callable[[], set[str]], new_client: Callable[..., KeyClient]
) -> None:
    acme = new_client("acme", "admin", "annotations:write", "heartbeat:write")
    acme.post("/api/v1/heartbeat/tick/ping")
    rest(run_tasks)
    assert acme.post("/api/v1/annotations", json={"name": "deploy", "title": "x"}).status_code == 201
    assert run_tasks() == {"acme"}
    rest(run_tasks)
    assert acme.patch("/api/v1/jobs/tick", json={"paused": True}).status_code == 200
    assert run_tasks() == {"acme"}
