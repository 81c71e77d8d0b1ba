"""A disk that has little space: what stops, in which order, and that it goes on by itself."""

import errno
import os
import re
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import NamedTuple

import pytest
from flask import Flask
from flask.testing import FlaskCliRunner

from obs.cli import main
from obs.services import services
from tests.conftest import ACME, Clock, KeyClient
from tests.dashboard.conftest import Visitor

MIB = 1 << 20


class Usage(NamedTuple):
    total: int
    used: int
    free: int


class Disk:
    """The disk as the system reports it: 20 GiB, of which so much is free."""

    def __init__(self) -> None:
        self.free = 10_000 * MIB
        self.total = 20_480 * MIB

    def __call__(self, _path: object) -> Usage:
        return Usage(self.total, self.total - self.free, self.free)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    disk = Disk()
    monkeypatch.setattr(shutil, "disk_usage", disk)
    return disk


@pytest.fixture
def app(disk: Disk, make_app: Callable[..., Flask]) -> Flask:
    return make_app()


def run(app: Flask, *tasks: str) -> None:
    for task in tasks:
        services(app).background.tasks[task].run()


def leave(app: Flask, disk: Disk, free_mib: int) -> None:
    disk.free = free_mib * MIB
    run(app, "quotas and disk space")


@pytest.fixture
def admin(app: Flask, new_client: Callable[..., KeyClient]) -> Visitor:
    visitor = Visitor(app)
    assert visitor.sign_in(str(new_client("acme", "admin").key)).status_code == 302
    return visitor


def test_what_can_wait_stops_first(
    app: Flask, disk: Disk, client: KeyClient, admin: Visitor, clock: Clock, runner: FlaskCliRunner
) -> None:
    def stored(sql: str) -> int:
        with closing(sqlite3.connect(services(app).tenancy.databases.path(ACME))) as db:
            return int(db.execute(sql).fetchone()[0])

    rolled_up, indexed = "SELECT count(*) FROM rolled_up_hours", "SELECT up_to FROM indexed_messages"
    client.post("/api/v1/heartbeat/a/end?duration_ms=5", data="needle")
    clock.advance(hours=3)
    leave(app, disk, 511)
    run(app, "index of messages", "rollups")
    assert (stored(rolled_up), stored(indexed)) == (0, 0)
    refused = admin.get("/settings/backup")
    assert refused.status_code == 507
    assert "511 MiB are free, 512 MiB are reserved for heartbeats" in refused.text
    assert "The disk of the service has little free space" in admin.get("/").text
    # Everything else works.
    assert client.post("/api/v1/heartbeat/b/log", data="stored").status_code == 200
    assert client.post("/api/v1/annotations", json={"name": "n", "title": "t"}).status_code == 201
    assert client.post("/api/v1/dsl", json={"query": "SELECT job FROM runs LAST 1d"}).status_code == 200
    assert runner.invoke(main, ["org", "create", "third", "--instance", app.instance_path]).exit_code == 0

    leave(app, disk, 5_000)
    run(app, "index of messages", "rollups")
    assert stored(rolled_up) > 0
    assert stored(indexed) == 2
    with admin.get("/settings/backup") as backup:
        assert backup.status_code == 200
    assert "little free space" not in admin.get("/").text


def test_a_download_of_a_backup_leaves_the_reserve_free(app: Flask, disk: Disk, admin: Visitor) -> None:
    path = services(app).tenancy.databases.path(ACME)
    with path.open("ab") as file:
        file.truncate(100 * MIB)  # as large as if it were full
    leave(app, disk, 611)
    refused = admin.get("/settings/backup")
    assert refused.status_code == 507
    assert "611 MiB are free, 512 MiB are reserved for heartbeats" in refused.text
    leave(app, disk, 613)
    with admin.get("/settings/backup") as backup:
        assert backup.status_code == 200


def test_heartbeats_of_existing_jobs_are_recorded_to_the_last(
    app: Flask, disk: Disk, client: KeyClient, runner: FlaskCliRunner
) -> None:
    client.post("/api/v1/heartbeat/a/start")
    leave(app, disk, 255)
    for refused in (
        client.post("/api/v1/heartbeat/b/ping"),
        client.post("/api/v1/heartbeat/a/log", data="message"),
        client.post("/api/v1/annotations", json={"name": "n", "title": "t"}),
    ):
        assert (refused.status_code, refused.json["error"]) == (507, "storage_low")
        assert refused.json["hint"]
    created = runner.invoke(main, ["org", "create", "third", "--instance", app.instance_path])
    assert (created.exit_code, "255 MiB are free" in created.output) == (1, True)
    assert client.post("/api/v1/heartbeat/a/end?status=failed", data="output").json["run_status"] == "failed"
    leave(app, disk, 600)
    assert client.post("/api/v1/heartbeat/b/ping").status_code == 200


def test_a_small_disk_keeps_a_twentieth_free(disk: Disk, make_app: Callable[..., Flask]) -> None:
    disk.total = 1000 * MIB
    assert services(make_app()).tenancy.quotas.space.reserve_bytes == 50 * MIB
    assert services(make_app(DISK_RESERVE_BYTES=7)).tenancy.quotas.space.reserve_bytes == 7


def test_monitoring_warns_of_little_space(
    app: Flask, disk: Disk, caplog: pytest.LogCaptureFixture, client: KeyClient
) -> None:
    services(app).background.start()
    assert client.get("/readyz").json == {"status": "ready"}
    for free in (500, 520, 500, 600):  # at 520 it is not worth a message
        leave(app, disk, free)
        gauge = re.search(r"^obs_disk_free_bytes (.*)$", client.get("/metrics").text, re.MULTILINE)
        assert gauge is not None
        assert float(gauge[1]) == free * MIB
        low = {"disk": f"low: {free} MiB are free, 512 MiB are reserved for heartbeats"} if free < 600 else {}
        assert client.get("/readyz").json == {"status": "ready", **low}
    assert [message.partition(":")[0] for message in caplog.messages] == [
        "disk space is low",
        "disk space is sufficient again",
    ]


def test_ready_only_while_the_disk_can_be_written(
    app: Flask, client: KeyClient, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    services(app).background.start()
    synced = []
    result: list[OSError] = []

    def fsync(descriptor: int) -> None:
        synced.append(os.fstat(descriptor).st_size)
        for error in result:
            raise error

    monkeypatch.setattr(os, "fsync", fsync)
    assert client.get("/readyz").status_code == 200
    result.append(OSError(errno.ENOSPC, "No space left on device"))
    clock.advance(seconds=4)
    assert client.get("/readyz").status_code == 200
    clock.advance(seconds=1)
    for _ in range(3):
        unready = client.get("/readyz")
        assert unready.json == {"status": "unready", "disk": "cannot be written: No space left on device"}
        assert unready.status_code == 503
    result.clear()
    clock.advance(seconds=5)
    assert client.get("/readyz").status_code == 200
    assert synced == [65536] * 3
