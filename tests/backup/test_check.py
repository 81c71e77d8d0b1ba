"""``obs check``: what is wrong with any file, and repairing what is derived."""

import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from filelock import FileLock
from flask import Flask

from obs.backup.files import SERVER_LOCK
from obs.services import services
from obs.tenancy.auth import Tenancy
from obs.times import DAY_MS, HOUR_MS, format_ms
from tests.backup.conftest import file_of
from tests.conftest import Clock, KeyClient
from tests.tenancy.conftest import Obs


def _change(path: Path, sql: str) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(sql)


def _tree(folder: Path) -> dict[str, tuple[int, int]]:
    return {
        str(path): (path.stat().st_size, path.stat().st_mtime_ns if path.is_file() else 0) for path in folder.rglob("*")
    }


def test_an_instance_in_use_is_fine(obs: Obs, instance: Path) -> None:
    done = obs("check")
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr.startswith("Checked 3 files.\n")


def test_outcomes_that_came_late_are_no_difference(obs: Obs, instance: Path, clock: Clock, client: KeyClient) -> None:
    for job, newest, late in (("failing", "fail", "ok"), ("fine", "ok", "fail"), ("sent", "fail", "fail")):
        client.post(f"/api/v1/heartbeat/{job}/end?status={newest}")
        earlier = {"status": late, "run_id": "earlier", "time": format_ms(clock() - 2 * HOUR_MS)}
        assert client.post(f"/api/v1/heartbeat/{job}/end", query_string=earlier).status_code == 200
    before = client.get("/api/v1/jobs/failing").json
    done = obs("check")
    assert (done.exit_code, done.stdout) == (0, "")
    obs("check", "--repair")
    assert client.get("/api/v1/jobs/failing").json == before
    client.post("/api/v1/heartbeat/fine/end?status=ok")
    _change(file_of(instance, "acme"), "UPDATE jobs SET failures_in_row = 7 WHERE name = 'fine'")
    assert "failures_in_row of the job fine is 7, and 0 by its rows" in obs("check").stdout


def test_a_late_run_that_was_purged_is_no_difference(
    obs: Obs, instance: Path, app: Flask, clock: Clock, client: KeyClient
) -> None:
    client.post("/api/v1/heartbeat/young/ping")
    old = {"run_id": "old", "time": format_ms(clock() - 89 * DAY_MS)}
    assert client.post("/api/v1/heartbeat/young/end", query_string=old).status_code == 200
    clock.advance(hours=30)
    services(app).background.tasks["purge"].run()
    assert len(client.get("/api/v1/jobs/young/runs").json["runs"]) == 1
    assert obs("check").stdout == ""


def test_a_stopped_instance_and_a_backup_are_not_changed(
    obs: Obs, instance: Path, backups: Path, tenancy: Tenancy
) -> None:
    obs("backup", str(backups))
    tenancy.databases.close()
    tenancy.control.close()
    for folder in (instance, *backups.iterdir()):
        before = _tree(folder)
        assert not [name for name in before if name.endswith("-wal")]
        assert obs("check", "--instance", str(folder)).exit_code == 0
        assert _tree(folder) == before


def test_a_folder_that_is_no_instance_is_not_made_one(obs: Obs, tmp_path: Path) -> None:
    done = obs("check", "--instance", str(tmp_path / "nothing"))
    assert done.exit_code == 1
    assert not (tmp_path / "nothing").exists()


DERIVED = {
    "runs": ("UPDATE jobs SET run_count = 2", "run_count of the job nightly is 2, and 3 by its rows"),
    "too many runs": ("UPDATE jobs SET run_count = 4", "run_count of the job nightly is 4, and 3 by its rows"),
    "timed runs": ("UPDATE jobs SET timed_run_count = 9", "timed_run_count of the job nightly is 9, and 1 by its rows"),
    "failures": ("UPDATE jobs SET failures_in_row = 7", "failures_in_row of the job nightly is 7, and 2 by its rows"),
    "hours": ("UPDATE series_by_hour SET total = total + 1", "the totals of 2 hours, days and weeks differ"),
    "five minutes": ("UPDATE series_by_five_minutes SET last_at = 5", "the totals of 1 hours, days and weeks differ"),
    "late runs": ("UPDATE series_by_hour SET late_valued = 5", "the totals of 1 hours, days and weeks differ"),
    "days": ("UPDATE series_by_day SET most = 5", "the totals of 1 hours, days and weeks differ"),
    "durations": ("UPDATE series_by_hour SET sorted = NULL", "the totals of 2 hours, days and weeks differ"),
    "index": ("UPDATE indexed_messages SET up_to = 1000", "the index of messages ends at event 1000"),
}


@pytest.mark.parametrize("what", DERIVED)
def test_derived_data_is_compared_with_the_rows_and_repaired(
    obs: Obs, instance: Path, app: Flask, clock: Clock, client: KeyClient, what: str
) -> None:
    sql, problem = DERIVED[what]
    tasks = services(app).background.tasks
    clock.advance(days=2)
    for _ in range(2):
        tasks["rollups"].run()
    tasks["index of messages"].run()
    path = file_of(instance, "acme")
    assert obs("check").stdout == ""
    _change(path, sql)
    wrong = obs("check")
    assert wrong.exit_code == 1
    assert f"{path}: {problem}" in wrong.stdout
    services(app).tenancy.databases.close()
    assert obs("check", "--repair").exit_code == 0
    assert obs("check").stdout == ""


def test_counters_of_jobs_whose_old_runs_were_deleted(
    obs: Obs, instance: Path, app: Flask, clock: Clock, client: KeyClient
) -> None:
    path = file_of(instance, "acme")
    clock.advance(days=89, hours=23, minutes=30)
    client.post("/api/v1/heartbeat/nightly/ping")
    clock.advance(hours=1)
    services(app).background.tasks["purge"].run()
    assert [job["run_count"] for job in client.get("/api/v1/jobs").json["jobs"]] == [4]
    assert obs("check").stdout == ""
    _change(path, "UPDATE jobs SET run_count = 0")
    assert "run_count of the job nightly is 0, and 1 by its rows" in obs("check").stdout


def test_no_repair_beside_a_server(obs: Obs, instance: Path) -> None:
    with FileLock(instance / SERVER_LOCK):
        done = obs("check", "--repair")
    assert (done.exit_code, done.stderr) == (1, f"Error: A server is running on {instance}. Stop it first.\n")


def _overwrite(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[4096 * 2 : 4096 * 3] = b"\xff" * 4096
    path.write_bytes(content)


FILES: dict[str, tuple[Callable[[Path], object], str]] = {
    "damaged": (_overwrite, ""),
    "missing": (lambda path: path.unlink(), ""),
    "dangling": (lambda path: _change(path, "UPDATE runs SET job_id = 77 WHERE id = 1"), "a missing row of jobs"),
    "older": (
        lambda path: _change(path, "DELETE FROM _sqlite_migrations WHERE name = 'annotations'"),
        "it lacks the step annotations of the schema, which obs serve adds",
    ),
    "newer": (
        lambda path: _change(
            path, "INSERT INTO _sqlite_migrations (migration_set, name, applied_at) VALUES ('tenant', 'tomorrow', '')"
        ),
        "it has the step tomorrow of the schema, of a newer version",
    ),
}


@pytest.mark.parametrize("what", FILES)
def test_every_file_is_checked(obs: Obs, instance: Path, tenancy: Tenancy, what: str) -> None:
    tenancy.databases.close()
    path = file_of(instance, "acme")
    damage, problem = FILES[what]
    damage(path)
    done = obs("check")
    assert done.exit_code == 1
    assert done.stdout.startswith(f"{path}: ")
    assert problem in done.stdout


@pytest.mark.parametrize("what", FILES)
def test_what_cannot_be_repaired_is_named_and_the_others_are_repaired(
    obs: Obs, instance: Path, tenancy: Tenancy, what: str
) -> None:
    tenancy.databases.close()
    path, other = file_of(instance, "acme"), file_of(instance, "globex")
    FILES[what][0](path)
    _change(other, "UPDATE jobs SET run_count = 9")
    done = obs("check", "--repair")
    assert (done.exit_code, done.stdout.count(str(path))) == (1, len(done.stdout.splitlines()))
    assert f"Repaired {other}: " in done.stderr


def test_damage_in_one_byte_of_a_backup(obs: Obs, instance: Path, backups: Path) -> None:
    obs("backup", str(backups))
    (backup,) = backups.iterdir()
    assert obs("check", "--instance", str(backup)).exit_code == 0
    path = backup / "secret_key"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    done = obs("check", "--instance", str(backup))
    assert done.exit_code == 1
    assert f"{path} has changed since the backup was written" in done.stderr
