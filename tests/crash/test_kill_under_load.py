"""What was acknowledged is there once after SIGKILL under load; the long form is kill_under_load.py."""

import random
from pathlib import Path

import pytest

from tests.crash.kill_under_load import kill_and_look, make_organizations
from tests.crash.senders import Ledger
from tests.crash.served import running_service

pytestmark = pytest.mark.slow


def test_no_acknowledged_heartbeat_is_lost_or_double(tmp_path: Path) -> None:
    chance = random.Random(1)
    with running_service(tmp_path) as service:
        keys, ledger = make_organizations(service), Ledger()
        for round_number in range(3):
            assert kill_and_look(service, keys, ledger, f"k{round_number}", 0.5, chance) == []
    assert len(ledger.acknowledged()) > 100
    assert {mark.by for mark in ledger.acknowledged()} == {"key", "message", "run", "time"}
