"""A full disk is told and does no damage; the long form is disk_full.py, which also fills a real file system."""

import json
import random
import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from tests.crash.disk_full import Shim, fill_and_look
from tests.crash.faults import Faults
from tests.crash.kill_under_load import make_organizations
from tests.crash.senders import Ledger, Load
from tests.crash.served import file_of, new_service, running_service

pytestmark = [pytest.mark.slow, pytest.mark.compiler]


@pytest.mark.parametrize("while_full", ["nothing", "stop", "kill"])
def test_a_full_disk_is_told_and_damages_nothing(tmp_path: Path, while_full: str) -> None:
    root = tmp_path / "disk"
    root.mkdir()
    room = Shim(root)
    service = new_service(root, room.environment)
    service.log = tmp_path / "service.log"
    try:
        service.start()
        keys, ledger = make_organizations(service), Ledger()
        assert fill_and_look(service, room, keys, ledger, "full", 1.5, random.Random(1), while_full) == []
        assert room.faults.refused > 0
    finally:
        service.kill()
    assert {sent.status for sent in ledger.sent.values()} == {200, 201, 503}


def test_keys_and_organizations_on_a_full_disk(tmp_path: Path) -> None:
    """The control file is full as well: a clear error, nothing half-made, and all works when there is room."""
    faults = Faults(tmp_path)
    with running_service(tmp_path, faults.environment) as service:
        faults.set(disk_full=True)
        status, headers, body = service.ask("POST", "/api/v1/keys", body={"label": "x"})
        assert (status, json.loads(body)["error"]) == (503, "storage_full")
        assert int(headers["retry-after"]) > 0
        for arguments in (("org", "create", "second"), ("key", "create", "crash", "--label", "x")):
            with pytest.raises(subprocess.CalledProcessError) as failed:
                service.command(*arguments)
            assert failed.value.stderr == "Error: The disk is full; nothing was recorded.\n"
        faults.set(disk_full=False)
        assert [line.split()[0] for line in service.command("org", "list").splitlines()] == ["crash"]
        assert len(service.command("key", "list", "crash").splitlines()) == 1
        key = service.new_organization("second")
        assert service.ask("POST", "/api/v1/heartbeat/a/ping", key)[0] == 200
        assert service.ask("POST", "/api/v1/keys", body={"label": "x"})[0] == 201


@pytest.mark.parametrize(("reserve", "status"), [(1.5, 200), (0.5, 503)])
def test_a_query_sorts_in_memory_when_the_disk_is_low(tmp_path: Path, reserve: float, status: int) -> None:
    """With a reserve of more than what is free, sorting 5 MB does not need the disk; else it does."""
    faults = Faults(tmp_path)
    free = shutil.disk_usage(tmp_path).free
    settings = {"SQLITE_TMPDIR": str(tmp_path), "OBS_DISK_RESERVE_BYTES": str(int(free * reserve))}
    with running_service(tmp_path, {**faults.environment, **settings}) as service:
        for number in range(500):
            message = f"{number} {'x' * 10_000}"
            assert service.ask("POST", "/api/v1/heartbeat/log", body={"name": "a", "message": message})[0] == 200
        faults.set(disk_full=True)
        statement = {"query": "SELECT count(*) FROM logs BY message TOP 1 LAST 1d"}
        assert service.ask("POST", "/api/v1/dsl", body=statement)[0] == status


def test_a_disk_that_cannot_sync_acknowledges_nothing(tmp_path: Path) -> None:
    """fsync failing (a dying disk) is no success; what was told so is not there, and later heartbeats are."""
    faults = Faults(tmp_path)
    with running_service(tmp_path, faults.environment) as service:
        ledger = Ledger()
        keys = {"crash": service.key}
        for name, fails in (("a", False), ("b", True), ("c", False)):
            faults.set(syncs_fail=fails)
            with Load(service.port, keys, ledger, name, random.Random(1)) as load:
                load.wait(0.4)
        told = {
            name: {sent.status for mark, sent in ledger.sent.items() if f"{name}-" in f"{mark.job}{mark.value}"}
            for name in "abc"
        }
        assert 503 in told["b"]
        assert 503 not in told["a"] | told["c"]
        service.stop()
        with closing(sqlite3.connect(file_of(service.instance, "crash"))) as db:
            stored = db.execute("SELECT count(*) FROM events").fetchone()[0]
        assert stored == sum(mark.kind != "annotation" for mark in ledger.acknowledged())
