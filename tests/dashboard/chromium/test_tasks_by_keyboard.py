"""What people come for at night, by keyboard alone, each with an upper bound on keys; at a desk and on a phone, in both
themes. Axe finds nothing serious on the way.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

import pytest
from flask import Flask
from playwright.sync_api import BrowserContext, Locator, Page, ViewportSize, expect

from obs.services import services
from tests.conftest import ACME, Clock, KeyClient
from tests.dashboard.chromium.conftest import sign_in
from tests.dashboard.chromium.test_all_pages import violations

MAIL = "/api/v1/heartbeat/shop/send-mail"
NOW = "2026-06-21T22:00:00Z"
_MANY = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {})"


@pytest.fixture
def story(app: Flask, client: KeyClient, clock: Clock) -> None:
    """A job that is slower since a deploy and fails now, one with 20,000 runs of which one failed, and 5,000 others."""
    for day in range(1, 21):
        clock.set(f"2026-06-{day:02}T10:00:00Z")
        client.post(f"{MAIL}/end?duration_ms={(120_000 if day > 15 else 60_000) + day}")
    client.post("/api/v1/heartbeat/queue/end?status=fail", data="disk full")
    note = {"name": "deploy/shop", "title": "Shop 4.1", "start_time": "2026-06-15T12:00:00Z"}
    client.post("/api/v1/annotations", json=note)
    clock.set("2026-06-21T10:00:00Z")
    client.post(f"{MAIL}/start")
    client.post(f"{MAIL}/end?exit_code=75", data="ERROR: relay denied\ngave up", headers={"X-Platform-Host": "mx-7"})
    clock.set(NOW)
    with_runs = (
        f"{_MANY.format(20_000)} INSERT INTO runs (job_id, status, started_at, ended_at, heartbeat_at, duration_ms)"
        " SELECT job_id, 1, started_at + i * 1000, started_at + i * 1000, started_at, 500"
        " FROM n, (SELECT * FROM runs ORDER BY id DESC LIMIT 1 OFFSET 1)"
    )
    places = f"{_MANY.format(5_000)} INSERT INTO attributions (host) SELECT 'rack-' || i FROM n"
    jobs = (
        "INSERT INTO jobs (name, created_at, last_heartbeat_at, last_event_id, attribution_id)"
        " SELECT 'job on ' || host, ?1, ?1, 0, id FROM attributions WHERE host LIKE 'rack-%'"
    )
    write = services(app).tenancy.databases.write
    write(ACME, lambda db: (db.execute(with_runs), db.execute(places), db.execute(jobs, (clock.now_ms,))))
    client.post("/api/v1/heartbeat/queue/end?duration_ms=500")


class Keyboard:
    """Presses keys on a page and counts them."""

    def __init__(self, page: Page) -> None:
        self.page, self.pressed = page, 0

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)
            self.pressed += 1

    def tab_to(self, target: Locator, *keys: str) -> None:
        """Press Tab until `target` has the focus, then the other keys."""
        expect(target).to_be_visible()
        while not target.evaluate("(one) => one === document.activeElement"):
            self.press("Tab")
            assert self.pressed < 100, f"{target} is not reached"
        self.press(*keys)

    @contextmanager
    def task(self, at_most: int) -> Iterator[None]:
        self.pressed = 0
        yield
        assert self.pressed <= at_most
        assert violations(self.page) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [(1280, 900), (390, 844)], ids=["desk", "phone"])
@pytest.mark.usefixtures("story")
def test_all_tasks_by_keyboard(
    window: BrowserContext,
    address: str,
    client: KeyClient,
    new_client: Callable[..., KeyClient],
    size: tuple[int, int],
    scheme: Literal["light", "dark"],
) -> None:
    assert window.browser is not None
    viewport = ViewportSize(width=size[0], height=size[1])
    context = window.browser.new_context(
        timezone_id="America/New_York", locale="en-US", viewport=viewport, color_scheme=scheme
    )
    page = sign_in(context.new_page(), address, str(new_client("acme", "admin").key))
    keyboard = Keyboard(page)
    page.clock.install(time=NOW)
    page.goto(address)

    with keyboard.task(0):  # why is it broken
        assert page.evaluate("document.documentElement.dataset.theme ?? ''") in ("", scheme)
        expect(page.locator("#rows .error").first).to_have_text("ERROR: relay denied")
        expect(page.locator("#rows .error").first).to_be_in_viewport()
    with keyboard.task(6):  # the last line of its log; when was it last fine
        keyboard.tab_to(page.get_by_role("link", name="Skip to jobs"), "Enter")
        keyboard.tab_to(page.get_by_role("link", name="shop/send-mail"), "Enter")
        now = page.get_by_role("region", name="Now")
        expect(now).to_contain_text(re.compile(r"Failing since Jun 21, 6:00 AM.*exit 75.*last OK 1 d 12 h ago", re.S))
        expect(now.get_by_text("gave up")).to_be_in_viewport()
    with keyboard.task(20):  # is it slower than last week, and since which deploy
        keyboard.tab_to(page.get_by_role("link", name="24h"))
        verdict = page.locator("#verdict")
        expect(verdict).to_contain_text("+100 % vs. the week before. 2.0 times as long since “Shop 4.1”.")
        expect(verdict).to_be_in_viewport()
    with keyboard.task(25):  # pin with a preview
        page.reload()
        keyboard.tab_to(page.get_by_role("link", name="Edit job"), "Enter")
        keyboard.tab_to(page.get_by_label("Schedule type"), "c")
        keyboard.tab_to(page.get_by_label("Cron expression"))
        page.get_by_label("Cron expression").select_text()
        page.keyboard.type("0 10 * * *")
        expect(page.locator("#pin-preview li")).to_have_count(5)
        expect(page.locator("#pin-preview li").first).to_contain_text("Jun 22")
        keyboard.tab_to(page.get_by_role("button", name="Save schedule"), "Enter")
        expect(page.get_by_role("status").filter(has_text="Schedule saved.")).to_be_visible()
    with keyboard.task(2):  # find a job by host among 5,000
        keyboard.press("/")
        page.wait_for_url("**/#search")
        expect(page.get_by_label("Search")).to_be_focused()
        page.keyboard.type("rack-4321")
        keyboard.press("Enter")
        expect(page.locator("#rows th")).to_have_text(re.compile("job on rack-4321"))
    with keyboard.task(22):  # the last failure among many runs
        page.goto(f"{address}/job?name=queue")
        keyboard.tab_to(page.get_by_role("link", name="Failed", exact=True), "Enter")
        row = page.locator("#part-runs tbody tr")
        expect(row).to_have_count(1)
        expect(row).to_contain_text("disk full")
        expect(row).to_be_in_viewport()
    with keyboard.task(50):  # schedule maintenance tonight for one host, from New York
        page.goto(address)
        keyboard.tab_to(page.get_by_role("link", name="Incidents", exact=True), "Enter")
        keyboard.tab_to(page.locator("main").get_by_role("link", name="Maintenance"), "Enter")
        keyboard.tab_to(page.get_by_label("Host"))
        page.keyboard.type("mx-7")
        keyboard.tab_to(page.get_by_role("button", name="Tonight"), "Enter")
        keyboard.tab_to(page.get_by_role("button", name="Schedule maintenance"), "Enter")
        expect(page.get_by_role("status").filter(has_text="Maintenance scheduled.")).to_be_visible()
    (stored,) = client.get("/api/v1/maintenance").json["maintenance_windows"]
    assert (stored["host"], stored["start_time"], stored["end_time"]) == (
        "mx-7", "2026-06-22T02:00:00.000Z", "2026-06-22T10:00:00.000Z",
    )  # fmt: skip
    with keyboard.task(30):  # make a chart without knowing OQL
        keyboard.tab_to(page.get_by_role("link", name="Query", exact=True), "Enter")
        keyboard.tab_to(page.get_by_role("combobox", name="By", exact=True), "j")
        keyboard.tab_to(page.get_by_role("combobox", name="Every", exact=True), "h")
        keyboard.tab_to(page.get_by_role("button", name="Run", exact=True), "Enter")
        expect(page.get_by_role("figure", name="count over time").locator("canvas")).to_be_visible()
    with keyboard.task(26):  # pause for a week
        page.goto(f"{address}/job?name=shop/send-mail")
        keyboard.tab_to(page.get_by_role("link", name="Edit job"), "Enter")
        keyboard.tab_to(page.get_by_label("Pause for"), "ArrowDown", "ArrowDown")
        keyboard.tab_to(page.get_by_role("button", name="Pause", exact=True), "Enter")
        expect(page.locator("h1")).to_contain_text("paused")
    assert client.get("/api/v1/jobs/shop/send-mail").json["paused_until"] == "2026-06-28T22:00:00.000Z"
    page.goto(address)
    with keyboard.task(0):  # notice that the server is down
        context.route("**/*", lambda route: route.abort())
        expect(page.get_by_role("alert")).to_contain_text("No connection to the server since", timeout=20_000)
    context.close()
