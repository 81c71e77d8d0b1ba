"""What holds for every page: hostile text is text, nothing scrolls sideways, it works without scripts and by keyboard,
and axe finds no serious fault.
"""

import re
from collections.abc import Callable

import pytest
from axe_playwright_python.sync_playwright import Axe
from flask import Flask
from playwright.sync_api import BrowserContext, Page, expect

from obs.services import services
from tests.conftest import Clock, KeyClient
from tests.dashboard.chromium.conftest import sign_in

HOSTILE = (
    "<img src=x onerror=\"document.body.dataset.broken='yes'\"><script>document.body.dataset.broken='yes'</script>"
)
TIMESERIES = "/query?q=SELECT+count(*)+FROM+runs+BY+job+EVERY+1h+LAST+1d&over=all"
PAGES = (
    "/",
    "/?q=nothing-is-named-so",
    "/job?name=nightly",
    "/job?name=fresh",
    "/job/run/1",
    "/job/run/3",
    "/projects",
    "/query",
    TIMESERIES,
    "/query?q=SELECT+count(*)+FROM+runs+BY+job+LAST+1d",
    "/query?q=SELECT+count(*)+FROM+runs+LAST+1d",
    "/query?q=SELECT+count(*)+FROM+runz+LAST+1d",
    "/annotations",
    "/annotations/1",
    "/alerts",
    "/settings",
    "/no-such-page",
    "/api/docs/",
)


@pytest.fixture
def something(app: Flask, client: KeyClient, new_client: Callable[..., KeyClient], clock: Clock) -> None:
    """Jobs in several states, a long log, annotations, an incident and a window."""
    at = {"X-Platform-Project": "shop", "X-Platform-Service": "database", "X-Platform-Host": "db-1"}
    client.post("/api/v1/heartbeat/nightly/end?duration_ms=61000", headers=at)
    client.post("/api/v1/heartbeat/nightly/end?status=fail&exit_code=3", data="error: " + "m" * 9_000, headers=at)
    client.post("/api/v1/heartbeat/open/start")
    client.post("/api/v1/heartbeat/open/log", data="halfway\n" * 60)
    client.post("/api/v1/heartbeat/fresh/log", data="a message outside of a run")
    band = {"start_time": "2026-06-21T08:00:00Z", "end_time": "2026-06-21T09:00:00Z"}
    client.post("/api/v1/annotations", json={"name": "deploy/web", "title": "out", "url": "https://example.com"})
    client.post("/api/v1/annotations", json={"name": "incident/db", "title": "slow", **band})
    window = {"start_time": "2026-06-22T08:00:00Z", "end_time": "2026-06-22T09:00:00Z"}
    assert new_client("acme", "admin").post("/api/v1/maintenance", json=window).status_code == 201
    services(app).background.tasks["sweep"].run()
    clock.advance(minutes=1)


def settle(page: Page) -> None:
    """Wait until all that a page loads and draws is there."""
    page.wait_for_load_state("networkidle")
    if "/api/docs" in page.url:
        expect(page.locator(".opblock").first).to_be_visible()
    page.wait_for_function("[...document.querySelectorAll('[data-chart]')].every((one) => one.view !== undefined)")


def faults(page: Page) -> list[str]:
    """What axe finds that is serious or critical, in this width and these colours."""
    found = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
    return [
        f"{one['id']}: {node['target']} {node['failureSummary']}"
        for one in found
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"]
    ]


def look_at(page: Page, where: str) -> None:
    """Let axe look at a page, light and dark, on a desk and on a phone."""
    for width, height in ((1440, 900), (390, 844)):
        page.set_viewport_size({"width": width, "height": height})
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            assert faults(page) == [], f"{where}, {width} wide, {scheme}"


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.usefixtures("something")
def test_axe_finds_no_serious_fault(page: Page, address: str, path: str) -> None:
    page.goto(address + path)
    settle(page)
    look_at(page, path)


def test_axe_finds_no_serious_fault_where_there_is_nothing_yet(
    page: Page, window: BrowserContext, address: str
) -> None:
    for path in ("/", "/projects", "/annotations", "/alerts"):
        page.goto(address + path)
        look_at(page, path)
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    look_at(page, "signing in")
    page.fill("#key", "wrong")
    page.press("#key", "Enter")
    expect(page.get_by_role("alert")).to_be_visible()
    look_at(page, "signing in with a wrong key")


def test_axe_sees_a_fault(page: Page) -> None:
    page.evaluate("document.querySelector('main').innerHTML = '<img src=x><input>'")
    assert {fault.partition(":")[0] for fault in faults(page)} == {"image-alt", "label"}


def test_what_clients_send_is_text_everywhere(
    page: Page,
    address: str,
    client: KeyClient,
    new_client: Callable[..., KeyClient],
    app: Flask,
    clock: Clock,
) -> None:
    headers = {"X-Platform-Host": HOSTILE, "X-Platform-Service": HOSTILE, "X-Platform-Project": HOSTILE}
    for kind, body in (("start", {}), ("log", {"message": HOSTILE}), ("end", {"status": "fail", "message": HOSTILE})):
        client.post(f"/api/v1/heartbeat/{kind}", json={"name": HOSTILE, **body}, headers=headers)
    client.post("/api/v1/heartbeat/log", json={"name": HOSTILE, "message": HOSTILE})
    note = {"name": HOSTILE, "title": HOSTILE, "description": HOSTILE, "url": "https://e.example/?'\"><script>"}
    assert client.post("/api/v1/annotations", json=note).status_code == 201
    window = {"title": HOSTILE, "start_time": "2026-06-22T08:00:00Z", "end_time": "2026-06-22T09:00:00Z"}
    assert new_client("acme", "admin").post("/api/v1/maintenance", json=window).status_code == 201
    services(app).background.tasks["sweep"].run()
    clock.advance(minutes=1)
    page.goto(address)
    page.get_by_role("link", name="<img").first.click()
    page.wait_for_url(re.compile(r"/job\?name="))
    statements = ("*+FROM+logs+LAST+1d", "count(*)+FROM+runs+BY+job,+host+EVERY+1h+LAST+1d")
    paths = [
        page.url.removeprefix(address),
        "/",
        "/job/run/1",
        "/projects",
        "/annotations",
        "/annotations/1",
        "/alerts",
    ]
    for path in (*paths, *(f"/query?q=SELECT+{statement}&over=all" for statement in statements)):
        page.goto(address + path)
        settle(page)
        assert page.evaluate("document.body.dataset.broken") is None, path
        entered = page.locator("input").evaluate_all("all => all.map(one => one.value).join()")
        assert HOSTILE in page.locator("main").inner_text() + entered, path


def test_a_live_row_with_hostile_text_is_text(page: Page, address: str, client: KeyClient) -> None:
    client.post("/api/v1/heartbeat/alpha/ping")
    page.goto(address)
    client.post("/api/v1/heartbeat/ping", json={"name": HOSTILE}, headers={"X-Platform-Host": HOSTILE})
    row = page.locator("#jobs tr", has_text="<img")
    expect(row).to_contain_text(HOSTILE)
    assert page.evaluate("document.body.dataset.broken") is None


@pytest.mark.parametrize("path", PAGES[:-1])
def test_a_phone_shows_every_page_without_scrolling_sideways(
    page: Page, address: str, client: KeyClient, something: None, path: str
) -> None:
    client.post(
        "/api/v1/heartbeat/nightly/end", headers={"X-Platform-Project": "p" * 200, "X-Platform-Host": "h" * 200}
    )
    client.post("/api/v1/heartbeat/end", json={"name": "n" * 200, "message": "m" * 10_000})
    client.post("/api/v1/annotations", json={"name": "a" * 200, "title": "t" * 500})
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(address + path)
    settle(page)
    assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_all_pages_work_without_scripts(window: BrowserContext, address: str, client: KeyClient, clock: Clock) -> None:
    client.post("/api/v1/heartbeat/alpha/end?duration_ms=61000")
    client.post("/api/v1/heartbeat/beta/ping")
    clock.advance(minutes=1)
    assert window.browser is not None
    plain = window.browser.new_context(java_script_enabled=False)
    page = sign_in(plain.new_page(), address, str(client.key))
    page.fill("[name=q]", "alp")
    page.get_by_role("button", name="Show").click()
    expect(page.locator("#jobs tbody th")).to_have_text(["alpha"])
    page.get_by_role("link", name="alpha").click()
    expect(page.get_by_role("cell", name="1 min 1 s")).to_be_visible()
    page.get_by_role("link", name="Query").click()
    page.fill("#q", "SELECT count(*) FROM runs LAST 1d")
    page.get_by_role("button", name="Run").click()
    expect(page.locator(".single")).to_contain_text("2 count")
    plain.close()


def test_the_pages_can_be_used_with_the_keyboard_alone(page: Page, address: str, client: KeyClient) -> None:
    client.post("/api/v1/heartbeat/alpha/ping")
    page.goto(address)
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="To the content")).to_be_focused()
    page.keyboard.press("Enter")
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent") == "alpha":
            break
    page.keyboard.press("Enter")
    page.wait_for_url("**/job?name=alpha")
