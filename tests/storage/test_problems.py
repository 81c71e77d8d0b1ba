"""Problems with the files of organizations: known as long as they last, and logged once."""

import logging
from pathlib import Path
from types import SimpleNamespace

import pytest

from obs.errors import ServiceError
from obs.storage.databases import FileProblems
from tests.conftest import ACME

UNUSABLE = ServiceError("storage_unavailable", "The file cannot be used: malformed.")


class Log:
    """What is logged of the file of an organization, by the time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
        self.now, self.caplog = 1000.0, caplog
        monkeypatch.setattr("obs.storage.databases.time", SimpleNamespace(monotonic=lambda: self.now))
        caplog.set_level(logging.WARNING)
        self.problems = FileProblems(lambda org: Path(org.file_name))

    def lines(self) -> list[str]:
        return [" ".join(record.getMessage().split()[2:4]) for record in self.caplog.records]


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Log:
    return Log(monkeypatch, caplog)


def test_a_file_of_which_a_part_is_damaged_is_named_once_in_ten_minutes(log: Log) -> None:
    for _ in range(1199):  # a sweep a second, which reads good pages and then a bad one
        log.problems.worked(ACME, "read")
        log.problems.failed(ACME, "read", UNUSABLE)
        assert log.problems.unusable() == {ACME}
        log.now += 1
    assert log.lines() == ["cannot read"] * 2


@pytest.mark.parametrize("operation", ["read", "write"])
def test_a_file_that_is_put_back_is_usable_when_it_stays_so(log: Log, operation: str) -> None:
    log.problems.failed(ACME, "read", UNUSABLE)
    log.now += 29
    log.problems.worked(ACME, operation)
    assert log.problems.unusable() == {ACME}
    log.now += 1
    log.problems.worked(ACME, operation)
    assert log.problems.unusable() == set()
    assert log.lines() == ["cannot read", "can read"]
    log.problems.failed(ACME, "read", UNUSABLE)
    assert log.lines() == ["cannot read", "can read", "cannot read"]
