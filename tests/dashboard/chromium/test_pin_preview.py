"""What the page of a job says about a schedule while it is typed."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.conftest import Clock, KeyClient
from tests.dashboard.chromium.test_all_pages import violations


@pytest.fixture
def preview(page: Page, address: str, client: KeyClient, clock: Clock) -> Page:
    """The page of a job that ran at 02:00 UTC for two weeks, but for two days, and once ten minutes late."""
    for day in (7, 8, 9, 12, 13, 14, 15, 16, 17, 18, 19, 20):
        clock.set(f"2026-06-{day:02}T02:{10 if day == 16 else 0:02}:05Z")
        client.post("/api/v1/heartbeat/alpha/end?duration_ms=1000")
    clock.set("2026-06-20T20:00:00Z")
    page.clock.set_fixed_time("2026-06-20T20:00:00Z")
    page.goto(f"{address}/job?name=alpha")
    return page


def times(page: Page) -> list[str]:
    expect(page.locator("#pin-preview li")).to_have_count(5)
    return page.locator("#pin-preview li").all_inner_texts()


def test_a_cron_expression_shows_its_next_times_in_both_zones_and_what_it_would_have_flagged(preview: Page) -> None:
    preview.get_by_label("Schedule type").select_option("Cron expression")
    preview.get_by_label("Cron expression").fill("0 2 * * 1-5")
    preview.get_by_label("Time zone", exact=True).fill("America/New_York")
    expect(preview.locator("#pin-preview")).to_contain_text("Next times in America/New_York (in Europe/Berlin):")
    assert times(preview)[:2] == ["Mon 22 Jun, 02:00 (Mon 22 Jun, 08:00)", "Tue 23 Jun, 02:00 (Tue 23 Jun, 08:00)"]
    preview.get_by_label("Cron expression").fill("0 2 * * *")
    preview.get_by_label("Time zone", exact=True).fill("UTC")
    expect(preview.locator("#pin-preview")).to_contain_text("Next times in UTC (in Europe/Berlin):")
    expect(preview.locator("#pin-preview li").first).to_have_text("Sun 21 Jun, 02:00 (Sun 21 Jun, 04:00)")
    expect(preview.locator("#pin-preview")).to_contain_text("Of the last 11 runs, 2 would have been overdue.")
    preview.get_by_label("Grace period (minutes)").fill("15")
    expect(preview.locator("#pin-preview")).to_contain_text("Of the last 11 runs, 1 would have been overdue.")
    assert violations(preview) == []


def test_a_mistake_is_named_while_it_is_typed_and_a_schedule_that_fits_nothing_too(preview: Page) -> None:
    preview.get_by_label("Schedule type").select_option("Cron expression")
    preview.get_by_label("Cron expression").fill("61 * * * *")
    expect(preview.locator("#pin-preview")).to_have_text('Invalid minute "61" in the cron expression: use 0-59.')
    preview.get_by_label("Cron expression").fill("* * * * *")
    expect(preview.locator("#pin-preview")).to_contain_text("It expects far more runs than there were.")
    preview.get_by_label("Schedule type").select_option("None (never overdue)")
    expect(preview.locator("#pin-preview")).to_be_hidden()


def test_an_interval_shows_what_it_would_have_flagged(preview: Page) -> None:
    preview.get_by_label("Schedule type").select_option("Interval")
    preview.get_by_label("Interval (minutes)").fill("1440")
    expect(preview.locator("#pin-preview")).to_have_text("Of the last 11 runs, 2 would have been overdue.")


def test_what_is_no_number_of_minutes_is_judged_by_nothing(preview: Page) -> None:
    preview.get_by_label("Schedule type").select_option("Interval")
    for field, least in (("Interval (minutes)", "0"), ("Grace period (minutes)", "-1")):
        for typed in ("7,5", "nan", least, "-5"):
            preview.get_by_label(field).fill("1440")
            expect(preview.locator("#pin-preview")).to_contain_text("would have been overdue")
            preview.get_by_label(field).fill(typed)
            expect(preview.locator("#pin-preview")).to_have_text("Enter a number of minutes, e.g. 30.")
        preview.get_by_label(field).fill("1440")
    preview.get_by_label("Schedule type").select_option("Cron expression")
    preview.get_by_label("Cron expression").fill("0 2 29 2 *")
    expect(preview.locator("#pin-preview li").first).to_have_text("Tue, 29 Feb 2028, 02:00 (Tue, 29 Feb 2028, 03:00)")
    preview.get_by_label("Cron expression").fill("")
    expect(preview.locator("#pin-preview")).to_be_empty()


def test_only_the_fields_of_the_chosen_type_are_shown(preview: Page) -> None:
    fields = preview.locator("#settings + .columns form").first.locator(".field:visible label")
    for chosen, names in (
        ("Learned automatically", []),
        ("Cron expression", ["Cron expression", "Time zone", "Grace period (minutes)"]),
        ("Interval", ["Interval (minutes)", "Grace period (minutes)"]),
        ("None (never overdue)", []),
    ):
        preview.get_by_label("Schedule type").select_option(chosen)
        expect(fields).to_have_text(["Schedule type", *names])
    preview.get_by_label("Schedule type").select_option("Cron expression")
    preview.get_by_label("Time zone", exact=True).focus()
    assert "Europe/Berlin" in preview.locator("#zones option").evaluate_all("all => all.map(one => one.value)")


def test_the_preview_changes_nothing(preview: Page, client: KeyClient) -> None:
    preview.get_by_label("Schedule type").select_option("Cron expression")
    preview.get_by_label("Cron expression").fill("0 2 * * *")
    times(preview)
    assert client.get("/api/v1/jobs/alpha").json["pin"] is None
    expect(preview.locator("h1")).to_have_text(re.compile("alpha"))
