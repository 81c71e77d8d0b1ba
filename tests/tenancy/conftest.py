"""The command line on the instance of the application under test, and a second process on it."""

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
    """Runs ``obs`` with arguments: ``obs("key", "create", "acme", "--label", "x")``."""
    monkeypatch.setenv("OBS_INSTANCE", str(tmp_path / "instance"))

    def run(*arguments: str, typed: str | None = None) -> Result:
        return CliRunner().invoke(cli.main, arguments, input=typed)

    return run


@pytest.fixture
def tenancy(app: Flask) -> Tenancy:
    """What the application under test holds in memory."""
    found = services(app).tenancy
    assert isinstance(found, Tenancy)
    return found


@pytest.fixture
def other_process(tmp_path: Path, app: Flask, clock: Clock) -> Iterator[Tenancy]:
    """The same instance opened again, with connections and a memory of its own, as another process would."""
    opened = instance.open_instance(tmp_path / "instance", config.load(tmp_path / "instance"), clock)
    yield opened
    instance.close(opened)
