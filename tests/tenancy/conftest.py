"""Fixtures: the command line on the instance of the application under test, and a second process on it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from flask import Flask

from obs import cli, config
from obs.services import services
from obs.tenancy import instance
from obs.tenancy.auth import Tenancy
from tests.conftest import Clock

Obs = Callable[..., Result]


@pytest.fixture
def obs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Obs:
    """Run ``obs`` with arguments: ``obs("key", "create", "acme", "--label", "x")``."""
    monkeypatch.setenv("OBS_INSTANCE", str(tmp_path / "instance"))

    def run(*arguments: str, typed: str | None = None) -> Result:
        return CliRunner().invoke(cli.main, arguments, input=typed)

    return run


@pytest.fixture
def tenancy(app: Flask) -> Tenancy:
    """The open instance of the application under test."""
    return services(app).tenancy


@pytest.fixture
def other_process(tmp_path: Path, app: Flask, clock: Clock) -> Iterator[Tenancy]:
    """The same instance opened a second time, with its own connections and keys, as another process would."""
    opened = instance.open_instance(tmp_path / "instance", config.load(tmp_path / "instance"), clock)
    yield opened
    opened.close()
