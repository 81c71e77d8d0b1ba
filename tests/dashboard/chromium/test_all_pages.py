"""Every page shows hostile text as text, never scrolls sideways, works without scripts and with the keyboard alone, and
passes the accessibility checks of axe.
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
TIMESERIES = "/query?q=SELECT+count(*)+FROM+runs+BY+job+EVERY+1h+LAST+1d&overlay=all"
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
    "/incidents",
    "/alerts",
    "/alerts/query?q=SELECT+count(*)+FROM+runs+LAST+1h",
    "/settings",
    "/no-such-page",
    "/api/docs/",
)


@pytest.fixture
def sample_data(app: Flask, client: KeyClient, new_client: Callable[..., KeyClient], clock: Clock) -> None:
    """Jobs in several states, a long log, annotations, an incident and a window."""
    at = {"X-Platform-Project": "shop", "X-Platform-Service": "database", "X-Platform-Host": "db-1"}
    client.post("/api/v1/heartbeat/nightly/end?duration_ms=61000", headers=at)
    client.post("/api/v1/heartbeat/nightly/end?status=fail&exit_code=3", data="error: " + "m" * 9_000, headers=at)
    client.post("/api/v1/heartbeat/open/start")
    client.post("/api/v1/heartbeat/open/log", data="halfway\n" * 60)
    client.post("/api/v1/heartbeat/fresh/log", data="a message outside any run")
    band = {"start_time": "2026-06-21T08:00:00Z", "end_time": "2026-06-21T09:00:00Z"}
    client.post("/api/v1/annotations", json={"name": "deploy/web", "title": "out", "url": "https://example.com"})
    client.post("/api/v1/annotations", json={"name": "incident/db", "title": "slow", **band})
    window = {"start_time": "2026-06-22T08:00:00Z", "end_time": "2026-06-22T09:00:00Z"}
    channel = {"name": "phone", "url": "ntfy://ntfy.sh/my-topic"}
    alert = {"name": "many", "query": "SELECT count(*) FROM runs LAST 1h", "operator": ">", "threshold": 1}
    for path, fields in (("maintenance", window), ("channels", channel), ("alerts", alert)):
        assert new_client("acme", "admin").post(f"/api/v1/{path}", json=fields).status_code == 201
    services(app).background.tasks["sweep"].run()
    clock.advance(minutes=1)


def settle(page: Page) -> None:
    """Wait until a page has loaded and drawn everything."""
    page.wait_for_load_state("networkidle")
    if "/api/docs" in page.url:
        expect(page.locator(".opblock").first).to_be_visible()
    page.wait_for_function("[...document.querySelectorAll('[data-chart]')].every((one) => one.views !== undefined)")


def violations(page: Page) -> list[str]:
    """What axe finds at the current width and in the current colours: serious violations, and headings out of order."""
    found = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
    return [
        f"{one['id']}: {node['target']} {node['failureSummary']}"
        for one in found
        if one["impact"] in ("serious", "critical") or (one["id"] == "heading-order" and "/api/docs" not in page.url)
        for node in one["nodes"]
    ]


def check_with_axe(page: Page, where: str) -> None:
    """Check a page with axe in light and dark colours, on a desktop and on a phone."""
    for width, height in ((1440, 900), (390, 844)):
        page.set_viewport_size({"width": width, "height": height})
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            assert violations(page) == [], f"{where}, {width} wide, {scheme}"


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.usefixtures("sample_data")
def test_axe_finds_no_serious_violation(page: Page, address: str, path: str) -> None:
    page.goto(address + path)
    settle(page)
    check_with_axe(page, path)


def test_axe_finds_no_serious_violation_on_empty_pages(page: Page, window: BrowserContext, address: str) -> None:
    for path in ("/", "/projects", "/annotations", "/incidents"):
        page.goto(address + path)
        check_with_axe(page, path)
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    check_with_axe(page, "signing in")
    page.get_by_text("Sign in with an API key").click()
    page.fill("#key", "wrong")
    page.press("#key", "Enter")
    expect(page.get_by_role("alert")).to_be_visible()
    check_with_axe(page, "signing in with a wrong key")


@pytest.mark.usefixtures("sample_data")
def test_axe_finds_no_serious_violation_in_refused_forms_and_beside_a_new_key(page: Page, address: str) -> None:
    page.goto(f"{address}/job?name=nightly")
    page.get_by_label("Schedule type").select_option("Cron expression")
    page.get_by_label("Cron expression").fill("61 * * * *")
    page.get_by_role("button", name="Save schedule").click()
    expect(page.get_by_role("alert")).to_have_text('Invalid minute "61" in the cron expression: use 0-59.')
    expect(page.get_by_label("Cron expression")).to_be_focused()
    check_with_axe(page, "a refused schedule")
    page.goto(f"{address}/settings")
    page.get_by_label("Label").fill("cron box")
    for scope in page.locator("[name=scopes]").all():
        scope.uncheck()
    page.get_by_role("button", name="Create key").click()
    expect(page.locator("#scopes-problem")).to_be_visible()
    check_with_axe(page, "a refused key")
    page.get_by_label("query:read").check()
    page.get_by_role("button", name="Create key").click()
    expect(page.get_by_text("Copy your new key now")).to_be_visible()
    check_with_axe(page, "a new key")
    page.reload()
    expect(page.get_by_text("Copy your new key now")).to_have_count(0)


def test_axe_finds_violations(page: Page, address: str) -> None:
    page.goto(address)
    page.evaluate("document.querySelector('main').innerHTML = '<img src=x><input>'")
    assert {one.partition(":")[0] for one in violations(page)} == {"image-alt", "label"}


def test_text_from_clients_is_shown_as_text_everywhere(
    page: Page, address: str, client: KeyClient, new_client: Callable[..., KeyClient], app: Flask, clock: Clock
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
        "/incidents",
    ]
    for path in (*paths, *(f"/query?q=SELECT+{statement}&overlay=all" for statement in statements)):
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
def test_no_page_scrolls_sideways(page: Page, address: str, client: KeyClient, sample_data: None, path: str) -> None:
    at = {"X-Platform-Project": "p" * 200, "X-Platform-Host": "h" * 200, "X-Platform-Service": "s" * 200}
    client.post("/api/v1/heartbeat/nightly/end", headers=at)
    client.post("/api/v1/heartbeat/end", json={"name": "n" * 200, "message": "m" * 10_000})
    client.post("/api/v1/annotations", json={"name": "a" * 200, "title": "t" * 500})
    page.goto(address + path)
    settle(page)
    for width in (320, 340, 390, 780, 1000, 1260, 1400):
        page.set_viewport_size({"width": width, "height": 844})
        assert page.evaluate("document.documentElement.scrollWidth") <= width, width


def test_all_pages_work_without_scripts(window: BrowserContext, address: str, client: KeyClient, clock: Clock) -> None:
    client.post("/api/v1/heartbeat/alpha/end?duration_ms=61000")
    client.post("/api/v1/heartbeat/beta/ping")
    clock.advance(minutes=1)
    assert window.browser is not None
    plain = window.browser.new_context(java_script_enabled=False)
    page = sign_in(plain.new_page(), address, str(client.key))
    page.fill("[name=q]", "alp")
    page.get_by_role("button", name="Apply").click()
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
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent") == "alpha":
            break
    page.keyboard.press("Enter")
    page.wait_for_url("**/job?name=alpha")
