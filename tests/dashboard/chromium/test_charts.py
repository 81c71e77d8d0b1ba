"""The charts as they are drawn: marks, axes, legends and tooltips of each kind."""

import re
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from tests.conftest import Clock, KeyClient

MARKS = """() => [...document.querySelectorAll("[data-chart]")].flatMap((place) => place.views).map((view) => {
    const found = [];
    (function walk(mark, x, y) {
        for (const item of mark.items ?? []) {
            const [left, top, box] = [x + (item.x ?? 0), y + (item.y ?? 0), item.bounds];
            if (mark.marktype === "group") item.items.forEach((inner) => walk(inner, left, top));
            else found.push({
                kind: mark.role === "mark" ? mark.marktype : mark.role, text: item.text, tip: item.tooltip,
                shape: item.shape, colour: item.fill ?? item.stroke, opacity: item.opacity ?? 1,
                dash: item.strokeDash?.join(" "),
                left: x + box.x1, right: x + box.x2, x: x + (box.x1 + box.x2) / 2, y: y + (box.y1 + box.y2) / 2,
            });
        }
    })(view.scenegraph().root, 0, 0);
    return found;
})"""
DRAWN = "[...document.querySelectorAll('[data-chart]')].every((place) => place.views !== undefined)"
Chart = list[dict[str, Any]]


def charts(page: Page, address: str) -> list[Chart]:
    """The charts of a page, each with its marks, axes and legends; positions are pixels from the corner of the plot."""
    page.goto(address)
    return redrawn(page)


def redrawn(page: Page) -> list[Chart]:
    expect(page.locator("[data-chart]")).to_have_count(1)
    page.wait_for_function(DRAWN)
    found: list[Chart] = page.evaluate(MARKS)
    return found


def asked(page: Page, address: str, statement: str, overlay: str = "") -> list[Chart]:
    return charts(page, f"{address}/query?q={quote(statement)}&overlay={overlay}")


def tips(chart: Chart, kind: str) -> list[dict[str, Any]]:
    """The tooltips of the marks of a kind: symbol, rect, rule, line."""
    return [mark["tip"] for mark in chart if mark["kind"] == kind and mark["tip"]]


def texts(chart: Chart, kind: str) -> list[str]:
    return [mark["text"] for mark in chart if mark["kind"] == kind]


def titles_of_axes(chart: Chart) -> list[str]:
    return [text for text in texts(chart, "axis-title") if text]


def colour(page: Page, name: str) -> str:
    found: str = page.evaluate(f"getComputedStyle(document.documentElement).getPropertyValue('--{name}').trim()")
    return found


def test_the_axis_of_durations_is_in_the_largest_unit_of_which_the_longest_has_one_and_a_half(
    page: Page, address: str, client: KeyClient
) -> None:
    longest = {
        1_499: "milliseconds",
        1_500: "seconds",
        89_999: "seconds",
        90_000: "minutes",
        5_400_000: "hours",
        129_599_999: "hours",
        129_600_000: "days",
    }
    for duration_ms, unit in longest.items():
        client.post(f"/api/v1/heartbeat/{duration_ms}/end?duration_ms=1")
        client.post(f"/api/v1/heartbeat/{duration_ms}/end?status=fail&duration_ms={duration_ms}")
        (chart,) = charts(page, f"{address}/job?name={duration_ms}")
        assert titles_of_axes(chart) == [unit], duration_ms


def test_runs_are_points_with_the_shape_and_colour_of_their_status(
    page: Page, address: str, client: KeyClient, clock: Clock
) -> None:
    for duration_ms in (61_000, 63_000):
        client.post(f"/api/v1/heartbeat/alpha/end?duration_ms={duration_ms}")
    clock.advance(hours=3)
    client.post("/api/v1/heartbeat/alpha/end?status=fail&duration_ms=30000")
    clock.advance(hours=3)
    client.post("/api/v1/heartbeat/alpha/start")
    (chart,) = charts(page, f"{address}/job?name=alpha&range=24h")
    assert tips(chart, "symbol") == [
        {"Started": "Sun 21 Jun 2026 11:58", "Result": "success", "Duration": "1 min 2 s", "Runs": 2},
        {"Started": "Sun 21 Jun 2026 14:59", "Result": "failed", "Duration": "30 s", "Runs": 1},
        {"Started": "Sun 21 Jun 2026 18:00", "Result": "open", "Duration": "not reported", "Runs": 1},
    ]
    points = [(mark["shape"], mark["colour"]) for mark in chart if mark["kind"] == "symbol"]
    assert points == [
        ("circle", colour(page, "success")),
        ("cross", colour(page, "failed")),
        ("triangle-right", colour(page, "open")),
    ]
    signs = ["▶ open", "● success", "✚ failed", "◆ lost", "median, and the range of most runs"]
    signs += ["annotation", "annotation with an end"]
    expect(page.locator("#part-chart .legend li")).to_have_text(signs)
    expect(page.get_by_role("figure", name="Run duration over time")).to_be_visible()


def test_the_chart_of_durations_spans_its_range_and_bands_are_cut_to_it(
    page: Page, address: str, client: KeyClient
) -> None:
    early = {"start_time": "2026-06-18T10:00:00Z", "end_time": "2026-06-20T16:00:00Z"}
    late = {"start_time": "2026-06-21T08:00:00Z", "end_time": "2026-06-23T10:00:00Z"}
    for times in (early, late):
        client.post("/api/v1/annotations", json={"name": "incident/db", "title": "Slow", **times})
    note = {"name": "deploy/web", "title": "Out", "start_time": "2026-06-20T22:00:00Z"}
    client.post("/api/v1/annotations", json=note)
    client.post("/api/v1/heartbeat/alpha/end?duration_ms=1000")
    (chart,) = charts(page, f"{address}/job?name=alpha&range=24h")
    start, end = (mark["x"] for mark in chart if mark["kind"] == "rule" and mark["opacity"] == 0)
    assert (start, end - start) == (pytest.approx(0, abs=1), pytest.approx(end))
    bands = sorted([mark["left"], mark["right"]] for mark in chart if mark["kind"] == "rect")
    assert bands == [pytest.approx([0, end / 4], abs=2), pytest.approx([end * 22 / 24, end], abs=2)]
    assert [mark["x"] for mark in chart if mark["kind"] == "rule" and mark["tip"]] == [pytest.approx(end / 2, abs=2)]
    assert tips(chart, "rule") == [{"Time": "Sun 21 Jun 2026 00:00", "Annotation": "deploy/web", "Title": "Out"}]


@pytest.fixture
def runs(client: KeyClient, clock: Clock) -> None:
    for name in ("alpha", "beta", "beta"):
        client.post(f"/api/v1/heartbeat/{name}/end?duration_ms=61000")
    client.post("/api/v1/annotations", json={"name": "deploy/web", "title": "Web is out"})
    band = {"start_time": "2026-06-21T08:00:00Z", "end_time": "2026-06-21T09:00:00Z"}
    client.post("/api/v1/annotations", json={"name": "incident/db", "title": "Database is slow", **band})
    clock.advance(hours=1)


@pytest.mark.usefixtures("runs")
def test_a_timeseries_is_a_line_with_annotations_of_a_prefix_over_it(page: Page, address: str) -> None:
    (chart,) = asked(page, address, "SELECT count(*) FROM runs EVERY 1h LAST 6h")
    assert tips(chart, "line")[-2:] == [
        {"Time": "Sun 21 Jun 2026 11:00", "count": "3"},
        {"Time": "Sun 21 Jun 2026 12:00", "count": "0"},
    ]
    assert tips(chart, "rule") == []
    page.get_by_label("Overlay annotations").select_option("deploy/")
    page.get_by_role("button", name="Run").click()
    page.wait_for_url("**overlay=deploy*")
    (chart,) = redrawn(page)
    (marker,) = [mark for mark in chart if mark["kind"] == "rule" and mark["tip"]]
    assert tips(chart, "rect") == []
    page.locator(".chart canvas").scroll_into_view_if_needed()
    box = page.locator(".chart canvas").bounding_box()
    origin = page.evaluate("document.querySelector('[data-chart]').views[0].origin()")
    assert box is not None
    page.mouse.move(box["x"] + origin[0] + marker["x"], box["y"] + origin[1] + marker["y"])
    expect(page.locator(".tip")).to_contain_text("Web is out")


@pytest.mark.parametrize(("width", "days"), [(1280, 7), (1280, 14), (375, 7)])
@pytest.mark.usefixtures("runs")
def test_the_axis_of_several_days_names_dates(page: Page, address: str, width: int, days: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    (chart,) = asked(page, address, f"SELECT count(*) FROM runs EVERY 6h LAST {days}d")
    labels = [mark for mark in chart if mark["kind"] == "axis-label" and mark["opacity"] > 0]
    assert [mark["text"] for mark in labels if re.fullmatch("[0-9]{2} [A-Z][a-z]{2}|[A-Z][a-z]{2}", mark["text"])]


def test_values_between_gaps_are_points(page: Page, address: str, client: KeyClient, clock: Clock) -> None:
    for hours in (23, 1, 24, 24):  # the third follows the second at once, in the next hour
        client.post("/api/v1/heartbeat/alpha/end?duration_ms=61000")
        clock.advance(hours=hours)
    (chart,) = asked(page, address, "SELECT avg(duration_ms) AS length FROM runs EVERY 1h LAST 10d")
    assert [tip["Time"] for tip in tips(chart, "symbol")] == ["Sun 21 Jun 2026 11:00", "Tue 23 Jun 2026 11:00"]


def test_the_legend_of_many_lines_is_complete(page: Page, address: str, client: KeyClient, clock: Clock) -> None:
    for number in range(21):
        client.post(f"/api/v1/heartbeat/shop/send-queue-{number}/ping")
    clock.advance(hours=1)
    page.set_viewport_size({"width": 1280, "height": 900})
    (chart,) = asked(page, address, "SELECT count(*) FROM runs BY job EVERY 1h LAST 2h")
    top = page.evaluate("document.querySelector('[data-chart]').views[0].origin()[1]")
    height = page.locator(".drawing canvas").evaluate("canvas => canvas.clientHeight")
    labels = [mark["y"] for mark in chart if mark["kind"] == "legend-label"]
    assert (len(labels), max(labels) + top < height) == (21, True)
    looks = [(mark["colour"], mark["dash"]) for mark in chart if mark["kind"] == "legend-symbol"]
    assert (len(set(looks)), len({colour for colour, _ in looks})) == (21, 8)


@pytest.mark.usefixtures("runs")
def test_a_band_is_laid_over_a_timeseries(page: Page, address: str) -> None:
    (chart,) = asked(page, address, "SELECT count(*) FROM runs EVERY 1h LAST 6h", "incident/")
    assert [tip["Title"] for tip in tips(chart, "rect")] == ["Database is slow"]
    assert tips(chart, "rule") == []


@pytest.mark.usefixtures("runs")
def test_each_number_of_a_timeseries_has_a_chart_with_a_line_for_each_group(page: Page, address: str) -> None:
    statement = "SELECT count(*), avg(duration_ms) AS avg_ms FROM runs BY job EVERY 1h LAST 2h"
    counts, averages = asked(page, address, statement)
    figures = page.locator("figure").evaluate_all("all => all.map((one) => one.getAttribute('aria-label'))")
    assert figures == ["count over time", "avg_ms over time"]
    assert (titles_of_axes(counts), titles_of_axes(averages)) == (["count"], ["avg, seconds"])
    for chart, title, numbers in ((counts, "count", ("1", "2")), (averages, "avg, seconds", ("61", "61"))):
        assert texts(chart, "legend-label") == ["alpha", "beta"]
        drawn = [(tip["Line"], tip[title]) for tip in tips(chart, "line") if tip["Time"].endswith("11:00")]
        assert drawn == list(zip(("alpha", "beta"), numbers, strict=True))


@pytest.mark.usefixtures("runs")
def test_the_numbers_of_the_previous_window_are_a_second_line(page: Page, address: str) -> None:
    (chart,) = asked(page, address, "SELECT count(*) FROM runs EVERY 1h COMPARE WITH 1h AGO LAST 2h")
    assert texts(chart, "legend-label") == ["count", "count_previous"]
    drawn = {(tip["Line"], tip["Time"][-5:]): tip["count"] for tip in tips(chart, "line")}
    assert (drawn["count", "11:00"], drawn["count_previous", "12:00"]) == ("3", "3")


@pytest.mark.usefixtures("runs")
def test_groups_are_bars(page: Page, address: str) -> None:
    (chart,) = asked(page, address, "SELECT count(*) FROM runs BY job LAST 1d")
    assert tips(chart, "rect") == [{"job": "alpha", "count": "1"}, {"job": "beta", "count": "2"}]
    expect(page.get_by_role("figure", name="The result by group")).to_be_visible()
    expect(page.locator("table td")).to_have_text(["alpha", "1", "beta", "2"])


@pytest.mark.usefixtures("runs")
def test_bars_of_durations_have_a_unit(page: Page, address: str) -> None:
    (chart,) = asked(page, address, "SELECT sum(duration_ms) AS sum_ms FROM runs BY host LAST 1d")
    assert titles_of_axes(chart) == ["sum, minutes", "host"]
    assert tips(chart, "rect") == [{"host": "(not set)", "sum, minutes": "3.05"}]


def test_the_axis_of_small_counts_has_whole_numbers_only(
    page: Page, address: str, client: KeyClient, clock: Clock
) -> None:
    for job in ("alpha", "beta"):
        client.post(f"/api/v1/heartbeat/{job}/ping")
    clock.advance(minutes=5)
    for statement in ("BY job LAST 1h", "EVERY 10m LAST 1h"):
        (chart,) = asked(page, address, f"SELECT count(*) FROM runs {statement}")
        assert {"0", "1"} <= set(texts(chart, "axis-label"))
        assert [text for text in texts(chart, "axis-label") if "." in text] == []


@pytest.mark.usefixtures("runs")
def test_a_group_without_a_value_is_called_not_set(page: Page, address: str, client: KeyClient, clock: Clock) -> None:
    client.post("/api/v1/heartbeat/alpha/ping", headers={"X-Platform-Host": "nas"})
    clock.advance(hours=1)
    (bars,) = asked(page, address, "SELECT count(*) FROM runs BY host LAST 1d")
    assert {tip["host"] for tip in tips(bars, "rect")} == {"nas", "(not set)"}
    (lines,) = asked(page, address, "SELECT count(*) FROM runs BY host EVERY 1h LAST 4h")
    assert set(texts(lines, "legend-label")) == {"nas", "(not set)"}


@pytest.mark.usefixtures("runs")
def test_annotations_are_drawn_in_a_row_for_each_name(page: Page, address: str) -> None:
    (chart,) = charts(page, f"{address}/annotations")
    assert sorted(tip["Annotation"] for tip in tips(chart, "rect")) == sorted(["deploy/web", "incident/db"] * 2)
    band = max((mark for mark in chart if mark["kind"] == "rect"), key=lambda mark: mark["right"] - mark["left"])
    assert band["tip"] == {"Time": "Sun 21 Jun 2026 10:00", "Annotation": "incident/db", "Title": "Database is slow"}
    rows = {mark["tip"]["Annotation"]: mark["y"] for mark in chart if mark["kind"] == "rect"}
    assert rows["deploy/web"] < rows["incident/db"]
    expect(page.get_by_role("figure", name="Annotations over time")).to_be_visible()


@pytest.mark.usefixtures("runs")
def test_a_change_of_the_theme_draws_charts_again_in_its_colours(page: Page, address: str) -> None:
    page.emulate_media(color_scheme="light")
    asked(page, address, "SELECT count(*) FROM runs EVERY 1h LAST 6h")
    light = colour(page, "accent")
    is_drawn_in = f"(accent) => ({MARKS})()[0].some((mark) => mark.kind === 'line' && mark.colour === accent)"
    assert page.evaluate(is_drawn_in, light)
    page.emulate_media(color_scheme="dark")
    assert colour(page, "accent") != light
    page.wait_for_function(is_drawn_in, arg=colour(page, "accent"))
    expect(page.locator("figure canvas")).to_have_count(1)


def test_the_preview_of_an_alert_draws_each_group_the_threshold_and_when_it_fires(
    page: Page, address: str, client: KeyClient, clock: Clock
) -> None:
    for host in ("nas01", "nas01", "web-1"):
        client.post("/api/v1/heartbeat/backup/end?status=fail", headers={"X-Platform-Host": host})
    clock.advance(minutes=1)
    statement = "SELECT count(*) FROM runs WHERE status = 'failed' BY host LAST 1d"
    page.goto(f"{address}/alerts/query?q={quote(statement)}")
    page.get_by_label("Threshold").fill("1")
    page.get_by_label("For", exact=True).fill("0s")
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_text("This alert would have fired")).to_be_visible()
    expect(page.locator("canvas")).to_be_visible()
    [chart] = page.evaluate(MARKS)
    assert set(texts(chart, "legend-label")) == {"nas01", "web-1", "threshold"}
    assert len({mark["colour"] for mark in chart if mark["kind"] == "line"}) == 3
    assert "nas01" in tips(chart, "rect")[0].values()
