"""Maintenance of some jobs, once or again and again, and changes of several jobs at once, in a browser."""

from collections.abc import Callable

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.conftest import Clock, KeyClient
from tests.dashboard.chromium.conftest import sign_in
from tests.dashboard.chromium.test_all_pages import check_with_axe
from tests.dashboard.chromium.test_tasks import SIZES, clicks


@pytest.fixture
def jobs(client: KeyClient) -> None:
    for name, host in (("db/dump", "nas01"), ("db/vacuum", "nas01"), ("web/cache", "web01")):
        client.post(f"/api/v1/heartbeat/{name}/ping", headers={"X-Platform-Host": host, "X-Platform-Project": "shop"})


@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.usefixtures("jobs")
def test_maintenance_tonight_for_one_host_from_new_york_takes_four_clicks(
    window: BrowserContext,
    address: str,
    client: KeyClient,
    new_client: Callable[..., KeyClient],
    clock: Clock,
    width: int,
    height: int,
) -> None:
    assert window.browser is not None
    context = window.browser.new_context(timezone_id="America/New_York", locale="en-US")
    page = sign_in(context.new_page(), address, str(new_client("acme", "admin").key))
    page.set_viewport_size({"width": width, "height": height})
    page.clock.set_fixed_time("2026-06-21T22:00:00Z")
    with clicks(page, 4):
        page.get_by_role("link", name="Incidents").click()
        page.get_by_label("Host").click()
        page.keyboard.type("nas01")
        page.get_by_role("button", name="Tonight").click()
        expect(page.locator("#start_time-help")).to_contain_text("America/New_York time (2026-06-22 02:00 UTC)")
        page.get_by_role("button", name="Schedule maintenance").click()
        expect(page.get_by_role("status")).to_have_text("Maintenance scheduled.")
    (stored,) = client.get("/api/v1/maintenance").json["maintenance_windows"]
    assert (stored["host"], stored["job_prefix"], stored["cron"]) == ("nas01", None, None)
    assert (stored["start_time"], stored["end_time"]) == ("2026-06-22T02:00:00.000Z", "2026-06-22T10:00:00.000Z")
    clock.set("2026-06-22T03:00:00Z")
    page.goto(f"{address}/job?name=db/dump")
    expect(page.locator("main > .notice")).to_contain_text("Maintenance of host nas01 until Jun 22, 6:00 AM")
    expect(page.get_by_label("Schedule").first).to_contain_text("Under maintenance until Jun 22, 6:00 AM")
    page.goto(f"{address}/job?name=web/cache")
    expect(page.get_by_text("Under maintenance")).to_have_count(0)
    context.close()


@pytest.mark.usefixtures("jobs")
def test_a_recurring_window_is_scheduled_with_the_keyboard_and_errors_stand_beside_the_fields(
    page: Page, address: str, client: KeyClient
) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{address}/incidents#maintenance")
    page.get_by_label("Job names that start with").fill("db/")
    page.get_by_label("once").focus()
    page.keyboard.press("ArrowDown")
    expect(page.get_by_label("Starts")).to_be_hidden()
    page.set_viewport_size({"width": 1440, "height": 900})
    tops = [page.get_by_label(name).evaluate("one => one.offsetTop") for name in ("Every", "Length in hours")]
    assert tops[0] == tops[1]
    page.set_viewport_size({"width": 390, "height": 844})
    page.get_by_label("Every").fill("0 25 * * *")
    page.get_by_label("Length in hours").fill("8")
    page.keyboard.press("Enter")
    expect(page.locator("#cron-problem")).to_have_text('Invalid hour "25" in the cron expression: use 0-23.')
    expect(page.get_by_label("Job names that start with")).to_have_value("db/")
    expect(page.get_by_label("Length in hours")).to_have_value("8")
    check_with_axe(page, "a refused window")
    page.get_by_label("Every").fill("0 22 * * *")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_have_text("Maintenance scheduled.")
    (stored,) = client.get("/api/v1/maintenance").json["maintenance_windows"]
    assert {name: stored[name] for name in ("job_prefix", "cron", "timezone", "duration_seconds")} == {
        "job_prefix": "db/",
        "cron": "0 22 * * *",
        "timezone": "Europe/Berlin",
        "duration_seconds": 28_800,
    }
    check_with_axe(page, "a recurring window")


@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.usefixtures("jobs")
def test_selected_jobs_are_paused_with_the_keyboard_and_stay_selected_while_rows_change(
    page: Page, address: str, client: KeyClient, width: int, height: int
) -> None:
    page.set_viewport_size({"width": width, "height": height})
    page.goto(address)
    for name in ("db/dump", "web/cache"):
        page.get_by_label(f"Select {name}").focus()
        page.keyboard.press("Space")
    expect(page.locator("[data-selected]")).to_have_text("2 selected")
    client.post("/api/v1/heartbeat/web/cache/end?status=fail")
    expect(page.locator("tr", has_text="web/cache").locator(".state").first).to_contain_text("failing", timeout=9_000)
    expect(page.get_by_label("Select web/cache")).to_be_checked()
    expect(page.get_by_label("Select web/cache")).to_be_focused()
    page.keyboard.press("Enter")  # which would submit the form with its first button
    check_with_axe(page, "selected jobs")
    page.get_by_role("button", name="Pause").press("Enter")
    expect(page.get_by_role("status").filter(has_text="Jobs")).to_have_text("Jobs paused: 2.")
    paused = {job["name"] for job in client.get("/api/v1/jobs").json["jobs"] if job["paused"]}
    assert paused == {"db/dump", "web/cache"}


@pytest.mark.usefixtures("jobs")
def test_all_jobs_that_match_the_filters_are_deleted_after_a_question(
    page: Page, address: str, client: KeyClient
) -> None:
    page.goto(f"{address}/?host=nas01")
    page.get_by_label("All 2 jobs that match the filters").check()
    page.get_by_role("button", name="Delete").click()
    expect(page.get_by_role("listitem")).to_have_text(["db/dump", "db/vacuum"])
    check_with_axe(page, "the question")
    page.get_by_role("button", name="Delete 2 jobs").click()
    expect(page.get_by_role("status").filter(has_text="Jobs")).to_have_text("Jobs deleted: 2.")
    assert [job["name"] for job in client.get("/api/v1/jobs").json["jobs"]] == ["web/cache"]
