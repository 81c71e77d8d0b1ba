"""Annotations and planned silence made and changed in a browser."""

from playwright.sync_api import Page, expect

from tests.conftest import KeyClient


def test_an_annotation_is_made_edited_ended_and_deleted(page: Page, address: str, client: KeyClient) -> None:
    page.goto(f"{address}/annotations")
    page.get_by_role("textbox", name="Name a slash-separated").fill("incident/db")
    page.get_by_role("textbox", name="Title the text").fill("Database is slow")
    page.get_by_role("button", name="Add").click()
    row = page.get_by_role("row", name="incident/db")
    expect(row).to_contain_text("Database is slow")
    row.get_by_role("link", name="Edit").click()
    page.get_by_role("textbox", name="Title the text").fill("Database is very slow")
    page.get_by_role("button", name="Save").click()
    expect(row).to_contain_text("Database is very slow")
    row.get_by_role("button", name="End now").click()
    expect(page.get_by_role("status")).to_have_text("Ended.")
    assert client.get("/api/v1/annotations/1").json["end_time"] == "2026-06-21T10:00:00.000Z"
    row.get_by_role("button", name="Delete").click()
    expect(page.get_by_role("status")).to_have_text("Deleted Database is very slow.")
    expect(row).to_have_count(0)


def test_a_fault_is_told_beside_its_field_and_what_was_entered_stays(page: Page, address: str) -> None:
    page.goto(f"{address}/annotations")
    page.get_by_role("textbox", name="Name a slash-separated").fill("incident/db")
    page.get_by_role("textbox", name="Title the text").fill("Slow")
    page.get_by_role("textbox", name="Link").fill("javascript:alert(1)")
    page.get_by_role("button", name="Add").click()
    expect(page.get_by_role("alert")).to_contain_text("Not an http or https URL")
    expect(page.get_by_role("textbox", name="Link")).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_role("textbox", name="Title the text")).to_have_value("Slow")


def test_silence_is_planned_and_taken_back(page: Page, address: str) -> None:
    page.goto(f"{address}/alerts")
    page.get_by_label("What").fill("New disks")
    page.get_by_label("To", exact=True).fill("+2h")
    page.get_by_role("button", name="Plan it").click()
    row = page.get_by_role("row", name="New disks")
    expect(row).to_be_visible()
    row.get_by_role("button", name="Delete").click()
    expect(row).to_have_count(0)
