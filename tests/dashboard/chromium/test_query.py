"""The query page in a browser: the editor, and an answer of each kind drawn."""

import pytest
from playwright.sync_api import Page, expect

from tests.conftest import Clock, KeyClient

ITEMS = """type => {
    const found = [];
    (function walk(mark, x, y) {
        for (const item of mark.items ?? []) {
            const [left, top] = [x + (item.x ?? 0), y + (item.y ?? 0)];
            if (mark.marktype === "group") item.items.forEach((inner) => walk(inner, left, top));
            else if (mark.marktype === type && mark.role === "mark") {
                const box = item.bounds;
                found.push({ x: x + (box.x1 + box.x2) / 2, y: y + (box.y1 + box.y2) / 2, tip: item.tooltip });
            }
        }
    })(document.querySelector("[data-chart]").view.scenegraph().root, 0, 0);
    return found;
}"""


def drawn(page: Page, kind: str) -> list[dict[str, object]]:
    """What the first chart of the page holds of a kind of mark (rect, rule, line) that says something, and where."""
    page.wait_for_function("document.querySelector('[data-chart]')?.view !== undefined")
    found: list[dict[str, object]] = page.evaluate(ITEMS, kind)
    return [one for one in found if one["tip"]]


@pytest.fixture(autouse=True)
def _runs(client: KeyClient, clock: Clock) -> None:
    for name in ("alpha", "beta", "beta"):
        client.post(f"/api/v1/heartbeat/{name}/end?duration_ms=61000")
    client.post("/api/v1/annotations", json={"name": "deploy/web", "title": "Web is out"})
    band = {"start_time": "2026-06-21T08:00:00Z", "end_time": "2026-06-21T09:00:00Z"}
    client.post("/api/v1/annotations", json={"name": "incident/db", "title": "Database is slow", **band})
    clock.advance(hours=1)


def test_a_fault_is_selected(page: Page, address: str) -> None:
    page.goto(f"{address}/query")
    page.fill("#q", "SELECT count(*)\nFROM runs WHERE durationms > 5 LAST 1d")
    page.press("#q", "Control+Enter")
    expect(page.get_by_role("alert")).to_contain_text("Did you mean duration_ms?")
    selected = "(q => q.value.slice(q.selectionStart, q.selectionEnd))(document.getElementById('q'))"
    page.wait_for_function(f"{selected} === 'durationms'")


def test_words_are_completed_while_a_query_is_written(page: Page, address: str) -> None:
    page.goto(f"{address}/query")
    page.locator("#q").press_sequentially("SELECT max(durat")
    expect(page.get_by_role("option").first).to_have_text("duration_ms")
    page.press("#q", "Tab")
    expect(page.locator("#q")).to_have_value("SELECT max(duration_ms")


def test_a_timeseries_is_a_line_with_annotations_of_a_prefix_over_it(page: Page, address: str) -> None:
    page.goto(f"{address}/query?q=SELECT+count(*)+FROM+runs+EVERY+1h+LAST+6h")
    assert len(drawn(page, "line")) > 0
    assert drawn(page, "rule") == []
    page.get_by_label("Annotations on the chart").select_option("deploy/")
    page.get_by_role("button", name="Run").click()
    page.wait_for_url("**over=deploy*")
    (marker,) = drawn(page, "rule")
    assert drawn(page, "rect") == []
    page.locator(".chart canvas").scroll_into_view_if_needed()
    box = page.locator(".chart canvas").bounding_box()
    origin = page.evaluate("document.querySelector('[data-chart]').view.origin()")
    assert box is not None
    page.mouse.move(box["x"] + origin[0] + marker["x"], box["y"] + origin[1] + marker["y"])
    expect(page.locator(".tip")).to_contain_text("Web is out")


def test_a_band_is_laid_over_a_timeseries(page: Page, address: str) -> None:
    page.goto(f"{address}/query?q=SELECT+count(*)+FROM+runs+EVERY+1h+LAST+6h&over=incident/")
    (band,) = drawn(page, "rect")
    assert band["tip"]["Title"] == "Database is slow"  # type: ignore[index]
    assert drawn(page, "rule") == []


def test_groups_are_bars(page: Page, address: str) -> None:
    page.goto(f"{address}/query?q=SELECT+count(*)+FROM+runs+BY+job+LAST+1d")
    assert [bar["tip"] for bar in drawn(page, "rect")] == [
        {"job": "alpha", "count": "1"},
        {"job": "beta", "count": "2"},
    ]
    expect(page.locator("table td")).to_have_text(["alpha", "1", "beta", "2"])


def test_a_number_is_large_and_rows_are_a_table(page: Page, address: str) -> None:
    page.goto(f"{address}/query?q=SELECT+count(*)+FROM+runs+LAST+1d")
    expect(page.locator(".single b")).to_have_text("3")
    page.goto(f"{address}/query?q=SELECT+job,+duration_ms+FROM+runs+ORDER+BY+job+LAST+1d")
    expect(page.locator("table td")).to_have_text(["alpha", "1 min 1 s", "beta", "1 min 1 s", "beta", "1 min 1 s"])
    expect(page.locator(".chart")).to_have_count(0)


def test_every_example_is_answered_and_every_source_is_told(page: Page, address: str) -> None:
    page.goto(f"{address}/query")
    examples = page.locator(".examples a").evaluate_all("all => all.map(one => one.href)")
    assert len(examples) > 5
    for example in examples:
        page.goto(example)
        expect(page.locator("#fault")).to_have_count(0)
        expect(page.get_by_text("rows in").or_(page.get_by_text("row in"))).to_be_visible()
    page.goto(f"{address}/query?q=SHOW+SOURCES")
    sources = page.locator("table td:first-child").all_inner_texts()
    assert sorted(page.locator("#sources summary code").all_inner_texts()) == sorted(sources)
    assert "incidents" in sources


def test_an_answer_is_taken_away(page: Page, address: str) -> None:
    page.goto(f"{address}/query?q=SELECT+count(*)+FROM+runs+BY+job+LAST+1d")
    with page.expect_download() as taken:
        page.get_by_role("link", name="CSV").click()
    assert taken.value.path().read_text().split() == ["job,count", "alpha,1", "beta,2"]
