"""Annotations and maintenance windows, added and changed in a browser."""

import re

from playwright.sync_api import Page, Route, expect

from tests.conftest import KeyClient


def test_an_annotation_is_added_edited_ended_and_deleted(page: Page, address: str, client: KeyClient) -> None:
    page.goto(f"{address}/annotations")
    page.get_by_label("Name", exact=True).fill("incident/db")
    page.get_by_label("Title", exact=True).fill("Database is slow")
    page.get_by_role("button", name="Add").click()
    row = page.get_by_role("row", name="incident/db")
    expect(row).to_contain_text("Database is slow")
    row.get_by_role("link", name="Edit").click()
    page.get_by_label("Title", exact=True).fill("Database is very slow")
    page.get_by_role("button", name="Save").click()
    expect(row).to_contain_text("Database is very slow")
    row.get_by_role("button", name="End now").click()
    expect(page.get_by_role("status")).to_have_text("Annotation ended.")
    assert client.get("/api/v1/annotations/1").json["end_time"] == "2026-06-21T10:00:00.000Z"
    row.get_by_role("button", name="Delete").click()
    expect(page.get_by_role("status")).to_have_text("Deleted Database is very slow.")
    expect(row).to_have_count(0)


def test_a_form_is_sent_once_and_later_again_if_the_page_stays(page: Page, address: str) -> None:
    sent = list[str]()

    def stay(route: Route) -> None:
        sent.append(route.request.post_data or "")
        route.fulfill(status=204)

    page.clock.install()
    page.goto(f"{address}/annotations")
    page.route("**/annotations", stay)
    page.get_by_label("Name", exact=True).fill("deploy/web")
    title, add = page.get_by_label("Title", exact=True), page.get_by_role("button", name="Add")
    title.fill("first")
    with page.expect_request("**/annotations"):
        add.click()
    title.fill("second")
    add.click()
    page.clock.fast_forward(30_000)
    title.fill("third")
    with page.expect_request("**/annotations"):
        add.click()
    page.unroute("**/annotations")  # when both were handled
    assert [re.findall("title=([a-z]+)", one)[0] for one in sent] == ["first", "third"]


def test_a_problem_is_shown_beside_its_field_and_the_entered_text_stays(page: Page, address: str) -> None:
    page.goto(f"{address}/annotations")
    page.get_by_label("Name", exact=True).fill("incident/db")
    page.get_by_label("Title", exact=True).fill("Slow")
    page.get_by_label("Link", exact=True).fill("javascript:alert(1)")
    page.get_by_role("button", name="Add").click()
    expect(page.get_by_role("alert")).to_contain_text("Not an http or https URL")
    expect(page.get_by_label("Link", exact=True)).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_label("Title", exact=True)).to_have_value("Slow")


def test_maintenance_is_scheduled_in_the_zone_of_the_browser_and_deleted(
    page: Page, address: str, client: KeyClient
) -> None:
    page.goto(f"{address}/incidents")
    expect(page.get_by_text("Europe/Berlin time").first).to_be_visible()
    page.get_by_label("Title", exact=True).fill("New disks")
    page.get_by_label("Starts", exact=True).fill("2026-07-01T22:00")
    expect(page.locator("#start_time-help")).to_contain_text("2026-07-01 20:00 UTC")
    page.get_by_label("Ends", exact=True).fill("2026-07-01T21:00")
    page.get_by_role("button", name="Schedule maintenance").click()
    expect(page.get_by_role("alert")).to_have_text("Must be after the start.")
    expect(page.get_by_label("Ends", exact=True)).to_be_focused()
    expect(page.get_by_label("Starts", exact=True)).to_have_value("2026-07-01T22:00")
    page.get_by_label("Ends", exact=True).fill("2026-07-01T23:00")
    page.get_by_role("button", name="Schedule maintenance").click()
    row = page.get_by_role("row", name="New disks")
    expect(row).to_be_visible()
    (window,) = client.get("/api/v1/maintenance").json["maintenance_windows"]
    assert (window["start_time"], window["end_time"]) == ("2026-07-01T20:00:00.000Z", "2026-07-01T21:00:00.000Z")
    row.get_by_role("button", name="Delete").click()
    expect(row).to_have_count(0)
