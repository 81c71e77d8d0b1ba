"""A file of an earlier version keeps what it knows of its jobs."""

import sqlite3
from pathlib import Path

import pytest
from sqlite_utils import Database

import migrations.tenant
from obs.heartbeat.store import jobs, rollups
from obs.storage.file import migrate


def _file_before(path: Path, step: str) -> None:
    database = Database(path)
    migrations.tenant.migrations.apply(database, stop_before=step)
    database.close()


def _file_of_version_0_1(path: Path, *names: str) -> None:
    _file_before(path, "renamed_expectations")
    with sqlite3.connect(path) as db:
        db.executemany(
            "INSERT INTO jobs (name, created_at, last_heartbeat_at, last_event_id, learned_event_id,"
            " expected_interval_ms, next_expected, overdue_from, lateness_ms)"
            " VALUES (?, 1, 2, 7, 7, 60, 70, 80, 9)",
            [(name,) for name in names],
        )
    db.close()


def test_what_was_expected_of_a_job_stays(tmp_path: Path) -> None:
    path = tmp_path / "acme.db"
    _file_of_version_0_1(path, "backup")
    migrate(path, migrations.tenant.migrations, 5)
    db = sqlite3.connect(path)
    db.row_factory = sqlite3.Row
    job = jobs.job(db, "backup", now_ms=75)
    assert job is not None
    grace_ms = db.execute("SELECT grace_ms FROM jobs").fetchone()["grace_ms"]
    db.close()
    assert (job.interval_ms, job.expected_at, job.overdue_at, grace_ms, job.status) == (60, 70, 80, 9, "late")


def test_names_of_jobs_are_normalized_unless_the_name_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "acme.db"
    _file_of_version_0_1(path, "gro\u0308\u00dfe", "u\u0308ber", "\u00fcber", "plain")
    migrate(path, migrations.tenant.migrations, 5)
    with sqlite3.connect(path) as db:
        names = {row[0] for row in db.execute("SELECT name FROM jobs")}
    db.close()
    assert names == {"gr\u00f6\u00dfe", "u\u0308ber", "\u00fcber", "plain"}


def test_the_average_of_all_runs_becomes_that_of_recent_successful_ones(tmp_path: Path) -> None:
    path = tmp_path / "acme.db"
    _file_before(path, "first_heartbeats_and_recent_durations")
    with sqlite3.connect(path) as db:
        db.executemany(
            "INSERT INTO jobs (id, name, created_at, last_heartbeat_at, last_event_id, timed_run_count,"
            " total_duration_ms) VALUES (?, ?, 100000, 200000, 1, 9, 9)",
            [(1, "backup"), (2, "silent")],
        )
        runs = [(second * 1_000, 1 if second % 2 else 2, 500 if second < 50 else 70) for second in range(100)]
        db.executemany(
            "INSERT INTO runs (job_id, status, started_at, duration_ms, heartbeat_at) VALUES (1, ?2, ?1, ?3, ?1)", runs
        )
    db.close()
    migrate(path, migrations.tenant.migrations, 5)
    db = sqlite3.connect(path)
    db.row_factory = sqlite3.Row
    found = [jobs.job(db, name, now_ms=0) for name in ("backup", "silent")]
    db.close()
    assert [(job.avg_duration_ms, job.first_heartbeat_at) for job in found if job] == [(70, 0), (None, 100_000)]


def test_the_series_of_all_jobs_keep_their_cells(tmp_path: Path) -> None:
    path = tmp_path / "acme.db"
    _file_before(path, "counts_of_hours")
    with sqlite3.connect(path) as db:
        db.execute("INSERT INTO jobs (id, name, created_at, last_heartbeat_at, last_event_id) VALUES (1, 'a', 0, 0, 1)")
        db.execute("INSERT INTO runs (job_id, status, started_at, duration_ms, heartbeat_at) VALUES (1, 1, 7, 5, 9)")
        db.execute("INSERT INTO events (job_id, run_id, kind, received_at, time) VALUES (1, 1, 3, 9, 9)")
        for job, status, kind in ((1, 1, None), (None, 1, None), (1, None, 3), (None, None, 3)):
            db.execute("INSERT INTO series (job_id, status, kind) VALUES (?, ?, ?)", (job, status, kind))
        for unit in ("hour", "five_minutes"):
            cell = f"INSERT INTO series_by_{unit} (series_id, {unit}, runs, first_at, last_at, valued, late_valued)"
            db.executemany(f"{cell} VALUES (?, 0, 1, 7, 7, 0, 0)", [(1,), (2,), (3,), (4,)])
    db.close()
    migrate(path, migrations.tenant.migrations, 5)
    db = sqlite3.connect(path)
    assert db.execute("SELECT id FROM series ORDER BY job_id, kind").fetchall() == [(-2,), (-12,), (1,), (3,)]
    for unit in ("hour", "five_minutes"):
        kept = db.execute(f"SELECT series_id FROM series_by_{unit} ORDER BY 1").fetchall()
        assert kept == [(-12,), (-2,), (1,), (3,)]
    assert db.execute("PRAGMA foreign_key_check").fetchall() == []
    db.close()


@pytest.mark.parametrize(
    ("step", "unit"),
    [
        ("hours_in_order_of_time", "hour"),
        ("days_and_weeks_in_order_of_time", "day"),
        ("days_and_weeks_in_order_of_time", "week"),
    ],
)
def test_units_stay_rolled_up_when_their_cells_are_put_in_order_of_time(
    tmp_path: Path, step: str, unit: rollups.Unit
) -> None:
    path = tmp_path / "acme.db"
    _file_before(path, step)
    hours = {"hour": 3, "day": 24, "week": 168}[unit]
    with sqlite3.connect(path) as db:
        db.execute("INSERT INTO jobs (id, name, created_at, last_heartbeat_at, last_event_id) VALUES (1, 'a', 0, 0, 1)")
        runs = [(minute * 60_000, 1 + minute % 2, minute, minute) for minute in range(0, hours * 60, 7)]
        columns = "started_at, status, duration_ms, late_ms, job_id, heartbeat_at"
        db.executemany(f"INSERT INTO runs ({columns}) VALUES (?, ?, ?, ?, 1, 9)", runs)
        units: dict[rollups.Unit, int] = {"hour": hours, "day": hours // 24, "week": hours // 168}
        for each, count in units.items():
            for number in range(count):
                rollups.note_attempt(db, each, number, attempt=7)
                assert rollups.keep(db, each, number, rollups.read(db, each, number), attempt=7)
        read = f"SELECT series_id, {unit}, runs, total, sorted, late_sorted FROM series_by_{unit} ORDER BY 1, 2"
        before = db.execute(read).fetchall()
    db.close()
    migrate(path, migrations.tenant.migrations, 5)
    db = sqlite3.connect(path)
    assert db.execute(read).fetchall() == before != []
    assert rollups.outdated(db) == 0
    assert rollups.hours_to_roll_up(db, 0, hours + 1) == [hours]
    assert db.execute("SELECT sum(runs) FROM counted_runs WHERE job_id = 1").fetchone() == (len(runs),)
    db.close()
