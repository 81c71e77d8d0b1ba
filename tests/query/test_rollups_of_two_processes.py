"""Two processes roll up the same hours and days while runs change: what comes out is what the rows say."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from flask import Flask

from obs.services import services
from obs.storage.databases import Org
from tests.conftest import KeyClient

END = "/api/v1/heartbeat/mail/end"
STATEMENTS = [
    "SELECT count(*), sum(duration_ms), max(duration_ms) FROM runs WHERE {only} BY job LAST 60h",
    "SELECT count(*), sum(duration_ms) FROM runs WHERE {only} BY job EVERY 1d LAST 60h",
    "SELECT count(*), sum(duration_ms) FROM runs WHERE {only} EVERY 1h LAST 60h",
]


@pytest.mark.parametrize("interrupted", range(4))
def test_a_process_that_read_before_another_wrote_does_not_spoil_its_sums(
    app: Flask, make_app: Callable[..., Flask], client: KeyClient, monkeypatch: pytest.MonkeyPatch, interrupted: int
) -> None:
    """The other one comes in after one of the reads, and sees a run that has changed since."""
    other = services(make_app()).background.tasks["rollups"].run
    for day in (19, 20):
        for hour in range(24):
            client.post(f"{END}?time=2026-06-{day}T{hour:02}:10:00Z&duration_ms=1000")
    other()
    client.post(f"{END}?time=2026-06-20T08:20:00Z&duration_ms=2000")
    databases = services(app).tenancy.databases
    read = databases.read
    reads = 0

    @contextmanager
    def read_and_let_the_other_write(org: Org) -> Iterator[sqlite3.Connection]:
        nonlocal reads
        with read(org) as db:
            yield db
        reads += 1
        if reads == interrupted + 1:
            client.post(f"{END}?time=2026-06-20T08:30:00Z&duration_ms=4000")
            other()

    monkeypatch.setattr(databases, "read", read_and_let_the_other_write)
    services(app).background.tasks["rollups"].run()
    monkeypatch.undo()
    assert reads > min(interrupted, 2)
    for statement in STATEMENTS:
        of_rollups, of_rows = (_rows(client, statement.format(only=only)) for only in ("TRUE", "id > 0"))
        assert of_rollups == of_rows, statement
    explained = client.post("/api/v1/dsl", json={"query": f"EXPLAIN {STATEMENTS[0].format(only='TRUE')}"}).json["rows"]
    assert [row for row in explained if row[0] == "rollup"]


def _rows(client: KeyClient, statement: str) -> list[Any]:
    return list(client.post("/api/v1/dsl", json={"query": statement}).json["rows"])
