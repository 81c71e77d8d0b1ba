"""Few descriptors, many organizations; and a stop in the middle of everything."""

import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.crash.burst import PATIENCE_SECONDS, Burst
from tests.crash.consistency import problems
from tests.crash.kill_under_load import make_organizations
from tests.crash.senders import Ledger, Load
from tests.crash.served import Service, file_of, new_service, running_service

pytestmark = pytest.mark.slow


def test_300_organizations_with_256_descriptors(tmp_path: Path) -> None:
    service = new_service(tmp_path)
    keys = list(service.add_organizations(f"org-{number}" for number in range(300)).values())
    service.descriptors = 256
    service.environment["OBS_BUSY_SECONDS"] = str(PATIENCE_SECONDS)  # how long a request waits for a descriptor
    service.start()
    try:
        for round_number in range(2):
            result = Burst(service, 600, f"round{round_number}", keys).run()
            assert dict(result.answers) == {200: 600}
        assert b"too many" not in service.logged().encode().lower()
        assert "Traceback" not in service.logged()
    finally:
        service.kill()
    for number in range(300):
        with closing(sqlite3.connect(file_of(service.instance, f"org-{number}"))) as db:
            assert db.execute("SELECT count(*) FROM events").fetchone()[0] == 4


def test_a_stop_under_load_answers_what_it_takes(tmp_path: Path) -> None:
    """SIGTERM while senders are busy: within 5 seconds, nothing acknowledged is lost, nothing taken is unanswered."""
    with running_service(tmp_path) as service:
        keys, ledger = make_organizations(service), Ledger()
        for round_number in range(3):
            with Load(service.port, keys, ledger, f"s{round_number}", random.Random(round_number)) as load:
                load.wait(0.5)
                code, seconds = service.stop()
            assert code == 0, service.logged()
            assert seconds < 5
            assert problems(service.instance, ledger, keys) == []
            assert _taken_and_unanswered(service, ledger) == []
            service.start()
        assert "Traceback" not in service.logged()


def _taken_and_unanswered(service: Service, ledger: Ledger) -> list[str]:
    """Heartbeats that are on disk though their clients got no answer."""
    unanswered = {sent.mark for sent in ledger.unanswered()}
    found = []
    for org in {mark.org for mark in unanswered}:
        with closing(sqlite3.connect(file_of(service.instance, org))) as db:
            values = {value for row in db.execute("SELECT idempotency_key, message FROM events") for value in row}
        found += [mark.value for mark in unanswered if mark.org == org and mark.value in values]
    return found
