"""A real browser. No test may depend on its speed: wait for a condition, then check."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from flask import Flask
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from obs.dashboard import libraries
from tests.conftest import KeyClient
from tests.selection import find_chromium

NewClient = Callable[..., KeyClient]
expect.set_options(timeout=30_000)  # pages refresh every few seconds, on a machine that may be busy


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(
            executable_path=find_chromium(),
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


@pytest.fixture(scope="session")
def chart_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of the chart library. Creating it takes seconds, so all tests share it."""
    return libraries.bundle(tmp_path_factory.mktemp("library"))


@pytest.fixture
def window(browser: Browser, app: Flask, chart_library: Path) -> Iterator[BrowserContext]:
    """A new window. The test fails when a page contacts another host, violates its policy or raises an error."""
    cache = Path(app.instance_path) / "cache"
    cache.mkdir()
    shutil.copy(chart_library, cache)
    context = browser.new_context(viewport={"width": 1440, "height": 900}, timezone_id="Europe/Berlin", locale="en-GB")
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    context.set_default_timeout(30_000)
    violations: list[str] = []

    def watch(page: Page) -> None:
        page.on("request", lambda request: _note_foreign(violations, request.url))
        page.on("pageerror", lambda error: violations.append(str(error)))
        page.on("console", lambda message: _note_message(violations, message.text))
        page.on("dialog", lambda dialog: dialog.accept())

    context.on("page", watch)
    yield context
    context.close()
    assert violations == []


@pytest.fixture
def page(window: BrowserContext, address: str, new_client: NewClient) -> Page:
    """A page of an admin of ``acme``. It is empty, as the start page would load itself again while a test adds jobs."""
    signed_in = sign_in(window.new_page(), address, str(new_client("acme", "admin").key))
    signed_in.goto("about:blank")
    return signed_in


def sign_in(page: Page, address: str, key: str) -> Page:
    """`page`, signed in with `key`."""
    page.goto(f"{address}/sign-in")
    page.get_by_text("Sign in with an API key").click()
    page.fill("#key", key)
    page.get_by_role("button", name="Sign in with this key").click()
    page.wait_for_url(f"{address}/")
    return page


def _note_foreign(violations: list[str], url: str) -> None:
    if not url.startswith(("http://127.0.0.1:", "data:", "blob:")):
        violations.append(f"contacted {url}")


def _note_message(violations: list[str], text: str) -> None:
    if "Content Security Policy" in text or "Refused to" in text:
        violations.append(text)
