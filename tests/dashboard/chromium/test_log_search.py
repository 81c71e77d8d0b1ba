"""The search in the log of a job."""

import pytest
from playwright.sync_api import Page, expect

from tests.conftest import Clock, KeyClient
from tests.dashboard.chromium.test_all_pages import HOSTILE, violations

ALPHA = "/api/v1/heartbeat/it's%20alpha"


@pytest.fixture
def messages(client: KeyClient, clock: Clock) -> None:
    for message in ("connecting\n\x1b[31mDisk 95% full\x1b[0m\nbye", HOSTILE, "100 files"):
        client.post(f"{ALPHA}/start")
        client.post(f"{ALPHA}/end", data=message)
        clock.advance(hours=1)
    client.post("/api/v1/heartbeat/beta/log", data="disk of another job")


def search(page: Page, text: str) -> None:
    page.get_by_label("Search the log").fill(text)
    page.keyboard.press("Enter")


@pytest.mark.usefixtures("messages")
def test_a_search_finds_the_lines_of_the_job_and_leads_to_their_run(page: Page, address: str) -> None:
    page.goto(f"{address}/job?name=it%27s%20alpha")
    search(page, "disk")
    expect(page.locator("#log-found p")).to_have_text("1 message of the last 90 days with “disk”:")
    expect(page.locator(".found pre")).to_have_text("Disk 95% full")
    expect(page.locator(".found mark")).to_have_text("Disk")
    expect(page.locator(".found time")).to_have_text("21 Jun, 12:00")
    assert violations(page) == []
    page.locator(".found a").click()
    expect(page.locator("h1")).to_contain_text("Run 1")


@pytest.mark.usefixtures("messages")
def test_wildcards_and_quotes_are_text(page: Page, address: str) -> None:
    page.goto(f"{address}/job?name=it%27s%20alpha")
    for text, count in (("5% F", 1), ("100%", 0), ("_", 0), ("'", 1), ("nowhere", 0)):
        search(page, text)
        words = f"{count or 'No'} message{'' if count == 1 else 's'} of the last 90 days with “{text}”"
        expect(page.locator("#log-found p")).to_contain_text(words)
        expect(page.locator(".found li")).to_have_count(count)


def test_a_percent_sign_is_found_behind_many_messages_without_it(
    page: Page, address: str, client: KeyClient, clock: Clock
) -> None:
    for message in ("copied 100% of it", *["copied 100 files"] * 60):
        client.post(f"{ALPHA}/log", data=message)
        clock.advance(seconds=1)
    page.goto(f"{address}/job?name=it%27s%20alpha")
    search(page, "100%")
    expect(page.locator("#log-found p")).to_have_text("1 message of the last 90 days with “100%”:")
    expect(page.locator(".found pre")).to_have_text("copied 100% of it")


@pytest.mark.usefixtures("messages")
def test_hostile_text_is_found_and_shown_as_text(page: Page, address: str) -> None:
    page.goto(f"{address}/job?name=it%27s%20alpha")
    search(page, "<img src=x")
    expect(page.locator(".found pre")).to_have_text(HOSTILE)
    assert page.evaluate("document.body.dataset.broken") is None


@pytest.mark.usefixtures("messages")
def test_a_search_that_fails_says_why(page: Page, address: str) -> None:
    page.goto(f"{address}/job?name=it%27s%20alpha")
    search(page, "x" * 200)
    expect(page.locator("#log-found p")).to_contain_text("No messages")
    page.route("**/query/answer.json?*", lambda route: route.fulfill(status=429, body="<h1>Too many queries.</h1>"))
    search(page, "disk")
    expect(page.locator("#log-found p")).to_have_text("The search failed: Too many queries.")
