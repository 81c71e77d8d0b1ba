"""What only a browser shows. The window itself fails a test whose page asks another host or breaks its policy."""

import re

import pytest
from flask import Flask
from playwright.sync_api import BrowserContext, Page, expect

from obs import background
from tests.conftest import Clock, KeyClient
from tests.dashboard.conftest import sign_in

HOSTILE = (
    "<img src=x onerror=\"document.body.dataset.broken='yes'\"><script>document.body.dataset.broken='yes'</script>"
)


def test_the_empty_page_notices_the_first_heartbeat(page: Page, client: KeyClient) -> None:
    expect(page.get_by_text("Waiting for the first heartbeat")).to_be_visible()
    client.post("/api/v1/heartbeat/first/ping")
    expect(page.get_by_role("link", name="first")).to_be_visible()


def test_the_line_with_a_new_key_can_be_pasted_and_its_heartbeat_is_seen(page: Page, app: Flask) -> None:
    page.get_by_role("button", name="Make a key and fill it in").click()
    line = page.locator(".snippet code").inner_text()
    key, path = re.search(r"X-API-Key: (\w+)' http://[^/]+(\S+)", line).groups()  # type: ignore[union-attr]
    assert app.test_client().post(path, headers={"X-API-Key": key}).status_code == 200
    expect(page.get_by_role("link", name="my-first-job")).to_be_visible()


def test_a_filter_that_matches_nothing_notices_when_something_does(page: Page, address: str, client: KeyClient) -> None:
    client.post("/api/v1/heartbeat/alpha/ping")
    page.goto(f"{address}/?state=failed")
    expect(page.get_by_text("No job matches")).to_be_visible()
    client.post("/api/v1/heartbeat/alpha/end?status=fail")
    expect(page.locator("#jobs tbody th")).to_have_text(["alpha"])
    assert "state=failed" in page.url


def test_a_live_refresh_keeps_filter_search_and_scroll(page: Page, address: str, client: KeyClient) -> None:
    for number in range(40):
        client.post(f"/api/v1/heartbeat/job-{number:02}/ping", headers={"X-Platform-Project": "shop"})
    page.goto(f"{address}/?project=shop&sort=name")
    page.evaluate("document.querySelector('#jobs').dataset.held = 'yes'")
    page.fill("[name=q]", "half a wo")
    page.evaluate("scrollTo(0, 600)")
    client.post("/api/v1/heartbeat/job-30/end?status=fail", headers={"X-Platform-Project": "shop"})
    client.post("/api/v1/heartbeat/other/ping")
    expect(page.locator("tr", has_text="job-30").locator("td").first).to_have_text("failed")
    assert page.evaluate("[scrollY, document.querySelector('#jobs').dataset.held]") == [600, "yes"]
    assert page.input_value("[name=q]") == "half a wo"
    assert page.locator("#jobs tbody tr").count() == 40
    expect(page.locator("h1")).to_have_text("1 of 41 jobs needs a look")
    assert page.title().startswith("(1) ")


def test_a_choice_filters_at_once_and_counts_filter_when_clicked(page: Page, address: str, client: KeyClient) -> None:
    client.post("/api/v1/heartbeat/alpha/ping", headers={"X-Platform-Host": "web-1"})
    client.post("/api/v1/heartbeat/beta/end?status=fail")
    page.goto(address)
    page.select_option("[name=host]", "web-1")
    page.wait_for_url("**/?*host=web-1*")
    expect(page.locator("#jobs tbody tr")).to_have_count(1)
    page.goto(address)
    page.locator(".strip").get_by_role("link", name="failed").click()
    expect(page.locator("#jobs tbody th")).to_have_text(["beta"])


def test_times_are_in_the_viewers_zone_with_utc_on_hover(page: Page, address: str, client: KeyClient) -> None:
    client.post("/api/v1/heartbeat/alpha/ping")
    page.goto(f"{address}/job/run/1")
    started = page.locator("time").first
    expect(started).to_contain_text("12:00:00")
    expect(started).to_have_attribute("title", "2026-06-21 10:00:00 UTC")


def test_a_copy_button_copies_what_it_stands_beside(page: Page, address: str) -> None:
    page.goto(f"{address}/settings")
    snippet = page.locator(".snippet", has_text="ExecStopPost")
    snippet.get_by_role("button").click()
    expect(snippet.get_by_role("button")).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == snippet.locator("code").inner_text()


def test_a_run_is_followed_while_it_is_open(page: Page, address: str, client: KeyClient) -> None:
    client.post("/api/v1/heartbeat/alpha/start")
    page.goto(f"{address}/job/run/1")
    client.post("/api/v1/heartbeat/alpha/log", data="halfway there")
    expect(page.locator(".timeline")).to_contain_text("halfway there")
    client.post("/api/v1/heartbeat/alpha/end")
    expect(page.locator("h1")).to_contain_text("success")


def test_a_fault_in_a_query_is_selected(page: Page, address: str) -> None:
    page.goto(f"{address}/query")
    page.fill("#q", "SELECT count(*)\nFROM runs WHERE durationms > 5 LAST 1d")
    page.press("#q", "Control+Enter")
    expect(page.get_by_role("alert")).to_contain_text("Did you mean duration_ms?")
    selected = "(q => q.value.slice(q.selectionStart, q.selectionEnd))(document.getElementById('q'))"
    page.wait_for_function(f"{selected} === 'durationms'")


def test_words_are_completed_while_a_query_is_written(page: Page, address: str) -> None:
    page.goto(f"{address}/query")
    page.locator("#q").press_sequentially("SELECT max(durat")
    expect(page.get_by_role("option").first).to_have_text("duration_ms")
    page.press("#q", "Tab")
    expect(page.locator("#q")).to_have_value("SELECT max(duration_ms")


@pytest.mark.parametrize(
    "path",
    [
        "/query?q=SELECT+count(*),+avg(duration_ms)+FROM+runs+EVERY+1h+LAST+1d&over=all",
        "/query?q=SELECT+count(*)+FROM+runs+BY+job+LAST+1d",
        "/job?name=alpha",
        "/annotations",
    ],
)
def test_charts_are_drawn_under_the_policy(
    page: Page, address: str, client: KeyClient, clock: Clock, path: str
) -> None:
    client.post("/api/v1/heartbeat/alpha/end?duration_ms=61000")
    client.post("/api/v1/annotations", json={"name": "deploy/web", "title": "out"})
    clock.advance(hours=1)
    page.goto(address + path)
    canvas = page.locator(".chart canvas").first
    expect(canvas).to_be_visible(timeout=30_000)
    page.wait_for_function("document.querySelector('.chart canvas').getBoundingClientRect().width > 500")


def test_what_clients_send_is_text_everywhere(
    page: Page, address: str, client: KeyClient, app: Flask, clock: Clock
) -> None:
    headers = {"X-Platform-Host": HOSTILE, "X-Platform-Service": HOSTILE, "X-Platform-Project": HOSTILE}
    for kind, body in (("start", {}), ("log", {"message": HOSTILE}), ("end", {"status": "fail", "message": HOSTILE})):
        client.post(f"/api/v1/heartbeat/{kind}", json={"name": HOSTILE, **body}, headers=headers)
    client.post("/api/v1/heartbeat/log", json={"name": HOSTILE, "message": HOSTILE})
    note = {"name": HOSTILE, "title": HOSTILE, "description": HOSTILE, "url": "https://e.example/?'\"><script>"}
    assert client.post("/api/v1/annotations", json=note).status_code == 201
    background.of(app).tasks["sweep"].run()
    clock.advance(minutes=1)
    page.goto(address)
    page.get_by_role("link", name="<img").first.click()
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
        page.wait_for_load_state("networkidle")
        assert page.evaluate("document.body.dataset.broken") is None, path
        entered = page.locator("input").evaluate_all("all => all.map(one => one.value).join()")
        assert HOSTILE in page.locator("main").inner_text() + entered, path


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/job?name=nightly",
        "/job/run/1",
        "/projects",
        "/annotations",
        "/alerts",
        "/settings",
        "/query",
        "/query?q=SELECT+*+FROM+runs+LAST+1d",
    ],
)
def test_a_phone_shows_every_page_without_scrolling_sideways(
    window: BrowserContext, page: Page, address: str, client: KeyClient, path: str
) -> None:
    client.post(
        "/api/v1/heartbeat/nightly/end", headers={"X-Platform-Project": "p" * 200, "X-Platform-Host": "h" * 200}
    )
    client.post("/api/v1/heartbeat/end", json={"name": "n" * 200, "message": "m" * 10_000})
    client.post("/api/v1/annotations", json={"name": "a" * 200, "title": "t" * 500})
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(address + path)
    page.wait_for_load_state("networkidle")
    assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_all_pages_work_without_scripts(window: BrowserContext, address: str, client: KeyClient) -> None:
    client.post("/api/v1/heartbeat/alpha/end?duration_ms=61000")
    assert window.browser is not None
    plain = window.browser.new_context(java_script_enabled=False)
    page = sign_in(plain.new_page(), address, str(client.key))
    page.fill("[name=q]", "alp")
    page.get_by_role("button", name="Show").click()
    page.get_by_role("link", name="alpha").click()
    expect(page.get_by_role("cell", name="1 min 1 s")).to_be_visible()
    page.get_by_role("link", name="Query").click()
    page.fill("#q", "SELECT count(*) FROM runs LAST 1d")
    page.get_by_role("button", name="Run").click()
    expect(page.locator(".single")).to_contain_text("1 count")
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
