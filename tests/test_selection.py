"""Tests whose tool is missing are skipped and reported, but not in CI; slow tests are left out and reported."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.selection import HOW_TO_RUN_SLOW

ROOT = Path(__file__).parent.parent
SOME_TESTS = "tests/crash/test_power_loss.py"  # all need a C compiler, some are slow


def _pytest(folder: Path, *options: str, ci: str) -> tuple[int, str]:
    """Exit code and output of the plain command on a machine without tools, where SOME_TESTS are all there are."""
    always = ["-q", "-n", "0", "-p", "no:cacheprovider", "-o", f"testpaths={SOME_TESTS}", "--basetemp", str(folder)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *always, *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PATH": str(folder), "CI": ci},
    )
    return done.returncode, done.stdout


def test_what_does_not_run_is_reported(tmp_path: Path) -> None:
    code, output = _pytest(tmp_path / "x", ci="")
    assert code == 0, output
    lines = output.partition("tests that did not run")[2].splitlines()
    assert lines[1] == "8 skipped: no C compiler (Debian: apt-get install gcc libc6-dev)"
    assert lines[2] == f"5 left out because they are slow: run them with {HOW_TO_RUN_SLOW}"


@pytest.mark.slow
def test_in_ci_a_missing_tool_is_a_failure(tmp_path: Path) -> None:
    code, output = _pytest(tmp_path / "x", ci="true")
    assert code == pytest.ExitCode.TESTS_FAILED, output
    assert "Nothing may be skipped where CI=true: no C compiler" in output
    assert "8 errors" in output


@pytest.mark.slow
@pytest.mark.parametrize(("option", "expected"), [("-mslow", "5/13 tests"), ("--all", "13 tests")])
def test_slow_tests_run_when_they_are_asked_for(tmp_path: Path, option: str, expected: str) -> None:
    _, output = _pytest(tmp_path / "x", option, "--collect-only", ci="")
    assert expected in output.splitlines()[-1]


def test_ci_runs_the_slow_tests_after_the_others() -> None:
    *_, readme_command, slow, crash = (ROOT / ".ci" / "run").read_text().splitlines()
    assert readme_command.endswith("&& .venv/bin/pytest")
    assert slow == '.venv/bin/pytest -m "slow and not crash"'
    assert crash == '.venv/bin/pytest -n 0 -m "slow and crash"'
