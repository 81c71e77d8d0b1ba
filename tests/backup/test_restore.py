"""``obs restore``: equal to the backup, and the previous data is kept."""

import resource
import shutil
import time
from pathlib import Path

import pytest
from filelock import FileLock
from flask import Flask

from obs.backup.files import SERVER_LOCK
from obs.services import services
from obs.tenancy.auth import Tenancy
from tests.backup.conftest import file_of, stored
from tests.conftest import Clock, KeyClient
from tests.tenancy.conftest import Obs

JOBS = "/api/v1/jobs"


@pytest.fixture
def backup(obs: Obs, instance: Path, backups: Path) -> Path:
    assert obs("backup", str(backups)).exit_code == 0
    (path,) = backups.iterdir()
    return path


def _names(client: KeyClient) -> list[str]:
    return [job["name"] for job in client.get(JOBS).json["jobs"]]


def test_a_new_instance_equals_the_backup(obs: Obs, backup: Path, tmp_path: Path) -> None:
    new = tmp_path / "new"
    done = obs("restore", str(backup), "--instance", str(new))
    assert (done.exit_code, done.stderr) == (0, f"Restored {new} from {backup}.\n")
    for path in backup.rglob("*.db"):
        restored = new / path.relative_to(backup)
        assert restored.read_bytes() == path.read_bytes()
        assert restored.stat().st_mode & 0o777 == 0o600
    assert (new / "config.toml").read_text() == "port = 9999\n"
    assert not (new / "SHA256SUMS").exists()
    assert obs("org", "list", "--instance", str(new)).stdout.count("\n") == 2


def test_the_previous_instance_is_kept(obs: Obs, backup: Path, instance: Path, tmp_path: Path) -> None:
    used = tmp_path / "used"
    shutil.copytree(instance, used)
    obs("org", "create", "later", "--instance", str(used))
    done = obs("restore", str(backup), "--instance", str(used))
    assert done.exit_code == 0
    (previous,) = used.glob("previous-*")
    assert done.stderr == f"Restored {used} from {backup}. The previous data is in {previous}.\n"
    assert "later" not in obs("org", "list", "--instance", str(used)).stdout
    assert "later" in obs("org", "list", "--instance", str(previous)).stdout


def test_an_instance_with_a_running_server_is_not_replaced(obs: Obs, backup: Path, instance: Path) -> None:
    before = stored(instance / "control.db")
    with FileLock(instance / SERVER_LOCK):
        done = obs("restore", str(backup))
    assert (done.exit_code, done.stderr) == (1, f"Error: A server is running on {instance}. Stop it first.\n")
    assert stored(instance / "control.db") == before
    assert not list(instance.glob("previous-*"))


@pytest.mark.parametrize("arguments", [[], ["--org", "acme"]])
def test_damage_in_one_byte_of_a_backup_is_found(obs: Obs, backup: Path, instance: Path, arguments: list[str]) -> None:
    path = file_of(backup, "acme")
    content = bytearray(path.read_bytes())
    content[content.index(b"copied 1 files")] ^= 1  # in a text, which SQLite does not check
    path.write_bytes(content)
    before = stored(file_of(instance, "acme"))
    done = obs("restore", str(backup), *arguments)
    assert done.exit_code == 1
    assert f"{backup / 'tenants' / 'acme.'}" in done.stderr
    assert "has changed since the backup was written" in done.stderr
    assert not list(instance.glob("*.partial"))
    assert stored(file_of(instance, "acme")) == before


def test_an_organization_is_restored_while_a_server_runs(
    obs: Obs, backup: Path, instance: Path, client: KeyClient, other_client: KeyClient, tenancy: Tenancy
) -> None:
    client.post("/api/v1/heartbeat/mistake/ping")
    client.delete("/api/v1/jobs/nightly")
    before = file_of(instance, "acme")
    done = obs("restore", str(backup), "--org", "acme")
    assert done.exit_code == 0, done.output
    assert done.stderr == f"Restored acme from {backup}. The previous data is in {before}.\n"
    tenancy.keyring.reload()  # as it does within a second; its key still works
    assert _names(client) == ["nightly"]
    assert client.post("/api/v1/heartbeat/after/ping").status_code == 200
    assert _names(client) == ["after", "nightly"]
    assert _names(other_client) == ["other"]
    assert "mistake" in str(stored(before)["jobs"])
    assert "after" not in str(stored(before)["jobs"])
    assert stored(file_of(instance, "acme"))["runs"][:3] == stored(file_of(backup, "acme"))["runs"]


def test_limits_and_keys_of_a_restored_organization_stay(
    obs: Obs, tenancy: Tenancy, client: KeyClient, backup: Path, instance: Path
) -> None:
    obs("org", "set-limit", "acme", "query_max_rows", "7")
    keys = obs("key", "list", "acme").stdout
    obs("restore", str(backup), "--org", "acme")
    assert obs("key", "list", "acme").stdout == keys
    tenancy.keyring.reload()
    tenancy.quotas.watch()
    assert client.post("/api/v1/dsl", json={"query": "SELECT count(*) FROM runs EVERY 1h LAST 1d"}).json["max"] == 7


def test_no_job_is_overdue_because_of_the_time_since_the_backup(
    obs: Obs, app: Flask, backups: Path, client: KeyClient, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: clock() * 1_000_000)  # of the commands
    sweeper = services(app).background.sweeper

    def ping_hourly(times: int) -> None:
        for _ in range(times):
            clock.advance(hours=1)
            client.post("/api/v1/heartbeat/hourly/ping")
            sweeper.run()

    def of_job() -> tuple[bool, int]:
        services(app).tenancy.keyring.reload()
        sweeper.run()
        return client.get(f"{JOBS}/hourly").json["overdue"], len(client.get("/api/v1/incidents").json["incidents"])

    ping_hourly(10)
    obs("backup", str(backups / "acme.db"), "--org", "acme")
    assert obs("export", "acme", str(backups / "exported")).exit_code == 0
    ping_hourly(30)
    clock.advance(minutes=5)
    assert obs("restore", str(backups / "acme.db"), "--org", "acme").exit_code == 0
    assert of_job() == (False, 0)
    assert obs("import", "export", str(backups / "exported"), "--org", "copy").exit_code == 0
    client.key = obs("key", "create", "copy", "--label", "x", "--scope", "admin").stdout.strip()
    assert of_job() == (False, 0)
    clock.advance(days=1)
    assert of_job() == (True, 1)


def test_an_organization_under_another_name(obs: Obs, backup: Path, instance: Path) -> None:
    done = obs("restore", str(backup), "--org", "acme", "--as", "acme-before")
    assert (done.exit_code, done.stderr) == (0, f"Restored acme-before from {backup}.\n")
    assert stored(file_of(instance, "acme-before"))["runs"] == stored(file_of(instance, "acme"))["runs"]


def test_another_name_is_for_one_organization(obs: Obs, backup: Path, instance: Path) -> None:
    before = stored(instance / "control.db")
    done = obs("restore", str(backup), "--as", "acme-before")
    assert (done.exit_code, "--as needs --org." in done.stderr) == (2, True)
    assert stored(instance / "control.db") == before
    assert not list(instance.glob("previous-*"))


def test_a_file_of_one_organization(obs: Obs, instance: Path, backups: Path) -> None:
    obs("backup", str(backups / "acme.db"), "--org", "acme")
    assert obs("restore", str(backups / "acme.db"), "--org", "again").exit_code == 0
    assert stored(file_of(instance, "again"))["events"] == stored(backups / "acme.db")["events"]


def test_a_file_of_an_older_version_is_migrated(obs: Obs, instance: Path, tmp_path: Path) -> None:
    import sqlite3
    from contextlib import closing

    from sqlite_utils import Database

    import migrations.tenant

    steps = migrations.tenant.migrations
    with closing(sqlite3.connect(tmp_path / "old.db")) as db:
        steps.apply(Database(db, execute_plugins=False), stop_before="rolled_up_runs")
    assert obs("restore", str(tmp_path / "old.db"), "--org", "old").exit_code == 0
    assert "rolled_up_days" in stored(file_of(instance, "old"))


def test_what_is_no_backup_is_refused(obs: Obs, instance: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    done = obs("restore", str(tmp_path / "empty"))
    assert done.exit_code == 1
    assert f"{tmp_path / 'empty'} is not a backup: it has no SHA256SUMS." in done.stderr
    assert not list(instance.glob("*.partial"))
    (tmp_path / "text.db").write_text("no database")
    assert obs("restore", str(tmp_path / "text.db"), "--org", "acme").exit_code == 1
    assert (instance / "control.db").exists()


def test_another_organization_is_not_replaced(obs: Obs, backup: Path, instance: Path) -> None:
    before = {path.name: stored(path) for path in (instance / "tenants").glob("*.db")}
    done = obs("restore", str(backup), "--org", "acme", "--as", "globex")
    assert (done.exit_code, done.stderr) == (1, "Error: The organization 'globex' already exists.\n")
    assert {path.name: stored(path) for path in (instance / "tenants").glob("*.db")} == before


@pytest.mark.parametrize("arguments", [[], ["--org", "acme", "--as", "before"]])
def test_a_copy_for_which_there_is_no_room_leaves_nothing(
    obs: Obs, backup: Path, instance: Path, arguments: list[str]
) -> None:
    before = {path for path in instance.rglob("*") if path.is_file() and "lock" not in path.name}
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, hard))  # no file can be larger
    try:
        done = obs("restore", str(backup), *arguments)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert done.exit_code == 1
    assert done.stderr.startswith(f"Error: {instance}/")
    assert done.stderr.endswith((".db: File too large.\n", ".db: There is no room for the copy.\n"))
    assert {path for path in instance.rglob("*") if path.is_file() and "lock" not in path.name} == before
