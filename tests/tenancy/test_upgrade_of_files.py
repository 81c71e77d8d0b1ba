"""Files of organizations that version 0.2 wrote, without the id in their names, are renamed when an instance opens."""

import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from flask import Flask

from obs import config
from obs.services import services
from obs.tenancy import instance
from obs.tenancy.auth import Tenancy
from tests.conftest import ACME, Clock, KeyClient

PING = "/api/v1/heartbeat/backup/ping"
OBS = (sys.executable, "-m", "obs")


def _as_killed(app: Flask, folder: Path, *names: str) -> Path:
    """A copy of the instance as 0.2 leaves it when it is killed: old names, and data in write-ahead logs."""
    shutil.copytree(app.instance_path, folder)
    for number, name in enumerate(names, 1):
        for suffix in ("", "-wal"):
            path = folder / "tenants" / f"{name}.{number}.db{suffix}"
            path.rename(path.with_name(f"{name}.db{suffix}"))
        path.with_name(f"{name}.{number}.db-shm").unlink()
    return folder


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "tenants").iterdir() if not path.name.startswith("."))


def _opened(folder: Path, clock: Clock) -> Tenancy:
    return instance.open_instance(folder, config.load(folder, {}), clock)


def _heartbeats(folder: Path, name: str) -> int:
    with closing(sqlite3.connect(folder / "tenants" / name)) as db:
        count: int = db.execute("SELECT count(*) FROM events").fetchone()[0]
        return count


def test_a_file_is_renamed_with_what_is_in_its_write_ahead_log(
    app: Flask, client: KeyClient, clock: Clock, tmp_path: Path
) -> None:
    for _ in range(5):
        assert client.post(PING).status_code == 200
    folder = _as_killed(app, tmp_path / "copy", "acme")
    _opened(folder, clock).close()
    assert _names(folder) == ["acme.1.db"]
    assert _heartbeats(folder, "acme.1.db") == 5


def test_keys_and_data_work_after_the_upgrade(
    app: Flask, client: KeyClient, make_app: Callable[..., Flask], tmp_path: Path
) -> None:
    client.post(PING)
    upgraded = make_app(INSTANCE=_as_killed(app, tmp_path / "copy", "acme")).test_client()
    headers = {"X-API-Key": str(client.key)}
    assert upgraded.post(PING, headers=headers).status_code == 200
    listed = upgraded.get("/api/v1/jobs", headers=headers).json
    assert listed is not None
    assert [job["name"] for job in listed["jobs"]] == ["backup"]


def test_processes_that_start_at_once_rename_each_file_once(
    app: Flask, client: KeyClient, other_client: KeyClient, tmp_path: Path
) -> None:
    for _ in range(3):
        client.post(PING)
        other_client.post(PING)
    folder = _as_killed(app, tmp_path / "copy", "acme", "globex")
    processes = [subprocess.Popen([*OBS, "org", "list", "--instance", folder]) for _ in range(4)]
    assert [process.wait(60) for process in processes] == [0, 0, 0, 0]
    assert _names(folder) == ["acme.1.db", "globex.2.db"]
    assert [_heartbeats(folder, name) for name in _names(folder)] == [3, 3]


def test_a_file_that_another_process_has_open_is_left_alone(
    app: Flask,
    client: KeyClient,
    other_client: KeyClient,
    clock: Clock,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Renaming it would separate the other process from the write-ahead log."""
    client.post(PING)
    other_client.post(PING)
    folder = _as_killed(app, tmp_path / "copy", "acme", "globex")
    with closing(sqlite3.connect(folder / "tenants" / "acme.db", isolation_level=None)) as other:
        other.execute("SELECT count(*) FROM events").fetchone()
        _opened(folder, clock).close()
        assert "acme.db" in _names(folder)
        assert "acme.1.db" not in _names(folder)
        assert "globex.2.db" in _names(folder)
        assert "organization acme cannot write" in caplog.text
    _opened(folder, clock).close()
    assert _heartbeats(folder, "acme.1.db") == 1


def test_a_new_file_is_never_replaced_by_an_old_one(
    app: Flask, client: KeyClient, clock: Clock, tmp_path: Path
) -> None:
    client.post(PING)
    path = services(app).tenancy.databases.path(ACME)
    path.with_name("acme.db").write_bytes(b"an old copy")
    _opened(Path(app.instance_path), clock).close()
    assert path.with_name("acme.db").read_bytes() == b"an old copy"
    assert client.post(PING).status_code == 200
