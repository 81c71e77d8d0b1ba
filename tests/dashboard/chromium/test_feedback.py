"""At night, on the page of the job: somebody acknowledges an incident, and says that another was a false alarm."""

from collections.abc import Callable

import pytest
from flask import Flask
from playwright.sync_api import Page, expect

from obs.services import services
from tests.conftest import Clock, KeyClient
from tests.dashboard.chromium.test_all_pages import violations

Sweep = Callable[[], None]


@pytest.fixture
def sweep(app: Flask) -> Sweep:
    return services(app).background.tasks["sweep"].run


@pytest.fixture
def overdue(client: KeyClient, clock: Clock, sweep: Sweep) -> None:
    """The daily job ``photos`` is overdue."""
    clock.set("2026-06-01T02:00:00Z")
    for day in range(14):
        client.post(f"/api/v1/heartbeat/photos/ping?time=2026-06-{day + 1:02}T02:00:0{day * 7 % 5}Z")
        clock.advance(days=1)
        sweep()
    clock.advance(hours=7)
    sweep()


@pytest.mark.usefixtures("overdue")
def test_an_incident_is_acknowledged_and_was_a_false_alarm(page: Page, address: str) -> None:
    page.goto(f"{address}/job?name=photos")
    card = page.get_by_label("Now")
    card.get_by_role("button", name="Acknowledge").click()
    expect(page.get_by_role("status").last).to_have_text("Acknowledged.")
    expect(card).to_contain_text("by session of key")
    expect(card.get_by_role("button", name="Acknowledge")).to_have_count(0)
    assert violations(page) == []
    card.get_by_role("button", name="That was a false alarm").click()
    words = "On Mondays around 02:00 (UTC), obs now waits 1 d longer than learned."
    expect(page.get_by_role("status").last).to_have_text(words)
    expect(page.get_by_label("Now")).to_have_count(0)
    expect(page.get_by_label("Schedule", exact=True)).to_contain_text(f"After a false alarm: {words}")
    expect(page.get_by_role("row", name="overdue")).to_contain_text("A false alarm")


@pytest.mark.usefixtures("overdue")
def test_the_list_of_incidents_has_the_same_buttons_on_a_phone(page: Page, address: str) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{address}/incidents")
    for button in page.get_by_role("button", name=": photos").all():
        box = button.bounding_box()
        assert box is not None
        assert box["x"] + box["width"] <= 390
    page.get_by_role("button", name="Acknowledge: photos").click()
    expect(page.get_by_text("Acknowledged 15 Jun")).to_be_visible()
    assert violations(page) == []
    page.get_by_role("button", name="That was right: photos").click()
    expect(page.get_by_text("Confirmed")).to_be_visible()
    expect(page.get_by_role("button", name="That was right: photos")).to_have_count(0)
    page.get_by_role("button", name="That was a false alarm: photos").click()
    expect(page.get_by_role("heading", name="No open incidents")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
