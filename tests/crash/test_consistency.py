"""The checks of the crash tests notice what they are there for: each damage done to good files is found."""

import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.crash.consistency import problems
from tests.crash.kill_under_load import make_organizations
from tests.crash.senders import Ledger, Load
from tests.crash.served import file_of, running_service


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Ledger]]:
    """The files of a service that took some load and was stopped."""
    with running_service(tmp_path_factory.mktemp("good")) as service:
        keys, ledger = make_organizations(service), Ledger()
        with Load(service.port, keys, ledger, "good", random.Random(1)) as load:
            load.wait(1)
        service.stop()
        yield service.instance, ledger


DAMAGES = {
    "an event is gone": ("DELETE FROM events WHERE id = (SELECT min(id) FROM events)", "is lost"),
    "an event is there twice": (
        "INSERT INTO events (job_id, run_id, kind, received_at, time, run_status, message, idempotency_key)"
        " SELECT job_id, run_id, kind, received_at, time, run_status, message, idempotency_key FROM events LIMIT 1",
        "2 times",
    ),
    "an annotation is gone": ("DELETE FROM annotations", "is lost"),
    "an answer was another": ("UPDATE events SET run_status = 3 WHERE run_id IS NOT NULL", "was answered"),
    "a run has lost its end": ("UPDATE runs SET status = 0, ended_at = NULL WHERE status = 1", "is open or lost"),
    "a run ended without an end": (
        "UPDATE runs SET status = 1, ended_at = started_at WHERE status IN (0, 3)",
        "ended without an end",
    ),
    "a run ended before it began": ("UPDATE runs SET ended_at = started_at - 1 WHERE status = 1", "before it started"),
    "a counter of runs is wrong": ("UPDATE jobs SET run_count = run_count + 1", "run_count"),
    "a sum of durations is wrong": ("UPDATE jobs SET total_duration_ms = total_duration_ms + 1", "total_duration_ms"),
    "the last event is wrong": ("UPDATE jobs SET last_event_id = last_event_id - 1", "last_event_id"),
    "failures are counted wrong": ("UPDATE jobs SET failures_in_row = failures_in_row + 1", "failures_in_row"),
    "a row has no parent": ("PRAGMA foreign_keys = OFF; DELETE FROM jobs", "foreign_key_check"),
}


@pytest.mark.slow
def test_good_files_are_good(good: tuple[Path, Ledger]) -> None:
    instance, ledger = good
    assert problems(instance, ledger, {mark.org for mark in ledger.sent}) == []


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_found(good: tuple[Path, Ledger], tmp_path: Path, damage: str) -> None:
    instance, ledger = good
    statements, told = DAMAGES[damage]
    (tmp_path / "tenants").mkdir()
    for path in (Path("control.db"), file_of(instance, "crash").relative_to(instance)):
        with closing(sqlite3.connect(instance / path)) as source, closing(sqlite3.connect(tmp_path / path)) as copy:
            source.backup(copy)
            if path.name != "control.db":
                copy.executescript(statements)
    assert any(told in problem for problem in problems(tmp_path, ledger, ["crash"]))


def test_a_damaged_page_is_found(good: tuple[Path, Ledger], tmp_path: Path) -> None:
    instance, ledger = good
    (tmp_path / "tenants").mkdir()
    (tmp_path / "control.db").write_bytes((instance / "control.db").read_bytes())
    held = bytearray(file_of(instance, "crash").read_bytes())
    held[-4096:] = b"\xff" * 4096
    (tmp_path / "tenants" / file_of(instance, "crash").name).write_bytes(held)
    assert problems(tmp_path, ledger, ["crash"]) != []
