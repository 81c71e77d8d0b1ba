"""Work in batches: their size follows the time that they take, and background work pauses between them."""

import sqlite3
import time
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
from flask import Flask

from obs.services import services
from obs.storage.databases import Databases, in_batches
from obs.tenancy import auth
from tests.conftest import ACME


class WindingDown:
    """Records pauses instead of waiting; it is set during pause number `set_at`."""

    def __init__(self, set_at: int | None = None) -> None:
        self.pauses: list[float] = []
        self._set_at = set_at

    def wait(self, seconds: float) -> bool:
        self.pauses.append(seconds)
        return len(self.pauses) == self._set_at


@pytest.fixture
def databases(app: Flask, client: Any) -> Databases:
    """Databases in which ``acme`` has 5,000 annotations."""
    tenancy: auth.Tenancy = services(app).tenancy
    tenancy.databases.write(
        ACME,
        lambda db: db.executemany(
            "INSERT INTO annotations (name, title, start_time, created_at, updated_at) VALUES ('x', 'x', ?, 0, 0)",
            ((number,) for number in range(5_000)),
        ),
    )
    return tenancy.databases


def _delete(db: sqlite3.Connection, limit: int) -> int:
    return db.execute("DELETE FROM annotations WHERE id IN (SELECT id FROM annotations LIMIT ?)", (limit,)).rowcount


def test_pauses_limit_the_share_of_the_writers_time(databases: Databases, monkeypatch: pytest.MonkeyPatch) -> None:
    winding_down = WindingDown()
    monkeypatch.setattr(databases, "winding_down", winding_down)
    ticks = count()
    clock = SimpleNamespace(perf_counter=lambda: next(ticks) / 100, monotonic=time.monotonic)
    monkeypatch.setattr("obs.storage.databases.time", clock)
    assert in_batches(databases, ACME, _delete, share=0.2) == 5_000
    assert len(winding_down.pauses) > 10
    assert winding_down.pauses == [pytest.approx(0.04)] * len(winding_down.pauses)


def test_work_without_a_share_does_not_pause(databases: Databases, monkeypatch: pytest.MonkeyPatch) -> None:
    winding_down = WindingDown(set_at=1)
    monkeypatch.setattr(databases, "winding_down", winding_down)
    assert in_batches(databases, ACME, _delete) == 5_000
    assert winding_down.pauses == []


def test_closing_the_instance_stops_the_work(databases: Databases, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(databases, "winding_down", WindingDown(set_at=2))
    assert 0 < in_batches(databases, ACME, _delete, share=0.5) < 100


def test_the_work_stops_after_its_time(databases: Databases) -> None:
    assert in_batches(databases, ACME, _delete, seconds=0) == 10
