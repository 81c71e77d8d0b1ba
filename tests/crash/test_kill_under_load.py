"""What was acknowledged is there after SIGKILL under load; the long form is kill_under_load.py."""

from pathlib import Path

from kill_under_load import Acknowledged, kill_and_look, running_service


def test_no_acknowledged_heartbeat_is_lost(tmp_path: Path) -> None:
    with running_service(tmp_path) as service:
        acknowledged = Acknowledged()
        for round_number in range(2):
            missing = kill_and_look(service, acknowledged, round_number, 0.7)
            assert missing == []
    assert len(acknowledged.runs) > 100
