"""Deleting an organization while a server has its file open: nothing is acknowledged into the deleted file."""

import os
import shutil
import signal
import sqlite3
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from obs.errors import ServiceError
from obs.storage.connection import copy
from obs.storage.databases import Databases
from obs.storage.file import FileOptions
from obs.tenancy import service
from obs.tenancy.auth import Tenancy
from tests.conftest import ACME, KeyClient
from tests.crash.served import Service, file_of, new_service
from tests.storage.conftest import numbers

PING = "/api/v1/heartbeat/backup/ping"
SENDERS = 8


def test_no_request_after_the_deletion_is_answered(client: KeyClient, tenancy: Tenancy, other_process: Tenancy) -> None:
    """The server has the file open, and checks the control file for changes only four times a second."""
    for _ in range(3):
        assert client.post(PING).status_code == 200
    service.delete_organization(other_process, ACME)
    new = service.create_organization(other_process, "acme")
    posts = [(PING, {}), ("/api/v1/annotations", {"name": "a", "title": "b"})]
    assert {client.post(path, json=body).status_code for path, body in posts} <= {401, 503}
    tenancy.keyring.reload()
    assert {client.post(path, json=body).status_code for path, body in posts} == {401}
    with other_process.databases.read(new) as db:
        assert db.execute("SELECT count(*) FROM events").fetchone()[0] == 0


def test_a_file_that_was_deleted_by_another_process_is_not_written(tmp_path: Path) -> None:
    mine, theirs = (Databases(tmp_path, FileOptions(numbers(), 5, 9), 9) for _ in range(2))
    mine.create(ACME)
    mine.write(ACME, lambda db: db.execute("INSERT INTO numbers VALUES (1)"))
    theirs.delete(ACME)
    for _ in range(2):  # with the file open, and opening it again
        with pytest.raises(ServiceError, match="missing"):
            mine.write(ACME, lambda db: db.execute("INSERT INTO numbers VALUES (2)"))
    assert not list(tmp_path.glob("acme*"))
    mine.close()


def test_a_file_that_comes_back_is_used_again(tmp_path: Path) -> None:
    databases = Databases(tmp_path, FileOptions(numbers(), 5, 9), 9)
    databases.create(ACME)
    databases.write(ACME, lambda db: db.execute("INSERT INTO numbers VALUES (1)"))
    with databases.read(ACME) as db:
        copy(db, tmp_path / "copy.db")
    databases.path(ACME).unlink()
    with pytest.raises(ServiceError, match="missing"):
        databases.write(ACME, lambda db: db.execute("INSERT INTO numbers VALUES (2)"))
    for suffix in ("-wal", "-shm"):
        databases.path(ACME).with_name(databases.path(ACME).name + suffix).unlink(missing_ok=True)
    (tmp_path / "copy.db").rename(databases.path(ACME))
    databases.write(ACME, lambda db: db.execute("INSERT INTO numbers VALUES (2)"))
    with databases.read(ACME) as db:
        assert [row[0] for row in db.execute("SELECT number FROM numbers")] == [1, 2]
    databases.close()


def test_a_file_that_another_process_has_locked_is_not_deleted(tmp_path: Path) -> None:
    databases = Databases(tmp_path, FileOptions(numbers(), 0, 9), 9)
    databases.create(ACME)
    with closing(sqlite3.connect(databases.path(ACME), isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(ServiceError) as refused:
            databases.delete(ACME)
    assert refused.value.error == "storage_busy"
    assert databases.path(ACME).exists()
    databases.close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Service]:
    started = new_service(tmp_path, {"OBS_BUSY_SECONDS": "1", "OBS_WRONG_KEYS_PER_MINUTE": "1000000"})
    started.start()
    yield started
    assert started.process is not None
    os.killpg(started.process.pid, signal.SIGCONT)
    started.kill()


class Senders:
    """Clients that send heartbeats without a pause until `stop`, each with a message of its own."""

    def __init__(self, server: Service, key: str, name: str) -> None:
        self.acknowledged: set[str] = set()
        self.statuses: set[int] = set()
        self._server, self._key = server, key
        self._stopped = threading.Event()
        self._threads = [
            threading.Thread(target=self._send, args=(f"{name}-{n}",), daemon=True)  # a test that fails stops none
            for n in range(SENDERS)
        ]
        for thread in self._threads:
            thread.start()

    def _send(self, name: str) -> None:
        number = 0
        while not self._stopped.is_set():
            message = f"{name}-{number}"
            number += 1
            try:
                status = self._server.ask(
                    "POST", "/api/v1/heartbeat/ping", self._key, {"name": "backup", "message": message}
                )[0]
            except OSError:  # the server is stopped, or its worker was replaced: the message was not acknowledged
                continue
            self.statuses.add(status)
            if status == 200:
                self.acknowledged.add(message)

    def work(self) -> bool:
        """Whether the server and all senders still work, after a short wait."""
        assert self._server.process is not None
        self._threads[0].join(0.01)
        return self._server.process.poll() is None and all(thread.is_alive() for thread in self._threads)

    def stop(self) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join()


def _messages(path: Path) -> set[str]:
    with closing(sqlite3.connect(path)) as db:
        return {row[0] for row in db.execute("SELECT message FROM events")}


@pytest.mark.crash
@pytest.mark.slow
@pytest.mark.parametrize(("stopped", "rounds"), [(True, 2), (False, 1)])
def test_a_server_that_runs_or_was_stopped_acknowledges_nothing_into_a_deleted_file(
    server: Service, tmp_path: Path, stopped: bool, rounds: int
) -> None:
    """The deleted file is kept under another name, as it was when the deletion was done."""
    assert server.process is not None
    keys: dict[int, str] = {}
    for number in range(rounds):
        key = keys.get(number - 1) or server.new_organization("acme")
        senders = Senders(server, key, f"round{number}")
        while len(senders.acknowledged) < 50:
            assert senders.work()
        path = file_of(server.instance, "acme")
        kept = tmp_path / f"{number}.db"
        for suffix in ("", "-wal"):
            os.link(f"{path}{suffix}", f"{kept}{suffix}")
        _delete(server, stopped=stopped)
        for suffix in ("-wal", ""):  # in this order, a checkpoint meanwhile does no harm
            shutil.copy(f"{kept}{suffix}", f"{kept}.copy{suffix}")
        server.command("org", "create", "acme")
        keys[number] = server.command("key", "create", "acme", "--label", "new", "--scope", "admin")
        os.killpg(server.process.pid, signal.SIGCONT)
        while 401 not in senders.statuses:
            assert senders.work()
        senders.stop()
        # 408: its body waited while the server was stopped. 503: its key was not yet known to be deleted.
        assert senders.statuses <= {200, 401, 408, 503}
        assert senders.acknowledged <= _messages(Path(f"{kept}.copy"))
        assert _messages(file_of(server.instance, "acme")) == set()


def _delete(server: Service, *, stopped: bool) -> None:
    """Delete ``acme``. A server that was stopped within a transaction has to go on before."""
    assert server.process is not None
    for _ in range(100):
        if stopped:
            os.killpg(server.process.pid, signal.SIGSTOP)
        try:
            server.command("org", "delete", "acme", "--yes")
        except subprocess.CalledProcessError as error:
            if "file is busy" not in error.stderr:
                raise
        else:
            return
        os.killpg(server.process.pid, signal.SIGCONT)
    raise AssertionError("the file was always locked")
