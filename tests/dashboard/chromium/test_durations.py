"""What the page of a job says about durations, and how its chart and its calendar lead to runs."""

from random import Random
from typing import Literal

import pytest
from playwright.sync_api import Page, expect

from obs.dashboard import wording
from tests.conftest import Clock, KeyClient
from tests.dashboard.chromium.test_charts import charts, texts, tips


def run_daily(client: KeyClient, clock: Clock, days: range, duration_ms: int) -> None:
    """A run of ``alpha`` at 10:00 on each of these days of June, with durations around one."""
    for day in days:
        clock.set(f"2026-06-{day:02}T10:00:00Z")
        client.post(f"/api/v1/heartbeat/alpha/end?duration_ms={duration_ms + day % 3 * 1000}")


def deploy(client: KeyClient, title: str, day: int) -> None:
    note = {"name": "deploy/web", "title": title, "start_time": f"2026-06-{day:02}T12:00:00Z"}
    assert client.post("/api/v1/annotations", json=note).status_code == 201


def test_durations_are_compared_with_the_week_before_and_a_change_with_the_deploy_before_it(
    page: Page, address: str, client: KeyClient, clock: Clock
) -> None:
    run_daily(client, clock, range(1, 15), 60_000)
    run_daily(client, clock, range(15, 22), 150_000)
    for title, day in (("Shop 3.9", 7), ("Shop 4.0", 14)):
        deploy(client, title, day)
    clock.advance(hours=1)
    page.goto(f"{address}/job?name=alpha")
    expect(page.locator("#verdict")).to_have_text(
        "Median of the last 7 days: 2 min 31 s, +148 % vs. the week before. 2.5 times as long since “Shop 4.0”."
    )
    client.post("/api/v1/heartbeat/alpha/end?status=fail&duration_ms=1")
    expect(page.locator("h1")).to_contain_text("failing")
    expect(page.locator("#verdict")).to_contain_text("since “Shop 4.0”")


def test_a_slow_time_that_is_over_is_between_two_deploys(
    page: Page, address: str, client: KeyClient, clock: Clock
) -> None:
    for days, duration_ms in ((range(1, 6), 60_000), (range(6, 11), 132_000), (range(11, 22), 60_000)):
        run_daily(client, clock, days, duration_ms)
    for title, day in (("Shop 4.0", 5), ("Shop 4.0.1", 10), ("<b>Shop 4.1</b>", 15)):
        deploy(client, title, day)
    clock.advance(hours=1)
    (chart,) = charts(page, f"{address}/job?name=alpha")
    expect(page.locator("#verdict")).to_contain_text("2.2 times as long from “Shop 4.0” to “Shop 4.0.1”.")
    assert texts(chart, "text") == ["<b>Shop 4.1</b>", "Shop 4.0.1", "Shop 4.0"]


@pytest.mark.parametrize(("slow_runs", "is_named"), [(3, False), (4, True)])
def test_a_change_is_named_after_four_runs(
    page: Page, address: str, client: KeyClient, clock: Clock, slow_runs: int, is_named: bool
) -> None:
    run_daily(client, clock, range(1, 22 - slow_runs), 60_000)
    run_daily(client, clock, range(22 - slow_runs, 22), 150_000)
    deploy(client, "Shop 4.0", 21 - slow_runs)
    clock.advance(hours=1)
    page.goto(f"{address}/job?name=alpha")
    expect(page.locator("#verdict")).to_contain_text("vs. the week before.")
    assert ("since “Shop 4.0”" in page.locator("#verdict").inner_text()) is is_named


def test_durations_that_only_vary_are_hardly_ever_said_to_have_changed(
    page: Page, address: str, client: KeyClient
) -> None:
    client.post("/api/v1/heartbeat/alpha/end?duration_ms=60000")
    page.goto(f"{address}/job?name=alpha")
    page.wait_for_function("document.querySelector('[data-chart]').views !== undefined")
    random = Random(7)
    deploys = [
        {"name": "deploy/web", "title": f"Shop {day}", "start_time": day * 1000 - 500, "end_time": None}
        for day in range(0, 40, 8)
    ]
    said = 0
    for _ in range(200):
        points = [
            {"time": day * 1000, "status": "success", "duration_ms": random.randint(40_000, 90_000), "runs": 1}
            for day in range(40)
        ]
        said += page.evaluate(
            """(detail) => {
                const drawn = new CustomEvent("drawn", { bubbles: true, detail: { ...detail, views: [] } });
                document.querySelector("[data-chart]").dispatchEvent(drawn);
                return document.getElementById("verdict").textContent.includes("Shop");
            }""",
            {"data": {"points": points, "end": 40_000}, "annotations": deploys},
        )
    assert said <= 4


@pytest.mark.usefixtures("client")
def test_scripts_and_the_server_write_durations_alike(page: Page, address: str) -> None:
    page.goto(address)
    random = Random(1)
    lengths = [round(10 ** random.uniform(0, 10)) for _ in range(2_000)]
    # Python rounds a half to the even number, JavaScript up.
    lengths = [one for one in lengths if all(one % unit != unit // 2 for unit in (100, 1_000, 60_000, 3_600_000))]
    assert page.evaluate("lengths => lengths.map(inWords)", lengths) == [wording.duration(one) for one in lengths]


def click_point(page: Page, place: int) -> None:
    """Click a point of the chart, counted from the first run."""
    chart = page.locator("[data-chart] canvas")
    chart.scroll_into_view_if_needed()
    page.wait_for_function("document.querySelector('[data-chart]').views !== undefined")
    box = chart.bounding_box()
    assert box is not None
    x, y = page.evaluate(
        """(place) => {
            const [view] = document.querySelector("[data-chart]").views;
            const points = [];
            (function walk(mark) {
                if (mark.marktype === "symbol") points.push(...mark.items);
                else for (const item of mark.items ?? []) for (const inner of item.items ?? []) walk(inner);
            })(view.scenegraph().root);
            points.sort((one, other) => one.x - other.x);
            const { left, top } = view.padding();
            return [left + view.origin()[0] + points.at(place).x, top + view.origin()[1] + points.at(place).y];
        }""",
        place,
    )
    page.mouse.click(box["x"] + x, box["y"] + y)


def test_a_click_on_a_point_opens_its_run_or_the_runs_of_its_day(
    page: Page, address: str, client: KeyClient, clock: Clock
) -> None:
    run_daily(client, clock, range(1, 4), 60_000)
    for _ in range(2):
        client.post("/api/v1/heartbeat/alpha/end?status=fail&duration_ms=30000")
    clock.advance(days=1)
    page.goto(f"{address}/job?name=alpha")
    click_point(page, 1)
    expect(page.locator("h1")).to_contain_text("Run 2")
    page.go_back()
    click_point(page, -1)
    page.wait_for_url("**day=2026-06-03&show=failed*")
    expect(page.locator("#part-runs tbody tr")).to_have_count(2)
    page.get_by_role("link", name="Newest runs").click()
    page.get_by_role("link", name="All", exact=True).click()
    expect(page.locator("#part-runs tbody tr")).to_have_count(5)


def test_a_click_on_a_day_of_the_calendar_leads_to_its_runs(
    page: Page, address: str, client: KeyClient, clock: Clock
) -> None:
    run_daily(client, clock, range(1, 22), 60_000)
    page.goto(f"{address}/job?name=alpha")
    page.locator(".calendar g", has_text="Wed 10 Jun 2026").click()
    page.wait_for_url("**day=2026-06-10*")
    expect(page.locator("#part-runs tbody tr")).to_have_count(10)
    expect(page.locator("#part-runs tbody tr").first).to_contain_text("10 Jun")


def test_the_chart_of_a_job_that_only_pings_shows_its_gaps(
    page: Page, address: str, client: KeyClient, clock: Clock
) -> None:
    for hour in (1, 2, 3, 8, 9):
        clock.set(f"2026-06-21T{hour:02}:00:00Z")
        client.post("/api/v1/heartbeat/alpha/ping")
    (chart,) = charts(page, f"{address}/job?name=alpha&range=24h")
    expect(page.get_by_role("heading", name="Time between runs")).to_be_visible()
    expect(page.get_by_role("figure", name="Time between runs")).to_be_visible()
    assert [tip["Since the run before"] for tip in tips(chart, "symbol")] == ["1 h", "1 h", "5 h", "1 h"]
    assert "Duration" not in page.locator("#part-chart").inner_text()


def test_a_gap_after_a_point_of_several_pings_is_as_long_as_it_was(
    page: Page, address: str, client: KeyClient, clock: Clock
) -> None:
    for hour in (1, 2, 6):
        for minute in (0, 15, 30, 45):
            clock.set(f"2026-06-21T{hour:02}:{minute:02}:00Z")
            client.post("/api/v1/heartbeat/alpha/ping")
    (chart,) = charts(page, f"{address}/job?name=alpha&range=30d")
    assert [(tip["Runs"], tip["Since the run before"]) for tip in tips(chart, "symbol")] == [
        (4, "15 min"),
        (4, "3 h 15 min"),
    ]


def test_a_failure_among_other_runs_is_no_gap(page: Page, address: str, client: KeyClient, clock: Clock) -> None:
    for hour in (1, 2, 3):
        for minute in range(0, 60, 10):
            clock.set(f"2026-06-21T{hour:02}:{minute:02}:00Z")
            status = "fail" if (hour, minute) == (2, 20) else "ok"
            client.post("/api/v1/heartbeat/alpha/end", query_string={"status": status})
    (chart,) = charts(page, f"{address}/job?name=alpha&range=30d")
    assert [tip["Since the run before"] for tip in tips(chart, "symbol")] == ["10 min"] * 3


def test_on_a_phone_the_error_of_a_run_is_in_view_and_its_row_opens_it(
    page: Page, address: str, client: KeyClient
) -> None:
    client.post("/api/v1/heartbeat/alpha/end?exit_code=75", data="relay denied")
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{address}/job?name=alpha")
    error = page.locator(".runs .error")
    error.scroll_into_view_if_needed()
    expect(error).to_be_in_viewport(ratio=1)
    expect(page.locator(".runs tr td").nth(3)).to_have_css("display", "block")
    error.click()
    expect(page.locator("h1")).to_contain_text("Run 1")


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_durations_and_the_verdict_are_drawn_before_the_library_of_charts_arrives(
    page: Page, address: str, client: KeyClient, clock: Clock, width: int, scheme: Literal["light", "dark"]
) -> None:
    for day in range(1, 21):
        clock.set(f"2026-06-{day:02}T10:00:00Z")
        client.post(f"/api/v1/heartbeat/alpha/end?duration_ms={(120_000 if day > 15 else 60_000) + day}")
    client.post("/api/v1/heartbeat/alpha/end?status=fail&duration_ms=5000")
    note = {"name": "deploy/shop", "title": "Shop 4.1", "start_time": "2026-06-15T12:00:00Z"}
    client.post("/api/v1/annotations", json=note)
    clock.advance(minutes=1)
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=scheme)
    page.route("**/library/**", lambda route: route.abort())
    page.goto(f"{address}/job?name=alpha")
    expect(page.get_by_role("figure", name="Run duration over time")).to_be_visible()
    drawn = page.locator("[data-chart] svg")
    expect(drawn.locator("path[transform]")).to_have_count(21)
    assert {"minutes", "Shop 4.1"} <= set(drawn.locator("text").all_text_contents())
    expect(page.locator("#verdict")).to_contain_text("2.0 times as long since “Shop 4.1”.")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    box, colours = (
        drawn.bounding_box(),
        "[...new Set([...document.querySelectorAll('[data-chart] path[transform]')].map",
    )
    assert len(page.evaluate(f"{colours}((one) => getComputedStyle(one).fill))]")) == 2
    page.unroute("**/library/**")
    page.reload()
    canvas = page.locator("[data-chart] canvas")
    expect(canvas).to_be_visible()
    expect(drawn).to_have_count(0)
    assert box is not None
    assert (after := canvas.bounding_box()) is not None
    assert abs(after["height"] - box["height"]) <= 12  # nothing below it jumps far
