"""What was acknowledged survives a simulated power cut; the long form is power_loss.py."""

import random
import subprocess
import sys
from contextlib import closing
from itertools import islice
from pathlib import Path

import pytest

import migrations.control
from obs.storage.connection import damages, open_reader
from obs.storage.file import migrate, steps
from tests.crash.diskmodel import Disk, lay_out, read_journal
from tests.crash.faults import Faults
from tests.crash.power_loss import World
from tests.crash.senders import Ledger, Load
from tests.crash.served import new_service, running_service

pytestmark = pytest.mark.compiler


@pytest.mark.slow
def test_what_was_acknowledged_survives_power_loss(tmp_path: Path) -> None:
    world = World(tmp_path, random.Random(5))
    try:
        for _ in range(3):
            assert world.live(0.5, 5) == []
            assert world.restarted() == []
    finally:
        world.service.kill()
    assert len(world.ledger.acknowledged()) > 100
    assert world.dropped > 0


@pytest.mark.slow
def test_the_first_start_survives_power_loss(tmp_path: Path) -> None:
    """A key that the first start has printed works after the power was cut right then."""
    world = World(tmp_path, random.Random(6))
    assert world.first_start(4) == []


CREATES = """
import sys
from pathlib import Path
import migrations.control
from obs.storage.file import migrate
migrate(Path(sys.argv[1]) / "control.db", migrations.control.migrations, 5)
"""


@pytest.mark.parametrize("keep", [0, 0.5, 1])
def test_a_new_file_can_be_opened_after_power_loss_at_any_moment(tmp_path: Path, keep: float) -> None:
    """A cut while the file is switched to WAL leaves a rollback journal. `keep` 1 is a kill instead of a cut."""
    root, journal = tmp_path / "disk", tmp_path / "journal"
    root.mkdir()
    disk = Disk(root)
    subprocess.run([sys.executable, "-c", CREATES, str(root)], check=True, env=Faults(root, journal).environment)
    with_journal = 0
    for number, record in enumerate(islice(read_journal(journal), 45)):  # until the file has its first tables
        disk.apply(record)
        image = disk.image(keep, random.Random(number))
        after = tmp_path / str(number)
        after.mkdir()
        lay_out(image, after)
        with_journal += "control.db-journal" in image
        migrate(after / "control.db", migrations.control.migrations, 5)
        with closing(open_reader(after / "control.db", 5)) as db:
            assert steps(db, migrations.control.migrations) == (set(), set())
            assert damages(db) == []
    assert with_journal > 3


@pytest.mark.slow
def test_a_deleted_organization_does_not_come_back(tmp_path: Path) -> None:
    """Or the next one of that name would find its heartbeats."""
    root, journal = tmp_path / "disk", tmp_path / "journal"
    root.mkdir()
    disk = Disk(root)
    service = new_service(root, Faults(root, journal).environment)
    service.command("org", "create", "second")
    service.command("org", "delete", "second", "--yes")
    for record in read_journal(journal):
        disk.apply(record)
    names = disk.image(0)
    assert any(name.startswith("instance/tenants/crash.") for name in names)
    assert [name for name in names if "second" in name] == []


@pytest.mark.slow
def test_a_disk_that_does_not_sync_is_found_out(tmp_path: Path) -> None:
    """The same test on a disk that ignores syncs must find losses: else it would prove nothing."""
    world = World(tmp_path, random.Random(7), syncs_count=False)
    try:
        assert world.live(0.5, 4) != []
    finally:
        world.service.kill()


@pytest.mark.slow
def test_the_journal_holds_every_change(tmp_path: Path) -> None:
    """With nothing dropped, the rebuilt disk is the real one to the byte."""
    root, journal = tmp_path / "disk", tmp_path / "journal"
    root.mkdir()
    disk = Disk(root)
    faults = Faults(root, journal)
    with running_service(root, faults.environment) as service:
        with Load(service.port, {"crash": service.key}, Ledger(), "j", random.Random(1)) as load:
            load.wait(0.5)
        service.kill()
    for record in read_journal(journal):
        disk.apply(record)
    real = {
        str(path.relative_to(root)): None if path.is_dir() else path.read_bytes()
        for path in root.rglob("*")
        if not path.name.endswith(("-shm", ".log"))
    }
    assert {name for name in real if name.endswith("-wal")}
    assert disk.image(1) == real


def test_a_record_that_a_kill_cut_off_is_left_out(tmp_path: Path) -> None:
    root, journal = tmp_path / "disk", tmp_path / "journal"
    root.mkdir()
    environment = Faults(root, journal).environment
    subprocess.run([sys.executable, "-c", WRITES, str(root)], check=True, env=environment)
    whole, held = list(read_journal(journal)), journal.read_bytes()
    second = held.index(b"1" * 600)
    journal.write_bytes(held[: second + 300] + held[second + 600 :])
    assert list(read_journal(journal)) == [*whole[:1], *whole[2:]]
    journal.write_bytes(held[:-5])
    assert list(read_journal(journal)) == whole[:-1]


WRITES = """
import os, sys
root = sys.argv[1]
file = os.open(f"{root}/a", os.O_RDWR | os.O_CREAT)
os.write(file, b"1" * 600)
os.fsync(file)
os.pwrite(file, b"2" * 1024, 0)
folder = os.open(root, os.O_RDONLY)
if "name" in sys.argv:
    os.fsync(folder)
if "contents" in sys.argv:
    os.fdatasync(file)
os.mkdir(f"{root}/folder")
os.link(f"{root}/a", f"{root}/b")
os.rename(f"{root}/b", f"{root}/c")
"""


@pytest.mark.parametrize(
    ("synced", "expected"),
    [((), {}), (("contents",), {}), (("name",), {"a": b"1" * 600}), (("name", "contents"), {"a": b"2" * 1024})],
)
def test_what_is_not_synced_is_dropped(tmp_path: Path, synced: tuple[str, ...], expected: dict[str, bytes]) -> None:
    root, journal = tmp_path / "disk", tmp_path / "journal"
    root.mkdir()
    disk = Disk(root)
    subprocess.run(
        [sys.executable, "-c", WRITES, str(root), *synced], check=True, env=Faults(root, journal).environment
    )
    for record in read_journal(journal):
        disk.apply(record)
    assert disk.image(0) == expected
    assert disk.image(1) == {"a": b"2" * 1024, "c": b"2" * 1024, "folder": None}
    some = [disk.image(0.5, random.Random(seed)).get("a") for seed in range(40)]
    if "name" in synced and "contents" not in synced:
        torn = {bytes(held[place] for place in range(0, len(held), 512)) for held in some if held is not None}
        assert torn >= {b"11", b"21", b"12", b"22"}
    lay_out(disk.image(1), root / "folder")
    assert (root / "folder" / "c").read_bytes() == b"2" * 1024
