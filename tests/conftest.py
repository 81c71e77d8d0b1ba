"""An application on an empty instance, a clock that the test moves, and clients of two organizations."""

import contextlib
import gc
import shutil
import threading
from collections.abc import Callable, Iterator
from http.server import HTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
from flask import Flask
from flask.testing import FlaskClient, FlaskCliRunner
from hypothesis import settings
from jinja2 import FileSystemBytecodeCache
from werkzeug.routing import Rule
from werkzeug.test import TestResponse

import migrations.control
import migrations.tenant
from obs import create_app
from obs.services import services
from obs.storage.databases import Org
from obs.storage.file import migrate
from obs.tenancy import auth, keys, service, store
from obs.times import parse_iso

pytest_plugins = ["tests.selection"]

# How long an example takes says more of the machine than of the code.
settings.register_profile("obs", deadline=None)
settings.load_profile("obs")

START = parse_iso("2026-06-21T10:00:00Z")
ACME = Org("acme", 1)
"""The organization of `client`, which is the first of its instance."""


def pytest_collection_finish() -> None:
    """Keep the garbage collector from reading, again and again, what stays until the end: modules and tests."""
    gc.collect()
    gc.freeze()


class Clock:
    """The time as the service sees it, in milliseconds since the epoch; it stands still until it is moved."""

    def __init__(self, now_ms: int = START) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms

    def advance(self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0, ms: int = 0) -> int:
        self.now_ms += round((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000) + ms
        return self.now_ms

    def set(self, iso: str) -> int:
        self.now_ms = parse_iso(iso)
        return self.now_ms


class ApiResponse(TestResponse):
    """A response whose JSON body tests index without a check for None: a missing body fails the test either way."""

    @property
    def json(self) -> Any:
        return self.get_json()


class KeyClient(FlaskClient):
    """A client that sends the API key `key` with every request."""

    key: str | None = None

    def __init__(self, application: Flask, *_: Any, **kwargs: Any) -> None:
        super().__init__(application, ApiResponse, **kwargs)

    def open(self, *args: Any, **kwargs: Any) -> ApiResponse:
        if self.key is not None:
            kwargs["headers"] = {"X-API-Key": self.key, **dict(kwargs.get("headers") or {})}
        response = super().open(*args, **kwargs)
        assert isinstance(response, ApiResponse)
        return response

    def get(self, *args: Any, **kwargs: Any) -> ApiResponse:
        return self.open(*args, method="GET", **kwargs)

    def post(self, *args: Any, **kwargs: Any) -> ApiResponse:
        return self.open(*args, method="POST", **kwargs)

    def put(self, *args: Any, **kwargs: Any) -> ApiResponse:
        return self.open(*args, method="PUT", **kwargs)

    def patch(self, *args: Any, **kwargs: Any) -> ApiResponse:
        return self.open(*args, method="PATCH", **kwargs)

    def delete(self, *args: Any, **kwargs: Any) -> ApiResponse:
        return self.open(*args, method="DELETE", **kwargs)


class SharedRule(Rule):
    """A URL rule that takes over what an equal rule of an earlier application was compiled to.

    Nine tenths of the time in which an application is created would go into compiling the same hundred rules.
    """

    _compiled: ClassVar[dict[tuple[object, ...], dict[str, object]]] = {}

    def compile(self) -> None:
        key = (self.rule, self.endpoint, repr(self.defaults), self.strict_slashes, self.merge_slashes)
        if key not in self._compiled:
            before = dict(vars(self))
            super().compile()
            set_now = {name: value for name, value in vars(self).items() if before.get(name) is not value}
            self._compiled[key] = set_now | {"arguments": self.arguments}
        vars(self).update(self._compiled[key])


Flask.url_rule_class = SharedRule


def children() -> set[int]:
    """The running child processes of this process."""
    found: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # the thread has ended
            found.update(map(int, (task / "children").read_text().split()))
    return found


_POLL_SECONDS = 0.01
"""How often a server of the standard library looks whether it shall stop: its default of 0.5 is a wait in each test."""


@contextlib.contextmanager
def serving(server: HTTPServer) -> Iterator[str]:
    """Serves in a thread until the end of the block, which gets the URL."""
    thread = threading.Thread(target=server.serve_forever, args=(_POLL_SECONDS,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(scope="session")
def empty_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A control file and an organization's file, both new: a copy saves each test the syncs of their migrations."""
    folder = tmp_path_factory.mktemp("empty")
    migrate(folder / "control.db", migrations.control.migrations, 5)
    migrate(folder / "tenant.db", migrations.tenant.migrations, 5)
    return folder


@pytest.fixture
def make_app(tmp_path: Path, clock: Clock, empty_files: Path) -> Iterator[Callable[..., Flask]]:
    """Makes applications on one instance; settings are given by name."""
    made: list[Flask] = []
    (tmp_path / "instance").mkdir()
    shutil.copy(empty_files / "control.db", tmp_path / "instance")

    def make(**settings: Any) -> Flask:
        app = create_app(
            {
                "TESTING": True,
                "INSTANCE": tmp_path / "instance",
                "CLOCK": clock,
                "QUERY_WORKERS": 0,
                "MONOTONIC": lambda: clock() / 1000,
                **settings,
            }
        )
        app.test_client_class = KeyClient
        app.jinja_env.bytecode_cache = FileSystemBytecodeCache(str(empty_files))  # or each compiles its templates
        made.append(app)
        return app

    yield make
    for app in made:
        services(app).background.stop()
        services(app).alerts.courier.close()
        services(app).tenancy.close()


@pytest.fixture
def app(make_app: Callable[..., Flask]) -> Flask:
    return make_app()


@pytest.fixture
def new_client(app: Flask, empty_files: Path) -> Callable[..., KeyClient]:
    """Makes a client with a new key: ``new_client("acme", "query:read")``; the organization is made when missing."""

    def make(org: str = "acme", *scopes: str, app: Flask = app) -> KeyClient:
        tenancy: auth.Tenancy = services(app).tenancy
        now_ms = tenancy.clock()
        new = tenancy.control.write(lambda db: store.add_organization(db, org, now_ms))
        if new is not None:
            shutil.copy(empty_files / "tenant.db", tenancy.databases.path(new))
        found = service.find_organization(tenancy, org)
        added = tenancy.control.write(
            lambda db: store.add_key(db, found, "test", scopes or keys.SCOPES[:-1], None, now_ms)
        )
        assert added is not None
        tenancy.keyring.reload()
        client = app.test_client()
        assert isinstance(client, KeyClient)
        client.key = added.key
        return client

    return make


@pytest.fixture
def client(new_client: Callable[..., KeyClient]) -> KeyClient:
    """A client of the organization ``acme`` that may do everything but manage keys."""
    return new_client("acme")


@pytest.fixture
def admin(new_client: Callable[..., KeyClient]) -> KeyClient:
    """A client of the organization ``acme`` with the scope admin."""
    return new_client("acme", "admin")


@pytest.fixture
def other_client(new_client: Callable[..., KeyClient]) -> KeyClient:
    """A client of another organization."""
    return new_client("globex")


@pytest.fixture
def runner(app: Flask) -> FlaskCliRunner:
    return app.test_cli_runner()
