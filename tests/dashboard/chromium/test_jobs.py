"""The overview in a browser."""

import re
from collections.abc import Callable

from flask import Flask
from playwright.sync_api import Page, expect

from obs.heartbeat.runs import STATES
from obs.services import services
from tests.conftest import Clock, KeyClient


def test_the_empty_page_notices_the_first_heartbeat(page: Page, address: str, client: KeyClient) -> None:
    page.goto(address)
    expect(page.get_by_text("Waiting for the first heartbeat")).to_be_visible()
    client.post("/api/v1/heartbeat/first/ping")
    expect(page.get_by_role("link", name="first")).to_be_visible()


def test_the_command_with_a_new_key_works_and_its_job_appears(page: Page, address: str, app: Flask) -> None:
    page.goto(address)
    page.get_by_role("button", name="Create a key and insert it").click()
    command = page.locator(".snippet code").inner_text()
    key, path = re.search(r"X-API-Key: (\w+)' http://[^/]+(\S+)", command).groups()  # type: ignore[union-attr]
    assert app.test_client().post(path, headers={"X-API-Key": key}).status_code == 200
    expect(page.get_by_role("link", name="my-first-job")).to_be_visible()


def test_a_filter_that_matches_nothing_notices_when_something_does(page: Page, address: str, client: KeyClient) -> None:
    client.post("/api/v1/heartbeat/alpha/ping")
    page.goto(f"{address}/?state=failed")
    expect(page.get_by_text("No jobs match these filters")).to_be_visible()
    client.post("/api/v1/heartbeat/alpha/end?status=fail")
    expect(page.locator("#jobs tbody th")).to_have_text(["alpha"])
    assert "state=failed" in page.url


def test_a_live_refresh_keeps_filter_search_and_scroll(page: Page, address: str, client: KeyClient) -> None:
    for number in range(40):
        client.post(f"/api/v1/heartbeat/job-{number:02}/ping", headers={"X-Platform-Project": "shop"})
    page.goto(f"{address}/?project=shop&sort=name")
    page.evaluate("document.querySelector('#jobs').dataset.kept = 'yes'")
    page.fill("[name=q]", "half a wo")
    page.evaluate("scrollTo(0, 600)")
    client.post("/api/v1/heartbeat/job-30/end?status=fail", headers={"X-Platform-Project": "shop"})
    client.post("/api/v1/heartbeat/other/ping")
    expect(page.locator("tr", has_text="job-30").locator("td").first).to_have_text("failing")
    assert page.evaluate("[scrollY, document.querySelector('#jobs').dataset.kept]") == [600, "yes"]
    assert page.input_value("[name=q]") == "half a wo"
    assert page.locator("#jobs tbody tr").count() == 40
    expect(page.locator("h1")).to_have_text("1 of 41 jobs needs attention")
    assert page.title().startswith("(1) ")


def test_a_choice_filters_at_once_and_counts_filter_when_clicked(page: Page, address: str, client: KeyClient) -> None:
    client.post("/api/v1/heartbeat/alpha/ping", headers={"X-Platform-Host": "web-1"})
    client.post("/api/v1/heartbeat/beta/end?status=fail")
    page.goto(address)
    page.select_option("[name=host]", "web-1")
    page.wait_for_url("**/?*host=web-1*")
    expect(page.locator("#jobs tbody tr")).to_have_count(1)
    page.goto(address)
    page.locator(".strip").get_by_role("link", name="failing").click()
    expect(page.locator("#jobs tbody th")).to_have_text(["beta"])


def test_the_focus_stays_where_it_is_when_rows_and_counts_change(page: Page, address: str, client: KeyClient) -> None:
    client.post("/api/v1/heartbeat/alpha/ping")
    page.goto(address)
    everything = page.locator(".strip").get_by_role("link", name="1 all")
    everything.focus()
    client.post("/api/v1/heartbeat/alpha/end?status=fail")
    expect(page.locator("h1")).to_have_text("The only job needs attention")
    expect(everything).to_be_focused()
    page.get_by_role("link", name="alpha").focus()
    client.post("/api/v1/heartbeat/alpha/end")
    expect(page.locator("#jobs td").first).to_have_text("new")
    expect(page.get_by_role("link", name="alpha")).to_be_focused()


def test_leaving_the_search_field_does_nothing(page: Page, address: str, client: KeyClient) -> None:
    client.post("/api/v1/heartbeat/alpha/ping", headers={"X-Platform-Host": "web-1"})
    page.goto(address)
    page.get_by_label("Search").fill("alp")
    page.keyboard.press("Tab")
    expect(page.get_by_label("Host")).to_be_focused()
    page.keyboard.press("Shift+Tab")
    expect(page.get_by_label("Search")).to_be_focused()
    assert page.url == f"{address}/"
    page.keyboard.press("Enter")
    page.wait_for_url("**/?q=alp*")


def test_the_first_job_is_four_keys_away(page: Page, address: str, client: KeyClient) -> None:
    client.post("/api/v1/heartbeat/alpha/ping")
    page.goto(address)
    for key in ("Tab", "Tab", "Enter", "Tab"):
        page.keyboard.press(key)
    expect(page.get_by_role("link", name="alpha")).to_be_focused()


def test_every_state_has_a_shape_of_its_own(page: Page, address: str) -> None:
    page.goto(address)
    shapes = page.evaluate(
        """names => names.map(name => {
            const place = document.createElement("span");
            place.className = `state ${name}`;
            document.body.append(place);
            return getComputedStyle(place, "::before").maskImage;
        })""",
        list(STATES),
    )
    assert len(set(shapes)) == len(STATES)
    assert all(shape.startswith("url(") for shape in shapes)


def test_the_overview_never_scrolls_sideways(
    page: Page, address: str, app: Flask, client: KeyClient, clock: Clock
) -> None:
    for minute in range(0, 80, 10):
        clock.set(f"2026-06-21T{10 + minute // 60}:{minute % 60:02}:00Z")
        at = {"X-Platform-Project": "p" * 200, "X-Platform-Host": "web-1"}
        client.post("/api/v1/heartbeat/shop/send-queue-of-orders/end?duration_ms=934000&status=fail", headers=at)
        client.post("/api/v1/heartbeat/silent/ping")
    services(app).background.tasks["sweep"].run()
    clock.advance(hours=47)
    page.goto(address)
    expect(page.get_by_text("missed)").first).to_be_visible()
    for width in (1600, 1409, 1407, 1280, 1265, 1263, 1200, 1153, 1151, 1000, 800, 600, 390, 320):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width, width


def test_on_a_phone_a_job_with_one_run_has_run_once(page: Page, address: str, client: KeyClient) -> None:
    for job in ("first", "second", "second"):
        client.post(f"/api/v1/heartbeat/{job}/ping")
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{address}/?sort=name")
    said = "all => all.map(one => one.innerText.trim() + getComputedStyle(one, '::after').content.slice(1, -1))"
    assert page.locator("#jobs tbody td:last-child").evaluate_all(said) == ["1 run", "2 runs"]


def test_on_a_phone_a_job_that_is_only_registered_never_ran(
    page: Page, address: str, new_client: Callable[..., KeyClient]
) -> None:
    new_client("acme", "admin").post("/api/v1/jobs", json={"name": "registered"})
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(address)
    around = "one => ['::before', '::after'].map((part) => getComputedStyle(one, part).content)"
    last_run = page.locator("#jobs tbody td:nth-child(4)")
    assert (last_run.inner_text(), last_run.evaluate(around)) == ("never", ["none", '" ran"'])


def test_on_a_phone_a_name_has_the_room_that_its_state_leaves(page: Page, address: str, client: KeyClient) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    client.post("/api/v1/heartbeat/nas01/photos/thumbnails/end?duration_ms=2494000")
    page.goto(address)
    left, width = page.locator("#jobs tbody th").evaluate("one => [one.offsetLeft, one.offsetWidth]")
    assert page.locator("#jobs td.state").evaluate("one => one.offsetLeft") - left - width < 20
    assert len(page.locator("#jobs tbody th a").evaluate("one => [...one.getClientRects()]")) == 1
