"""``obs backup`` beside a real server: under load, and killed at each of its stages."""

import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.consistency import problems
from tests.crash.kill_under_load import make_organizations
from tests.crash.senders import Ledger, Load
from tests.crash.served import OBS, Service, running_service

STAGES = (".obs-*.partial", ".obs-*.partial/tenants/*.db", ".obs-*.partial/control.db", ".obs-*.partial/SHA256SUMS")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running_service(tmp_path_factory.mktemp("backups")) as service:
        yield service


@pytest.mark.slow
def test_a_backup_under_load_has_all_that_was_acknowledged_before_it_began(service: Service, tmp_path: Path) -> None:
    keys, ledger = make_organizations(service), Ledger()
    begun: dict[Path, float] = {}
    with Load(service.port, keys, ledger, "b", random.Random(1)) as load:
        for _ in range(3):
            load.wait(0.5)
            moment = time.monotonic()
            service.command("backup", str(tmp_path))
            begun[max(tmp_path.iterdir())] = moment
    for backup, moment in begun.items():
        assert problems(backup, ledger, keys, until=moment) == []
        assert len(ledger.acknowledged(moment)) > 20
    assert service.command("check", "--instance", str(backup)) == ""
    restored = Service(tmp_path / "restored", service.port)
    restored.command("restore", str(backup))
    assert problems(restored.instance, ledger, keys, until=moment) == []


@pytest.mark.slow
@pytest.mark.parametrize("stage", STAGES)
def test_a_backup_that_is_killed_leaves_nothing_under_a_final_name(
    service: Service, tmp_path: Path, stage: str
) -> None:
    for _ in range(3):
        backup = subprocess.Popen([*OBS, "backup", str(tmp_path), "--instance", str(service.instance)])
        while not list(tmp_path.glob(stage)) and backup.poll() is None:
            os.sched_yield()
        backup.send_signal(signal.SIGKILL)
        backup.wait()
        for complete in tmp_path.glob("obs-*"):
            assert service.command("check", "--instance", str(complete)) == ""
            shutil.rmtree(complete)
    service.command("backup", str(tmp_path))
    (complete,) = tmp_path.iterdir()
    assert complete.name.startswith("obs-")
