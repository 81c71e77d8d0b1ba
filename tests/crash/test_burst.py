"""Heartbeats of many jobs in one second are all taken once; the long form is burst.py."""

from pathlib import Path

import pytest

from tests.crash.burst import Burst, allow_sockets, lost_or_double
from tests.crash.served import running_service

JOBS = 500


@pytest.mark.parametrize("killed", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_burst_is_taken_whole_and_once(tmp_path: Path, killed: bool) -> None:
    allow_sockets(JOBS + 100)
    with running_service(tmp_path) as service:

        def kill() -> None:
            service.kill()
            service.start(wait=False)

        result = Burst(service, JOBS, "burst").run(kill if killed else None)
        assert result.answers[200] == JOBS
        assert (result.cut > 0) == killed
        assert lost_or_double(service, "burst", JOBS) == []
