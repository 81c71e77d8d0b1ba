"""An open page says that the server is gone, and the pages of jobs, runs and incidents stay current."""

import re
from collections.abc import Callable

import pytest
from flask import Flask
from playwright.sync_api import Page, expect

from obs.services import services
from tests.conftest import Clock, KeyClient

GONE = re.compile(r"No connection to the server since \d\d:\d\d\. What you see may be outdated\.")


@pytest.mark.parametrize("path", ["/", "/job?name=alpha"])
def test_a_page_says_that_the_server_is_gone_and_that_it_is_back(
    page: Page, address: str, client: KeyClient, path: str
) -> None:
    client.post("/api/v1/heartbeat/alpha/ping")
    page.goto(address + path)
    expect(page.locator("#connection")).to_be_hidden()
    page.context.set_offline(True)
    expect(page.get_by_role("alert")).to_have_text(GONE, timeout=15_000)
    page.context.set_offline(False)
    expect(page.locator("#connection")).to_be_hidden()


def test_a_page_that_is_not_responding_counts_as_gone(page: Page, address: str) -> None:
    page.route("**/jobs/trouble", lambda route: None)  # accepted, never answered
    page.goto(f"{address}/settings")
    expect(page.get_by_role("alert")).to_have_text(GONE, timeout=15_000)


def test_the_page_of_a_job_follows_the_job_and_keeps_what_is_typed_focused_and_scrolled(
    page: Page, address: str, client: KeyClient
) -> None:
    for _ in range(30):
        client.post("/api/v1/heartbeat/alpha/end?duration_ms=1000")
    page.goto(f"{address}/job?name=alpha")
    page.get_by_label("Schedule type").select_option("Cron expression")
    page.get_by_label("Cron expression").fill("0 5 * *")
    page.evaluate("scrollTo(0, 500)")
    page.locator("#part-runs tbody a").nth(3).focus()
    address_of_focus = page.evaluate("document.activeElement.href")
    place = "document.activeElement.getBoundingClientRect().top"
    before = page.evaluate(place)
    client.post("/api/v1/heartbeat/alpha/end?status=fail")
    expect(page.locator("h1")).to_contain_text("failing")
    expect(page.locator("#part-runs tbody tr").first).to_contain_text("failed")
    assert page.evaluate("document.activeElement.href") == address_of_focus
    assert page.get_by_label("Cron expression").input_value() == "0 5 * *"
    assert page.evaluate(place) == pytest.approx(before, abs=80)
    expect(page.locator("[data-chart] canvas")).to_have_count(1)


def test_a_field_that_is_being_typed_into_is_not_replaced(page: Page, address: str, client: KeyClient) -> None:
    client.post("/api/v1/heartbeat/alpha/ping")
    page.goto(f"{address}/job?name=alpha")
    page.get_by_label("Pause for").select_option("1 week")
    page.get_by_label("Pause for").focus()
    client.post("/api/v1/heartbeat/alpha/end?status=fail")
    expect(page.locator("h1")).to_contain_text("failing")
    expect(page.get_by_label("Pause for")).to_be_focused()
    assert page.get_by_label("Pause for").input_value() == "+7d"


def test_a_page_with_selected_text_is_not_updated_and_says_how_old_it_is(
    page: Page, address: str, client: KeyClient
) -> None:
    client.post("/api/v1/heartbeat/alpha/ping")
    page.goto(f"{address}/job?name=alpha")
    page.evaluate("getSelection().selectAllChildren(document.querySelector('.schedule'))")
    client.post("/api/v1/heartbeat/alpha/end?status=fail")
    expect(page.locator("#fresh")).to_have_text(re.compile("updated ([89]|[1-5][0-9]) s ago"))  # it asks every 5 s
    expect(page.locator("h1")).not_to_contain_text("failing")
    page.evaluate("getSelection().removeAllRanges()")
    expect(page.locator("h1")).to_contain_text("failing")
    expect(page.locator("#fresh")).to_have_text(re.compile("updated [0-4] s ago"))


def test_what_is_chosen_is_kept_after_the_focus_has_left_it(page: Page, address: str, client: KeyClient) -> None:
    client.post("/api/v1/heartbeat/alpha/ping")
    page.goto(f"{address}/job?name=alpha")
    page.get_by_label("Pause for").select_option("1 week")
    page.get_by_role("button", name="Pause", exact=True).focus()
    client.post("/api/v1/heartbeat/alpha/end?status=fail")
    expect(page.locator("h1")).to_contain_text("failing")
    expect(page.get_by_role("button", name="Pause", exact=True)).to_be_focused()
    assert page.get_by_label("Pause for").input_value() == "+7d"


def test_the_incidents_follow(
    page: Page, address: str, app: Flask, client: KeyClient, new_client: Callable[..., KeyClient]
) -> None:
    page.goto(f"{address}/incidents")
    page.get_by_label("Title").fill("New disks")
    client.post("/api/v1/heartbeat/alpha/end?status=fail")
    services(app).background.tasks["sweep"].run()
    expect(page.locator("h1")).to_have_text("1 open incident")
    page.get_by_text("Ongoing").click()
    expect(page.locator("h1")).to_contain_text("alpha")
    page.go_back()
    page.get_by_label("Title").fill("New disks")
    window = {"start_time": "2026-06-22T08:00:00Z", "end_time": "2026-06-22T09:00:00Z", "title": "Move"}
    new_client("acme", "admin").post("/api/v1/maintenance", json=window)
    expect(page.get_by_role("row", name="Move")).to_be_visible()
    client.post("/api/v1/heartbeat/alpha/end")
    services(app).background.tasks["sweep"].run()
    expect(page.locator("h1")).to_have_text("No open incidents")
    assert page.get_by_label("Title").input_value() == "New disks"


def test_a_page_of_a_job_that_was_deleted_says_so(
    page: Page, address: str, client: KeyClient, new_client: Callable[..., KeyClient]
) -> None:
    client.post("/api/v1/heartbeat/alpha/ping")
    page.goto(f"{address}/job?name=alpha")
    new_client("acme", "admin").delete("/api/v1/jobs/alpha")
    expect(page.get_by_text("Job not found.")).to_be_visible()


def test_an_unchanged_page_is_not_sent_again_and_a_hidden_one_hardly_asks(
    page: Page, address: str, client: KeyClient, clock: Clock
) -> None:
    client.post("/api/v1/heartbeat/alpha/ping")
    statuses: list[int] = []
    page.on("response", lambda response: statuses.append(response.status) if "/job?" in response.url else None)
    page.clock.install()
    page.goto(f"{address}/job?name=alpha")
    with page.expect_response(lambda response: response.status == 204):
        page.clock.run_for(5_000)
    page.evaluate("Object.defineProperty(document, 'hidden', {value: true})")
    with page.expect_response(lambda response: response.status == 204):  # this poll was planned before
        page.clock.run_for(5_000)
    page.clock.run_for(55_000)
    assert statuses == [200, 204, 204]
    with page.expect_response(lambda response: response.status == 204):
        page.clock.run_for(5_000)
