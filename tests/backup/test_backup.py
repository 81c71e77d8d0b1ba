"""``obs backup``: complete, verified, private, and out of the way."""

import errno
import os
import resource
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest
from filelock import FileLock

from obs.storage.databases import Org
from obs.tenancy import service, store
from obs.tenancy.auth import Tenancy
from tests.backup.conftest import file_of, stored
from tests.conftest import KeyClient
from tests.tenancy.conftest import Obs


def _only(folder: Path) -> Path:
    (found,) = folder.iterdir()
    return found


def test_a_backup_has_every_file_and_nothing_is_printed(obs: Obs, instance: Path, backups: Path) -> None:
    done = obs("backup", str(backups))
    assert (done.exit_code, done.output) == (0, "")
    backup = _only(backups)
    assert stored(backup / "control.db") == stored(instance / "control.db")
    for org in ("acme", "globex"):
        assert stored(file_of(backup, org)) == stored(file_of(instance, org))
    assert (backup / "config.toml").read_text() == "port = 9999\n"
    assert (backup / "secret_key").read_text() == (instance / "secret_key").read_text()
    names = {str(path.relative_to(backup)) for path in backup.rglob("*") if path.is_file()}
    orgs = {f"tenants/{file_of(instance, org).name}" for org in ("acme", "globex")}
    assert names == {"control.db", "config.toml", "secret_key", "SHA256SUMS"} | orgs
    subprocess.run(["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], cwd=backup, check=True)


def test_only_the_owner_can_read_a_backup(obs: Obs, instance: Path, backups: Path) -> None:
    obs("backup", str(backups))
    obs("backup", str(backups / "one.db"), "--org", "acme")
    for path in backups.rglob("*"):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path


def test_one_organization_is_written_into_a_file_which_is_replaced(
    obs: Obs, instance: Path, backups: Path, client: KeyClient
) -> None:
    path = backups / "acme.db"
    for _ in range(2):
        client.post("/api/v1/heartbeat/nightly/ping")
        assert obs("backup", str(path), "--org", "acme").exit_code == 0
        assert stored(path) == stored(file_of(instance, "acme"))
    assert _only(backups) == path


def test_a_target_without_room_is_named(obs: Obs, instance: Path, backups: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, hard))
    try:
        done = obs("backup", str(backups / "one.db"), "--org", "acme")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert done.exit_code == 1
    assert f"Error: {backups}/" in done.output
    assert "There is no room for the copy." in done.output
    assert list(backups.iterdir()) == []


def test_the_newest_backups_are_kept(obs: Obs, instance: Path, backups: Path) -> None:
    for day in ("2020-01-01", "2020-01-02", "2020-01-03"):
        (backups / f"obs-{day}T000000Z").mkdir()
    (backups / "notes").mkdir()
    assert obs("backup", str(backups), "--keep", "2").exit_code == 0
    names = sorted(path.name for path in backups.iterdir())
    assert names[:2] == ["notes", "obs-2020-01-03T000000Z"]
    assert len(names) == 3


@pytest.mark.parametrize("keep", [1, 2, 3])
def test_a_new_backup_is_kept_although_the_clock_was_ahead_before(
    obs: Obs, instance: Path, backups: Path, keep: int
) -> None:
    for year in (2098, 2099):
        (backups / f"obs-{year}-01-01T000000Z").mkdir()
    assert obs("backup", str(backups), "--keep", str(keep)).exit_code == 0
    first, *others = sorted(path.name for path in backups.iterdir())
    assert first < "obs-2098"
    assert others == ["obs-2098-01-01T000000Z", "obs-2099-01-01T000000Z"][3 - keep :]


@pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS])
def test_a_file_system_without_links_gets_a_complete_backup(
    obs: Obs, instance: Path, backups: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def link(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", link)
    done = obs("backup", str(backups))
    assert (done.exit_code, done.output) == (0, "")
    backup = _only(backups)
    assert sorted(path.name for path in backup.iterdir()) == [
        *("SHA256SUMS", "config.toml", "control.db"),
        *("secret_key", "tenants"),
    ]
    assert (backup / "SHA256SUMS").stat().st_mode & 0o777 == 0o600
    subprocess.run(["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], cwd=backup, check=True)


def test_a_damaged_file_is_named_and_leaves_the_earlier_backups(
    obs: Obs, instance: Path, backups: Path, tenancy: Tenancy
) -> None:
    (backups / "obs-2020-01-01T000000Z").mkdir()
    tenancy.databases.close()
    path = file_of(instance, "globex")
    content = bytearray(path.read_bytes())
    content[8192:12288] = b"\xff" * 4096
    path.write_bytes(content)
    done = obs("backup", str(backups), "--keep", "1")
    assert done.exit_code == 1
    assert str(path) in done.stderr
    assert _only(backups).name == "obs-2020-01-01T000000Z"


def test_a_missing_file_is_named(obs: Obs, instance: Path, backups: Path) -> None:
    path = file_of(instance, "globex")
    path.rename(instance / "lost.db")
    done = obs("backup", str(backups))
    assert done.exit_code == 1
    assert str(path) in done.stderr
    assert not list(backups.iterdir())


def test_what_a_killed_backup_has_left_is_deleted(obs: Obs, instance: Path, backups: Path) -> None:
    assert obs("backup", str(backups)).exit_code == 0
    (name,) = {path.name for path in _partial_names(obs, instance, backups)}
    (backups / name / "tenants").mkdir(parents=True)
    assert obs("backup", str(backups / "one.db"), "--org", "acme").exit_code == 0
    assert not (backups / name).exists()


def _partial_names(obs: Obs, instance: Path, backups: Path) -> list[Path]:
    """The temporary names that a backup uses, seen while its lock and a copy are in its way."""
    from obs.backup.copies import unnamed

    with unnamed(instance, backups) as path:
        return [path]


def test_two_backups_of_an_instance_do_not_run_at_once(obs: Obs, instance: Path, backups: Path) -> None:
    with FileLock(instance / ".backup.lock"):
        done = obs("backup", str(backups))
    assert (done.exit_code, done.stderr) == (1, f"Error: Another backup of {instance} is running.\n")


@pytest.mark.parametrize("target", ["missing", "missing/acme.db"])
def test_the_folder_is_not_created(obs: Obs, instance: Path, backups: Path, target: str) -> None:
    # It may be on a disk that is not mounted.
    arguments = ["--org", "acme"] if target.endswith(".db") else []
    assert obs("backup", str(backups / target), *arguments).exit_code == 1
    assert not list(backups.iterdir())


@pytest.mark.parametrize("target", ["control.db", "tenants/new.db"])
def test_a_backup_replaces_no_file_of_the_instance(obs: Obs, instance: Path, target: str) -> None:
    before = (instance / "control.db").read_bytes()
    done = obs("backup", str(instance / target), "--org", "acme")
    assert (done.exit_code, "in the folder of the instance" in done.stderr) == (2, True)
    assert (instance / "control.db").read_bytes() == before


def test_an_unknown_organization_and_a_folder_that_is_no_instance(obs: Obs, instance: Path, backups: Path) -> None:
    unknown = obs("backup", str(backups / "x.db"), "--org", "initech")
    assert (unknown.exit_code, unknown.stderr) == (1, f"Error: There is no organization 'initech' in {instance}.\n")
    none = obs("backup", str(backups), "--instance", str(backups))
    assert (none.exit_code, none.stderr) == (1, f"Error: {backups} is not an instance: it has no control.db.\n")
    assert not list(backups.iterdir())


def test_organizations_that_come_and_go_during_a_backup(
    obs: Obs, instance: Path, backups: Path, tenancy: Tenancy, monkeypatch: pytest.MonkeyPatch
) -> None:
    from obs.backup import files

    def meanwhile(source: Path, *arguments: object) -> None:
        copy_verified(source, *arguments)  # type: ignore[arg-type]
        if source.name.startswith("acme"):
            service.delete_organization(tenancy, service.find_organization(tenancy, "globex"))
            service.create_organization(tenancy, "initech")

    copy_verified = files.copy_verified
    monkeypatch.setattr(files, "copy_verified", meanwhile)
    done = obs("backup", str(backups))
    assert done.exit_code == 0, done.output
    backup = _only(backups)
    with closing(sqlite3.connect(backup / "control.db")) as db:
        db.row_factory = sqlite3.Row
        listed: list[Org] = list(store.organizations(db))
    assert {path.name for path in (backup / "tenants").iterdir()} == {org.file_name for org in listed}
    assert [org.slug for org in listed] == ["acme", "initech"]


def test_a_missing_folder_is_named_and_not_created(obs: Obs, instance: Path, backups: Path) -> None:
    for arguments in ([str(backups / "nas")], [str(backups / "nas" / "acme.db"), "--org", "acme"]):
        done = obs("backup", *arguments)
        assert done.exit_code == 1
        assert (
            done.output == f"Error: There is no folder {backups / 'nas'}. Create it, or mount the disk that it is on.\n"
        )
    assert not list(backups.iterdir())


def test_only_backups_of_the_instance_are_counted(obs: Obs, instance: Path, backups: Path) -> None:
    done = obs("backup", str(backups / "acme.db"), "--org", "acme", "--keep", "1")
    assert done.exit_code == 2
    assert "--keep does not work with --org." in done.stderr
    assert not list(backups.iterdir())
