"""The buttons that fill in the times of a maintenance window, in the viewer's time zone."""

from collections.abc import Callable

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.conftest import KeyClient
from tests.dashboard.chromium.conftest import sign_in
from tests.dashboard.chromium.test_tasks import SIZES, clicks


@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.parametrize(
    ("now", "preset", "start", "end"),
    [
        ("2026-06-21T17:30:20", "Now, for 1 hour", "2026-06-21T15:30", "2026-06-21T16:30"),
        ("2026-06-21T17:30:20", "Now, for 4 hours", "2026-06-21T15:30", "2026-06-21T19:30"),
        ("2026-06-21T17:30:20", "Tonight, 22:00 to 06:00", "2026-06-21T20:00", "2026-06-22T04:00"),
        ("2026-06-21T23:10:00", "Tonight, 22:00 to 06:00", "2026-06-21T21:10", "2026-06-22T04:00"),
        ("2026-06-21T03:10:00", "Tonight, 22:00 to 06:00", "2026-06-21T01:10", "2026-06-21T04:00"),
        ("2026-10-24T20:00:00", "Tonight, 22:00 to 06:00", "2026-10-24T20:00", "2026-10-25T05:00"),
    ],
)
def test_a_preset_fills_in_both_times(
    page: Page, address: str, client: KeyClient, width: int, height: int, now: str, preset: str, start: str, end: str
) -> None:
    page.set_viewport_size({"width": width, "height": height})
    page.goto(f"{address}/incidents")
    page.clock.set_fixed_time(f"{now}+02:00")
    with clicks(page, 2):
        page.get_by_role("button", name=preset).click()
        expect(page.locator("#start_time-help")).to_contain_text(f"({start.replace('T', ' ')} UTC)")
        page.get_by_role("button", name="Schedule maintenance").click()
        expect(page.get_by_role("status")).to_have_text("Maintenance scheduled.")
    (window,) = client.get("/api/v1/maintenance").json["maintenance_windows"]
    assert (window["start_time"][:16], window["end_time"][:16]) == (start, end)


def test_tonight_is_the_night_of_a_viewer_in_new_york(
    window: BrowserContext, address: str, client: KeyClient, new_client: Callable[..., KeyClient]
) -> None:
    assert window.browser is not None
    context = window.browser.new_context(timezone_id="America/New_York", locale="en-US")
    page = sign_in(context.new_page(), address, str(new_client("acme", "admin").key))
    page.clock.set_fixed_time("2026-06-21T22:00:00Z")
    page.goto(f"{address}/incidents")
    page.get_by_role("button", name="Tonight").focus()
    page.keyboard.press("Enter")
    page.get_by_label("Title").press("Enter")
    expect(page.get_by_role("status")).to_have_text("Maintenance scheduled.")
    (stored,) = client.get("/api/v1/maintenance").json["maintenance_windows"]
    assert (stored["start_time"], stored["end_time"]) == ("2026-06-22T02:00:00.000Z", "2026-06-22T10:00:00.000Z")
    context.close()
