"""Which tests run, and the report of those that did not: markers, tools that may be missing, and slow tests.

The plain command, ``pytest`` without a path or a filter, leaves out the tests that are marked ``slow``.
``pytest --all`` runs everything. A test that needs a missing tool is skipped, but fails where the environment has
``CI=true``.
"""

import os
import shutil
from collections import Counter
from collections.abc import Callable, Generator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

MARKER_BY_FOLDER = {Path("tests/crash"): "crash", Path("tests/dashboard/chromium"): "browser"}
HOW_TO_RUN_SLOW = ".venv/bin/pytest -n 0 -m slow"
_slow_left_out = pytest.StashKey[int]()


def find_chromium() -> str | None:
    """The path of Chromium or Chrome, or None; the environment variable OBS_TEST_CHROMIUM names another one."""
    return os.environ.get("OBS_TEST_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")


def find_compiler() -> str | None:
    """The path of a C compiler, or None."""
    return shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


def find_deployment_tools() -> str | None:
    """Not None if all programs are there that check the files in `deploy`."""
    return shutil.which("nginx") and shutil.which("caddy") and shutil.which("systemd-analyze")


def find_prometheus() -> str | None:
    """Not None if Prometheus and its tool are there."""
    return shutil.which("prometheus") and shutil.which("promtool")


def find_clients() -> str | None:
    """The virtual environment with published clients of other monitors, or None; they need two programs as well."""
    return shutil.which("borg") and shutil.which("wget") and os.environ.get("OBS_TEST_CLIENTS")


TOOL_BY_MARKER: dict[str, tuple[Callable[[], str | None], str]] = {
    "browser": (find_chromium, "no Chromium (Debian: apt-get install chromium; or set OBS_TEST_CHROMIUM to its path)"),
    "clients": (find_clients, "no borg, wget or OBS_TEST_CLIENTS (CONTRIBUTING.md says how)"),
    "compiler": (find_compiler, "no C compiler (Debian: apt-get install gcc libc6-dev)"),
    "deploy": (find_deployment_tools, "no nginx, Caddy or systemd (Debian: apt-get install nginx caddy systemd)"),
    "prometheus": (find_prometheus, "no Prometheus (Debian: apt-get install prometheus)"),
    "curl": (partial(shutil.which, "curl"), "no curl (Debian: apt-get install curl)"),
}


def in_ci() -> bool:
    return os.environ.get("CI") == "true"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="run the tests that are marked slow too")


def pytest_configure(config: pytest.Config) -> None:
    option = config.option
    is_plain = config.args_source is config.ArgsSource.TESTPATHS and not (option.markexpr or option.keyword)
    if is_plain and not option.all:
        option.markexpr = "not slow"
    config.stash[_slow_left_out] = 0


@pytest.hookimpl(tryfirst=True)  # before the filter of -m
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        for folder, marker in MARKER_BY_FOLDER.items():
            if item.path.is_relative_to(config.rootpath / folder):
                item.add_marker(marker)


def pytest_deselected(items: list[pytest.Item]) -> None:
    if items and items[0].config.option.markexpr == "not slow":
        items[0].config.stash[_slow_left_out] += len(items)


@pytest.hookimpl(tryfirst=True)  # before fixtures start what is missing
def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker, (find, missing) in TOOL_BY_MARKER.items():
        if item.get_closest_marker(marker) and find() is None:
            pytest.skip(missing)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if in_ci() and report.skipped:
        report.outcome = "failed"
        report.longrepr = f"Nothing may be skipped where CI=true: {_reason(report)}"
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    worker_output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)  # in a worker of pytest-xdist
    if worker_output is not None:
        worker_output["slow_left_out"] = session.config.stash[_slow_left_out]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Each worker collects all tests, so each reports the same number."""
    count = getattr(node, "workeroutput", {}).get("slow_left_out", 0)
    node.config.stash[_slow_left_out] = max(node.config.stash[_slow_left_out], count)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    lines = [
        f"{count} skipped: {reason}"
        for reason, count in Counter(_reason(report) for report in terminalreporter.getreports("skipped")).items()
    ]
    slow = config.stash[_slow_left_out]
    if slow:
        lines.append(f"{slow} left out because they are slow: run them with {HOW_TO_RUN_SLOW}")
    if lines:
        terminalreporter.section("tests that did not run")
        for line in lines:
            terminalreporter.line(line)


def _reason(report: pytest.TestReport) -> str:
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text.removeprefix("Skipped: ")
