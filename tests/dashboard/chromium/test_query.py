"""The query page in a browser: the editor, and results as numbers, tables and downloads."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.conftest import Clock, KeyClient


@pytest.fixture(autouse=True)
def _runs(client: KeyClient, clock: Clock) -> None:
    for name in ("alpha", "beta", "beta"):
        client.post(f"/api/v1/heartbeat/{name}/end?duration_ms=61000")
    clock.advance(hours=1)


def test_an_error_is_selected(page: Page, address: str) -> None:
    page.goto(f"{address}/query")
    page.fill("#q", "SELECT count(*)\nFROM runs WHERE durationms > 5 LAST 1d")
    page.press("#q", "Control+Enter")
    expect(page.get_by_role("alert")).to_contain_text("Did you mean duration_ms?")
    selected = "(q => q.value.slice(q.selectionStart, q.selectionEnd))(document.getElementById('q'))"
    page.wait_for_function(f"{selected} === 'durationms'")


def test_words_are_completed_in_the_editor(page: Page, address: str) -> None:
    page.goto(f"{address}/query")
    page.locator("#q").press_sequentially("SELECT max(durat")
    expect(page.get_by_role("option").first).to_have_text("duration_ms")
    page.press("#q", "Tab")
    expect(page.locator("#q")).to_have_value("SELECT max(duration_ms")


def test_a_number_is_large_and_rows_are_a_table(page: Page, address: str) -> None:
    page.goto(f"{address}/query?q=SELECT+count(*)+FROM+runs+LAST+1d")
    expect(page.locator(".single b")).to_have_text("3")
    page.goto(f"{address}/query?q=SELECT+job,+duration_ms+FROM+runs+ORDER+BY+job+LAST+1d")
    expect(page.locator("table td")).to_have_text(["alpha", "1 min 1 s", "beta", "1 min 1 s", "beta", "1 min 1 s"])
    expect(page.locator(".chart")).to_have_count(0)


def test_every_example_works_and_every_source_is_listed(page: Page, address: str) -> None:
    page.goto(f"{address}/query")
    examples = page.locator(".examples a").evaluate_all("all => all.map(one => one.href)")
    assert len(examples) > 5
    for example in examples:
        page.goto(example)
        expect(page.locator("#error")).to_have_count(0)
        expect(page.get_by_text(re.compile(r"^\d+ rows?$"))).to_be_visible()
    page.goto(f"{address}/query?q=SHOW+SOURCES")
    sources = page.locator("table td:first-child").all_inner_texts()
    assert sorted(page.locator("#sources summary code").all_inner_texts()) == sorted(sources)
    assert "incidents" in sources


def test_a_result_is_downloaded(page: Page, address: str) -> None:
    page.goto(f"{address}/query?q=SELECT+count(*)+FROM+runs+BY+job+LAST+1d")
    with page.expect_download() as download:
        page.get_by_role("link", name="CSV").click()
    assert download.value.path().read_text().split() == ["job,count", "alpha,1", "beta,2"]
