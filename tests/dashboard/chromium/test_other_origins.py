"""A web page of another origin uses the API with a key, as far as the browser lets it."""

from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask
from playwright.sync_api import Browser

from tests.conftest import KeyClient, serving
from tests.crash.served import free_port
from tests.dashboard.conftest import server_for_browsers

FETCH = """async ([url, key]) => {
    const post = {method: "POST", headers: {"X-API-Key": key, "Content-Type": "application/json"}, body: "{}"};
    try {
        const sent = await fetch(`${url}/api/v1/heartbeat/backup/ping`, post);
        const read = await fetch(`${url}/api/v1/jobs`, {headers: {Authorization: `Bearer ${key}`}});
        return [sent.status, (await read.json()).jobs.map(job => job.name), read.headers.has("X-Request-Id")];
    } catch (error) {
        return error.name;
    }
}"""


@pytest.mark.parametrize(
    ("setting", "seen"),
    [
        ("http://localhost:{port}", [200, ["backup"], True]),
        ("*", [200, ["backup"], True]),
        ("http://localhost", "TypeError"),
        ("", "TypeError"),
    ],
)
def test_a_page_of_another_origin(
    make_app: Callable[..., Flask], new_client: Callable[..., KeyClient], browser: Browser, setting: str, seen: Any
) -> None:
    """To a browser, localhost and 127.0.0.1 are different origins."""
    port = free_port()
    app = make_app(CORS_ORIGINS=setting.format(port=port))
    client = new_client("acme", app=app)
    with serving(server_for_browsers(app, port)) as url, browser.new_context() as context:
        page = context.new_page()
        page.goto(f"http://localhost:{port}/healthz")
        assert page.evaluate(FETCH, [url, client.key]) == seen
