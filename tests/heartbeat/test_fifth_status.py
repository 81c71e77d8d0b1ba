"""A new status of runs takes one line in `obs.heartbeat.runs`: every total includes it, rollups too."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.heartbeat.fifth_status import DAYS

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def totals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.heartbeat.fifth_status", str(tmp_path_factory.mktemp("instance"))]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def test_there_are_runs_of_every_status(totals: dict[str, Any]) -> None:
    assert set(totals["rows"]) == {"open", "success", "failed", "lost", "cancelled"}
    assert totals["rows"]["cancelled"] >= DAYS * 24


def test_lists_and_counts_include_it(totals: dict[str, Any]) -> None:
    assert totals["listed"] == totals["rows"]
    assert sum(totals["run_count"]) == sum(totals["rows"].values())
    assert totals["calendar"] == totals["calendar_as_drawn"] == totals["rows"]


def test_every_rollup_includes_it(totals: dict[str, Any]) -> None:
    assert totals["is_rolled_up"]
    for table, counts in totals["rollups"].items():
        assert counts == totals["rows"], table


def test_oql_counts_the_same_from_rows_and_from_rollups(totals: dict[str, Any]) -> None:
    assert totals["oql_from_rollups"] == totals["oql_from_rows"]
    _, by_status, *_ = totals["oql_from_rollups"]
    assert dict(by_status) == totals["rows"]
