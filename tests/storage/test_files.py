"""The files of many organizations: only some are open at once, and a problem with one affects no other."""

import resource
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from obs.errors import ServiceError
from obs.storage.databases import Databases, Org, allow_many_descriptors, files_that_fit
from obs.storage.file import DESCRIPTORS_PER_FILE
from tests.conftest import ACME
from tests.storage.conftest import MakeDatabases

GLOBEX = Org("globex", 2)
ORGS = [Org(name, 1) for name in "abcde"]


def _add(databases: Databases, org: Org, number: int) -> None:
    databases.write(org, lambda db: db.execute("INSERT INTO numbers VALUES (?)", (number,)))


def _count(databases: Databases, org: Org) -> int:
    with databases.read(org) as db:
        found: int = db.execute("SELECT count(*) FROM numbers").fetchone()[0]
        return found


def test_the_least_recently_used_is_closed_first(make_databases: MakeDatabases) -> None:
    databases = make_databases(most_files=3)
    for org in ORGS:
        databases.create(org)
        _add(databases, org, 1)
        assert databases.open_files() <= 3
    assert sorted(databases._files) == ORGS[2:]
    _add(databases, ORGS[2], 2)
    _add(databases, ORGS[0], 2)
    assert sorted(databases._files) == [ORGS[0], ORGS[2], ORGS[4]]
    assert [_count(databases, org) for org in ORGS] == [2, 1, 2, 1, 1]


def test_a_file_in_use_is_not_closed(make_databases: MakeDatabases) -> None:
    databases = make_databases(most_files=2)
    for org in ORGS[:4]:
        databases.create(org)
    with databases.read(ORGS[0]) as db:
        for org in ORGS[1:4]:
            _add(databases, org, 1)
        assert db.execute("SELECT count(*) FROM numbers").fetchone()[0] == 0
        assert databases.open_files() == 2


def test_the_number_of_open_files_is_limited(make_databases: MakeDatabases) -> None:
    """A request for one more file waits, and is rejected when none is closed in time."""
    databases = make_databases(most_files=1, busy_seconds=30)
    for org in ORGS[:2]:
        databases.create(org)
    with ThreadPoolExecutor(1) as pool:
        with databases.read(ORGS[0]):
            waiting = pool.submit(_add, databases, ORGS[1], 1)
            while not databases._room._waiters:  # type: ignore[attr-defined]
                assert not waiting.done()
        waiting.result(30)
    impatient = make_databases(most_files=1, busy_seconds=0)
    with impatient.read(ORGS[0]):
        with pytest.raises(ServiceError) as rejected:
            _add(impatient, ORGS[1], 2)
        assert (rejected.value.status, rejected.value.error) == (503, "storage_busy")
    assert _count(databases, ORGS[1]) == 1


def test_many_threads_use_more_files_than_may_be_open(make_databases: MakeDatabases) -> None:
    databases = make_databases(most_files=3)
    orgs = [Org("org", number) for number in range(12)]
    for org in orgs:
        databases.create(org)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: _add(databases, orgs[n % 12], n), range(240)))
        assert list(pool.map(lambda org: _count(databases, org), orgs)) == [20] * 12
    assert databases.open_files() <= 3


@pytest.mark.parametrize(("descriptors", "files"), [(64, 4), (256, 18), (1_024, 73), (14_336, 1_024), (2**20, 2_048)])
def test_half_of_the_descriptors_are_for_clients(descriptors: int, files: int) -> None:
    assert files_that_fit(descriptors) == files
    assert files == 4 or files * DESCRIPTORS_PER_FILE <= descriptors // 2


def test_the_limit_of_descriptors_is_raised_as_far_as_allowed() -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    allowed = allow_many_descriptors()
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert soft in (allowed, resource.RLIM_INFINITY) or soft > allowed
    assert allowed == (65_536 if hard == resource.RLIM_INFINITY else min(hard, 65_536))


@pytest.mark.slow
def test_a_thousand_organizations_with_1024_descriptors(tmp_path: Path) -> None:
    """Open every file once and some again, in a process whose limit cannot be raised."""
    program = """
import resource, shutil, sys
from pathlib import Path
resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))
import migrations.tenant
from obs.storage.databases import Databases, Org, allow_many_descriptors, files_that_fit
from obs.storage.file import FileOptions
most = files_that_fit(allow_many_descriptors())
databases = Databases(Path(sys.argv[1]), FileOptions(migrations.tenant.migrations, 5, 9), most)
databases.create(Org("org", 1000))
for number in range(1000):
    shutil.copy(databases.path(Org("org", 1000)), databases.path(Org("org", number)))
for number in [*range(1000), *range(20)]:
    org = Org("org", number)
    if number % 10 == 0:
        databases.write(org, lambda db: db.execute("INSERT OR IGNORE INTO attributions (id) VALUES (1)"))
    with databases.read(org) as first, databases.read(org) as second:
        assert first.execute("SELECT count(*) FROM attributions").fetchone()[0] == (number % 10 == 0)
        assert second.execute("SELECT count(*) FROM runs").fetchone()[0] == 0
assert databases.open_files() == most, databases.open_files()
databases.close()
"""
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("damage", ["garbage", "missing", "a folder"])
def test_a_damaged_file_affects_only_its_organization(make_databases: MakeDatabases, damage: str) -> None:
    databases = make_databases()
    for org in (ACME, GLOBEX):
        databases.create(org)
    path = databases.path(ACME)
    path.unlink()
    if damage == "garbage":
        path.write_bytes(b"not a database at all" * 1_000)
    elif damage == "a folder":
        path.mkdir()
    for attempt in (lambda: _add(databases, ACME, 1), lambda: _count(databases, ACME)):
        with pytest.raises(ServiceError) as rejected:
            attempt()
        assert (rejected.value.status, rejected.value.error) == (503, "storage_unavailable")
        assert rejected.value.headers["Retry-After"]
    _add(databases, GLOBEX, 1)
    assert _count(databases, GLOBEX) == 1


def test_a_file_damaged_in_the_middle_is_reported(make_databases: MakeDatabases) -> None:
    databases = make_databases()
    databases.create(ACME)
    databases.write(ACME, lambda db: db.executemany("INSERT INTO texts VALUES (?)", [("x" * 900,)] * 200))
    databases.forget(ACME)
    path = databases.path(ACME)
    contents = bytearray(path.read_bytes())
    contents[3 * 4096 :] = b"\xff" * (len(contents) - 3 * 4096)
    path.write_bytes(contents)
    with pytest.raises(ServiceError) as rejected, databases.read(ACME) as db:
        db.execute("SELECT sum(length(text)) FROM texts").fetchall()
    assert rejected.value.error == "storage_unavailable"


def test_a_repaired_file_is_used_again(make_databases: MakeDatabases) -> None:
    databases = make_databases()
    databases.create(ACME)
    good = databases.path(ACME).read_bytes()
    databases.path(ACME).write_bytes(b"not a database at all" * 1_000)
    with pytest.raises(ServiceError):
        _count(databases, ACME)
    databases.path(ACME).write_bytes(good)
    assert _count(databases, ACME) == 0


def test_closing_does_not_wait_and_rejects_new_work(databases: Databases) -> None:
    with databases.read(ACME) as db:
        databases.close()
        assert db.execute("SELECT count(*) FROM numbers").fetchone()[0] == 0
        with pytest.raises(ServiceError) as rejected:
            _count(databases, ACME)
        assert (rejected.value.status, rejected.value.error) == (503, "shutting_down")
    assert databases.open_files() == 0


def test_readers_do_not_wait_for_the_writer(databases: Databases) -> None:
    _add(databases, ACME, 1)
    inside, leave = threading.Event(), threading.Event()

    def unit(db: object) -> None:
        inside.set()
        assert leave.wait(30)

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(databases.write, ACME, unit)
        assert inside.wait(30)
        assert _count(databases, ACME) == 1
        leave.set()
        writing.result(30)


def test_a_first_unit_waits_for_a_file_to_be_opened(databases: Databases) -> None:
    databases.write_first(ACME, lambda db: db.execute("INSERT INTO numbers VALUES (1)"))
    assert (databases.open_files(), len(databases.first_units)) == (0, 1)
    assert _count(databases, ACME) == 1
    assert not databases.first_units
    assert _count(databases, ACME) == 1


def test_a_first_unit_is_written_at_once_into_a_file_that_is_open(databases: Databases) -> None:
    _add(databases, ACME, 1)
    databases.write_first(ACME, lambda db: db.execute("INSERT INTO numbers VALUES (2)"))
    assert not databases.first_units
    assert _count(databases, ACME) == 2


def test_a_first_unit_is_dropped_with_its_organization(databases: Databases) -> None:
    databases.write_first(ACME, lambda db: db.execute("INSERT INTO numbers VALUES (1)"))
    databases.delete(ACME)
    assert not databases.first_units
