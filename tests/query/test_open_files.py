"""A query process keeps a file open for the next query, but not for long, and never the wrong one."""

import sqlite3
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, cast

import pytest
from flask import Flask

from obs import SOURCES
from obs.errors import ServiceError
from obs.query.execution.run import Engine, QueryRequest, QueryResponse
from obs.query.execution.session import Limits, Reader, open_session
from obs.query.execution.workers import serve
from obs.query.language.check import check
from obs.query.language.grammar import parse
from obs.query.language.plan import Plan
from obs.query.sql.select import SqlStatement
from obs.services import services
from tests.conftest import ACME, KeyClient

LIMITS = Limits(max_rows=10, max_bytes_scanned=1 << 30, max_seconds=5, max_length=1_000, rate_per_minute=1)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "acme.db"
    _create(path, 1)
    return path


@pytest.fixture
def reader() -> Iterator[Reader]:
    reader = Reader(keeps=True)
    yield reader
    reader.close()


def _create(path: Path, number: int) -> None:
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE numbers AS SELECT ? AS number", (number,))
    db.close()


def _number(reader: Reader, path: Path) -> int:
    with reader.open(path) as opened:
        opened.connection.execute("BEGIN")
        number: int = opened.connection.execute("SELECT number FROM numbers").fetchone()[0]
        return number


def test_the_next_query_sees_what_was_written_meanwhile(reader: Reader, path: Path) -> None:
    assert _number(reader, path) == 1
    with sqlite3.connect(path) as db:
        db.execute("UPDATE numbers SET number = 2")
    db.close()
    assert _number(reader, path) == 2


def test_a_file_that_was_created_again_is_opened_again(reader: Reader, path: Path) -> None:
    assert _number(reader, path) == 1
    path.unlink()
    with pytest.raises(sqlite3.OperationalError):
        _number(reader, path)
    _create(path, 3)
    assert _number(reader, path) == 3


def test_another_file_is_read_from_its_own_connection(reader: Reader, path: Path, tmp_path: Path) -> None:
    other = tmp_path / "globex.db"
    _create(other, 7)
    assert [_number(reader, each) for each in (path, other, path, path)] == [1, 7, 1, 1]


def test_each_query_reads_only_its_own_tables(app: Flask, client: KeyClient, reader: Reader) -> None:
    """Also where SQLite has compiled the same statement before, for a query that may read its table."""
    path = services(app).tenancy.databases.path(ACME)
    known = {source.name: source for source in SOURCES}
    for name, other in (("runs", "annotations"), ("annotations", "runs"), ("runs", "annotations")) * 2:
        plan = check(parse(text := f"SELECT count(*) FROM {name} LAST 1d", {}), text, known)
        assert isinstance(plan, Plan)
        with open_session(path, plan, [], LIMITS, reader) as session:
            assert session.fetch(SqlStatement(f"SELECT count(*) FROM {name}", {})) == [(0,)]
            with pytest.raises(sqlite3.DatabaseError, match="not authorized"):
                session.fetch(SqlStatement(f"SELECT count(*) FROM {other}", {}))


def test_a_query_can_search_texts_after_the_schema_has_changed(app: Flask, client: KeyClient, reader: Reader) -> None:
    """As a migration changes it: SQLite opens the index again, for which it reads tables of its own."""
    client.post("/api/v1/heartbeat/backup/log", json={"message": "disk full"})
    services(app).tenancy.databases.forget(ACME)
    path, engine = services(app).tenancy.databases.path(ACME), Engine(SOURCES, reader)
    text = "SELECT count(*) FROM logs WHERE message CONTAINS 'disk' LAST 1h"
    request = QueryRequest(text, path, services(app).tenancy.clock() + 1, LIMITS)
    before = engine.run(request).body
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE added (number)")
    db.close()
    assert b'"rows":[[1]]' in before
    assert engine.run(request).body == before


def test_the_connection_of_a_query_that_failed_is_closed(reader: Reader, path: Path) -> None:
    with pytest.raises(ServiceError), reader.open(path) as opened:
        raise ServiceError("query_busy")
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        opened.connection.execute("SELECT 1")
    assert _number(reader, path) == 1


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="this system does not list the files of a process")
def test_a_damaged_file_is_closed(reader: Reader, path: Path) -> None:
    path.write_bytes(b"no database" * 1_000)
    request = QueryRequest("SELECT count(*) FROM runs LAST 1h", path, 1_782_000_000_000, LIMITS)
    with pytest.raises(ServiceError) as caught:
        Engine(SOURCES, reader).run(request)
    assert caught.value.status == 503
    assert path.name not in _open_files()


def _open_files() -> list[str]:
    return [link.readlink().name for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]


class _Service:
    """The service's end of a connection to a query process: sends `requests`, and then none for a while."""

    def __init__(self, requests: list[Any], path: Path) -> None:
        self.requests, self.path = requests, path
        self.responses: list[Any] = []
        self.was_open: list[bool] = []

    def poll(self, seconds: float) -> bool:
        assert 0 < seconds <= 5
        self.was_open.append(self._is_open())
        return bool(self.requests)

    def recv(self) -> Any:
        if not self.requests:
            self.was_open.append(self._is_open())
            raise EOFError
        return self.requests.pop(0)

    def send(self, response: Any) -> None:
        self.responses.append(response)

    def _is_open(self) -> bool:
        return self.path.name in _open_files()


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="this system does not list the files of a process")
def test_a_process_without_a_query_closes_the_file(app: Flask, client: KeyClient) -> None:
    client.post("/api/v1/heartbeat/backup/ping")
    databases = services(app).tenancy.databases
    databases.forget(ACME)  # the test's own process has it open too
    request = QueryRequest(
        "SELECT count(*) FROM runs LAST 1h", databases.path(ACME), services(app).tenancy.clock() + 1, LIMITS
    )
    service = _Service([SOURCES, request, request], databases.path(ACME))
    with pytest.raises(EOFError):
        serve(cast("Connection", service))
    results = [each.body for each in service.responses if isinstance(each, QueryResponse)]
    assert len(results) == 2
    assert b'"rows":[[1]]' in results[0]
    assert results[0] == results[1]
    assert service.was_open == [False, True, True, False]
