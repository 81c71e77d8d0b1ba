"""What people come for at night, each with an upper bound on clicks and keys."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from flask import Flask
from playwright.sync_api import BrowserContext, Page, expect

from obs.services import services
from tests.conftest import ACME, Clock, KeyClient

SIZES = [pytest.param(1280, 900, id="desk"), pytest.param(390, 844, id="phone")]
EMAIL = "/api/v1/heartbeat/shop/send-mail"


@contextmanager
def clicks(page: Page, at_most: int) -> Iterator[None]:
    """Fails when more clicks are used. They are counted in the session, so that they survive a change of pages."""
    page.context.add_init_script(
        "addEventListener('click', event => {"
        " if (event.detail) sessionStorage.n = Number(sessionStorage.n) + 1; }, true)"  # 0 is a click by a key
    )
    page.reload()
    page.evaluate("sessionStorage.n = 0")
    yield
    assert page.evaluate("Number(sessionStorage.n)") <= at_most


def open_job(page: Page) -> None:
    """Click on the row or the card, anywhere. On phones, its link covers all of it."""
    page.locator("#jobs tr", has_text="shop/send-mail").locator("svg").click(force=True)


@pytest.fixture
def failing(client: KeyClient, clock: Clock) -> None:
    """A job that was fine 43 hours ago and has failed three times since, among jobs that are fine."""
    for number in range(3):
        client.post(f"/api/v1/heartbeat/fine-{number}/ping", headers={"X-Platform-Host": f"web-{number}"})
    client.post(f"{EMAIL}/end", headers={"X-Platform-Host": "mx-7"})
    clock.advance(hours=43)
    for _ in range(3):
        client.post(f"{EMAIL}/start")
        client.post(f"{EMAIL}/log", data="\x1b[32mconnecting\x1b[0m\nsending 120 messages")
        client.post(f"{EMAIL}/end?exit_code=75", data="\x1b[1;31mERROR: relay denied\x1b[0m\ngave up")


@pytest.fixture
def slower(client: KeyClient, clock: Clock) -> None:
    """A job that takes twice as long since a deploy five days ago, and that failed last."""
    for day in range(1, 22):
        clock.set(f"2026-06-{day:02}T10:00:00Z")
        client.post(f"{EMAIL}/end?duration_ms={(120_000 if day > 16 else 60_000) + day}")
    note = {"name": "deploy/shop", "title": "Shop 4.1", "start_time": "2026-06-16T12:00:00Z"}
    client.post("/api/v1/annotations", json=note)
    clock.advance(hours=1)
    client.post(f"{EMAIL}/end?status=fail", data="gave up")


@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.usefixtures("slower")
def test_that_it_is_slower_and_since_which_deploy_takes_one_click(
    page: Page, address: str, width: int, height: int
) -> None:
    page.set_viewport_size({"width": width, "height": height})
    page.goto(address)
    with clicks(page, 1):
        open_job(page)
        verdict = page.locator("#verdict")
        expect(verdict).to_have_text(
            "Median of the last 7 days: 2 min, +100 % vs. the week before. 2.0 times as long since “Shop 4.1”."
        )
        verdict.scroll_into_view_if_needed()
        expect(verdict).to_be_in_viewport(ratio=1)


@pytest.mark.usefixtures("failing")
def test_a_job_is_paused_for_a_week_with_the_keyboard(page: Page, address: str) -> None:
    page.goto(address)
    with clicks(page, 0):
        page.keyboard.press("/")
        page.keyboard.type("mx-7")
        page.keyboard.press("Enter")
        expect(page.locator("#jobs tbody th")).to_have_count(1)
        page.get_by_role("link", name="shop/send-mail").press("Enter")
        page.get_by_label("Pause for").press("1")
        page.get_by_label("Pause for").press("ArrowDown")
        page.get_by_label("Pause for").press("ArrowDown")
        page.get_by_role("button", name="Pause", exact=True).press("Enter")
        expect(page.locator("h1")).to_contain_text("paused")


@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.usefixtures("failing")
def test_a_chart_without_knowing_oql_takes_two_clicks_and_its_choices(
    page: Page, address: str, width: int, height: int
) -> None:
    page.set_viewport_size({"width": width, "height": height})
    page.goto(address)
    with clicks(page, 2):
        page.get_by_role("link", name="Query").click()
        page.get_by_role("combobox", name="By", exact=True).select_option("job")
        page.get_by_role("combobox", name="Every", exact=True).select_option("hour")
        page.get_by_role("button", name="Run", exact=True).click()
        expect(page.get_by_role("figure", name="count over time")).to_be_visible()


@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.usefixtures("failing")
def test_a_word_in_the_log_is_found_with_two_clicks(
    page: Page, address: str, clock: Clock, width: int, height: int
) -> None:
    clock.advance(seconds=1)
    page.set_viewport_size({"width": width, "height": height})
    page.goto(address)
    with clicks(page, 2):
        open_job(page)
        page.get_by_label("Search the log").click()
        page.keyboard.type("RELAY")
        page.keyboard.press("Enter")
        expect(page.locator(".found li")).to_have_count(3)


@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.usefixtures("failing")
def test_why_is_it_broken_takes_no_click(page: Page, address: str, width: int, height: int) -> None:
    page.set_viewport_size({"width": width, "height": height})
    page.goto(address)
    with clicks(page, 0):
        row = page.locator("#jobs tr", has_text="shop/send-mail")
        expect(row.locator(".error")).to_have_text("ERROR: relay denied")
        expect(row.locator(".error")).to_be_in_viewport(ratio=1)


@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.usefixtures("failing")
def test_the_last_line_of_the_log_and_when_it_was_last_fine_take_one_click(
    page: Page, address: str, width: int, height: int
) -> None:
    page.set_viewport_size({"width": width, "height": height})
    page.goto(address)
    with clicks(page, 1):
        open_job(page)
        now = page.get_by_role("region", name="Now")
        expect(now).to_contain_text(
            re.compile(r"Failing since 23 Jun, 07:00\s*exit 75\s*3 in a row\s*last OK [0-9]+ d")
        )
        expect(now.get_by_text("gave up")).to_be_in_viewport()
    assert page.locator(".now .ansi-red.ansi-bold").inner_text() == "ERROR: relay denied"
    expect(page.locator('.log span[class=""]')).to_have_count(0)
    assert "\x1b" not in now.inner_text()


@pytest.mark.usefixtures("failing")
def test_the_run_and_a_pause_are_one_click_from_the_card_and_its_log_can_be_copied(page: Page, address: str) -> None:
    page.goto(f"{address}/job?name=shop/send-mail")
    page.get_by_role("button", name="Copy end of the log").click()
    expect(page.get_by_role("button", name="Copied end of the log")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()").endswith("ERROR: relay denied\ngave up")
    page.get_by_role("link", name="Open the run").click()
    expect(page.locator("h1")).to_contain_text("failed")
    page.go_back()
    page.get_by_role("button", name="Pause for 1 hour").click()
    expect(page.locator("h1")).to_contain_text("paused")
    expect(page.get_by_role("region", name="Now")).to_have_count(0)


def test_the_last_failure_among_many_runs_takes_one_click(
    page: Page, address: str, app: Flask, client: KeyClient, clock: Clock
) -> None:
    client.post(f"{EMAIL}/end?status=fail", data="disk full")
    clock.advance(hours=200)
    services(app).tenancy.databases.write(
        ACME,
        lambda db: db.execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)"
            " INSERT INTO runs (job_id, status, started_at, ended_at, heartbeat_at, duration_ms)"
            " SELECT job_id, 1, started_at + i * 30000, started_at + i * 30000, started_at, 1000 FROM n, runs"
        ),
    )
    client.post(f"{EMAIL}/end")
    page.goto(f"{address}/job?name=shop/send-mail")
    with clicks(page, 1):
        page.get_by_role("link", name="Failed", exact=True).click()
        row = page.locator("#part-runs tbody tr")
        expect(row).to_have_count(1)
        expect(row).to_contain_text("disk full")
        expect(row).to_be_in_viewport()


def test_a_job_is_found_by_its_host_with_the_keyboard(page: Page, address: str, failing: None) -> None:
    for key in ("/", "Control+k"):
        page.goto(f"{address}/settings")
        with clicks(page, 0):
            page.keyboard.press(key)
            expect(page.get_by_label("Search")).to_be_focused()
            page.keyboard.type("mx-7")
            page.keyboard.press("Enter")
            expect(page.locator("#jobs tbody th")).to_have_count(1)
            expect(page.locator("#jobs tbody th")).to_contain_text("shop/send-mail")
    page.wait_for_load_state()  # the script that listens to keys comes after the rows
    page.keyboard.press("/")
    expect(page.get_by_label("Search")).to_be_focused()
    page.keyboard.type("/")
    expect(page.get_by_label("Search")).to_have_value("/")


def test_a_page_says_how_old_it_is_and_counts_what_is_broken(page: Page, address: str, client: KeyClient) -> None:
    client.post(f"{EMAIL}/ping")
    for path, words in (("/", "updated"), ("/job?name=shop/send-mail", "updated"), ("/settings", "loaded")):
        page.goto(address + path)
        expect(page.locator("#fresh")).to_have_text(re.compile(rf"{words} \d s ago"))
        assert not page.title().startswith("(")
        client.post(f"{EMAIL}/end?status=fail")
        expect(page).to_have_title(re.compile(r"^\(1\) "))
        assert "icon-trouble" in str(page.locator("link[rel=icon]").get_attribute("href"))
        client.post(f"{EMAIL}/end")
        expect(page).to_have_title(re.compile(r"^[^(]"))
        assert "icon-trouble" not in str(page.locator("link[rel=icon]").get_attribute("href"))


@pytest.mark.usefixtures("client")
def test_that_the_server_is_down_is_seen_without_a_click_even_on_another_page(page: Page, address: str) -> None:
    page.goto(address)
    page.evaluate("navigator.serviceWorker.ready.then(() => true)")
    with clicks(page, 0):
        page.context.route("**/*", lambda route: route.abort())
        expect(page.get_by_role("alert")).to_contain_text("No connection to the server since", timeout=15_000)
        page.context.unroute("**/*")


def test_an_offline_page_says_so(window: BrowserContext, page: Page, address: str) -> None:
    page.goto(address)
    page.evaluate("navigator.serviceWorker.ready.then(() => true)")
    [worker] = window.service_workers
    worker.evaluate("() => { self.fetch = () => Promise.reject(new TypeError('offline')); }")
    page.goto(f"{address}/settings")
    expect(page.locator("h1")).to_have_text("No connection to the server")
    expect(page.get_by_role("link", name="Try again now")).to_be_visible()


def test_the_theme_can_be_chosen_and_is_kept(page: Page, address: str) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    page.emulate_media(color_scheme="light")
    page.goto(address)
    light = page.evaluate(background)
    page.get_by_label("Theme").select_option("Dark")
    dark = page.evaluate(background)
    assert dark != light
    page.goto(f"{address}/settings")
    assert page.evaluate(background) == dark
    page.emulate_media(color_scheme="dark")
    page.get_by_label("Theme").select_option("Light")
    assert page.evaluate(background) == light
    page.get_by_label("Theme").select_option("System")
    assert page.evaluate(background) == dark


@pytest.mark.usefixtures("failing")
def test_on_a_phone_the_first_job_is_above_the_fold_and_fields_do_not_zoom(page: Page, address: str) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    for path in ("/", "/job?name=shop/send-mail", "/settings"):
        page.goto(address + path)
        sizes = page.evaluate(
            "[...document.querySelectorAll('main :is(input, select, textarea)')]"
            ".map(field => parseFloat(getComputedStyle(field).fontSize))"
        )
        assert min(sizes) >= 16
    page.goto(address)
    assert page.locator("#jobs tbody tr").first.bounding_box()["y"] < 400  # type: ignore[index]


def test_the_header_of_the_table_stays_in_view(page: Page, address: str, client: KeyClient) -> None:
    for number in range(40):
        client.post(f"/api/v1/heartbeat/job-{number:02}/ping")
    page.goto(address)
    page.evaluate("scrollTo(0, 900)")
    expect(page.get_by_role("columnheader", name="Status")).to_be_in_viewport()
