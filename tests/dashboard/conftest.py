"""Visitors who are signed in, and the application served over HTTP."""

import re
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from flask import Flask
from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server
from werkzeug.test import TestResponse

from obs.services import services
from obs.tenancy import service, store
from obs.tenancy.audit import Action
from tests.conftest import ACME, KeyClient, serving

PASSWORD = "correct horse"
NewClient = Callable[..., KeyClient]
FIRST_KEY = {"first": "", "label": "first heartbeat", "scopes": "heartbeat:write", "expires": ""}
"""The fields of the form on the page without jobs."""


class Visitor:
    """A browser without JavaScript: it keeps its cookies and sends the token of the last form that it received."""

    def __init__(self, app: Flask) -> None:
        self.client = app.test_client()
        self.token = ""

    def get(self, path: str, **kwargs: Any) -> TestResponse:
        return self._keep(self.client.get(path, **kwargs))

    def post(self, path: str, **fields: Any) -> TestResponse:
        return self._keep(self.client.post(path, data={"csrf_token": self.token, **fields}))

    def sign_in(self, key: str, **fields: str) -> TestResponse:
        self.get("/sign-in")
        return self.post("/sign-in", key=key, **fields)

    def use_link(self, token: str) -> TestResponse:
        """Open a sign-in link and press its button."""
        opened = self.get(f"/sign-in/{token}")
        return self.post(f"/sign-in/{token}") if opened.status_code == 200 else opened

    def _keep(self, answer: TestResponse) -> TestResponse:
        found = re.search(r'name="csrf_token" value="([^"]+)"', answer.text) if answer.mimetype == "text/html" else None
        self.token = found[1] if found else self.token
        return answer


@pytest.fixture
def admin(app: Flask, new_client: NewClient) -> Visitor:
    """Signed in to ``acme`` with a key that has the scope admin."""
    visitor = Visitor(app)
    assert visitor.sign_in(str(new_client("acme", "admin").key)).status_code == 302
    visitor.get("/settings")
    return visitor


@pytest.fixture
def reader(app: Flask, client: KeyClient) -> Visitor:
    """Signed in to ``acme`` with a key for reading."""
    visitor = Visitor(app)
    assert visitor.sign_in(str(client.key)).status_code == 302
    visitor.get("/settings")
    return visitor


@pytest.fixture
def stranger(app: Flask, new_client: NewClient) -> Visitor:
    """Signed in to another organization as an admin."""
    visitor = Visitor(app)
    assert visitor.sign_in(str(new_client("globex", "admin").key)).status_code == 302
    visitor.get("/settings")
    return visitor


def add_user(app: Flask, name: str, role: str = "reader") -> None:
    service.change_user(services(app).tenancy, ACME, Action.ADD_USER, name, role=role, password=PASSWORD)


def signed_in(app: Flask, name: str, password: str = PASSWORD) -> Visitor:
    visitor = Visitor(app)
    visitor.get("/sign-in")
    assert visitor.post("/sign-in", name=name, password=password).status_code == 302
    visitor.get("/settings")
    return visitor


@pytest.fixture
def add(app: Flask, client: KeyClient) -> Callable[..., None]:
    """Adds a user of ``acme``: ``add("ana", "admin")``."""
    return partial(add_user, app)


@pytest.fixture
def enter(app: Flask) -> Callable[..., Visitor]:
    """A visitor who has signed in with a password: ``enter("ana")``."""
    return partial(signed_in, app)


def wait_for_failed_sign_ins() -> None:
    """They are noted in a thread each, so that the time of the response does not tell who exists."""
    for thread in threading.enumerate():
        if thread.name == "failed-sign-in":
            thread.join()


def entries(app: Flask) -> list[tuple[str, str, str]]:
    """The audit log, newest first: action, actor, object."""
    wait_for_failed_sign_ins()
    with services(app).tenancy.databases.read(ACME) as db:
        return [(one["action"], one["actor"], one["object"]) for one in store.audit_entries(db, 100)]


class _Handler(WSGIRequestHandler):
    """Closes a response when the browser hangs up, for which werkzeug may leave a static file open."""

    def connection_dropped(self, error: BaseException, environ: dict[str, Any] | None = None) -> None:
        if environ is not None:
            environ["obs.response"].close()


def server_for_browsers(app: Flask, port: int = 0) -> BaseWSGIServer:
    def respond(environ: dict[str, Any], start_response: Any) -> Any:
        environ["obs.response"] = app(environ, start_response)
        return environ["obs.response"]

    return make_server("127.0.0.1", port, respond, threaded=True, request_handler=_Handler)


@pytest.fixture
def address(app: Flask) -> Iterator[str]:
    """The URL at which the application is served to a browser."""
    with serving(server_for_browsers(app)) as url:
        yield url
