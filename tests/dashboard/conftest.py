"""People who are signed in, through Flask's client and through a real browser."""

import os
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from flask import Flask
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright
from werkzeug.serving import make_server
from werkzeug.test import TestResponse

from tests.conftest import KeyClient

NewClient = Callable[..., KeyClient]
expect.set_options(timeout=20_000)  # pages refresh every few seconds


class Visitor:
    """A browser without JavaScript: it keeps its cookies and sends the token of the form that it was last shown."""

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
    """Signed in to ``acme`` with a key that may read."""
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


@pytest.fixture
def address(app: Flask) -> Iterator[str]:
    """Where the application is served to a browser."""
    server = make_server("127.0.0.1", 0, app, threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    path = os.environ.get("OBS_TEST_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        pytest.fail("These tests need Chromium: install it, or say where it is with OBS_TEST_CHROMIUM.")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(
            executable_path=path,
            args=[
                "--no-sandbox",
                "--disable-gpu",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
                "--disable-quic",
            ],
        )
        yield launched
        launched.close()


@pytest.fixture
def window(browser: Browser) -> Iterator[BrowserContext]:
    """A fresh window; the test fails when a page asks another host, breaks its policy or raises."""
    context = browser.new_context(viewport={"width": 1440, "height": 900}, timezone_id="Europe/Berlin", locale="en-GB")
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    context.set_default_timeout(20_000)
    faults: list[str] = []

    def watch(page: Page) -> None:
        page.on("request", lambda request: _note_foreign(faults, request.url))
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda message: _note_message(faults, message.text))
        page.on("dialog", lambda dialog: dialog.accept())

    context.on("page", watch)
    yield context
    context.close()
    assert faults == []


@pytest.fixture
def page(window: BrowserContext, address: str, new_client: NewClient) -> Page:
    """The start page of ``acme``, for an admin."""
    return sign_in(window.new_page(), address, str(new_client("acme", "admin").key))


def sign_in(page: Page, address: str, key: str) -> Page:
    """`page`, signed in with `key`."""
    page.goto(f"{address}/sign-in")
    page.fill("#key", key)
    page.click("text=Sign in >> nth=-1")
    page.wait_for_url(f"{address}/")
    return page


def _note_foreign(faults: list[str], url: str) -> None:
    if not url.startswith(("http://127.0.0.1:", "data:", "blob:")):
        faults.append(f"asked {url}")


def _note_message(faults: list[str], text: str) -> None:
    if "Content Security Policy" in text or "Refused to" in text:
        faults.append(text)
