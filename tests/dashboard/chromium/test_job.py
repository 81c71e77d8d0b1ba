"""A job and a run in a browser."""

import pytest
from playwright.sync_api import Page, expect

from tests.conftest import Clock, KeyClient


def test_times_are_in_the_viewers_zone_with_utc_on_hover(page: Page, address: str, client: KeyClient) -> None:
    client.post("/api/v1/heartbeat/alpha/ping")
    page.goto(f"{address}/job/run/1")
    started = page.locator("time").first
    expect(started).to_contain_text("12:00:00")
    expect(started).to_have_attribute("title", "2026-06-21 10:00:00 UTC")


def test_a_run_is_followed_while_it_is_open(page: Page, address: str, client: KeyClient) -> None:
    client.post("/api/v1/heartbeat/alpha/start")
    page.goto(f"{address}/job/run/1")
    expect(page.get_by_text("Running. New output appears here")).to_be_visible()
    client.post("/api/v1/heartbeat/alpha/log", data="halfway there")
    expect(page.locator(".timeline")).to_contain_text("halfway there")
    client.post("/api/v1/heartbeat/alpha/end")
    expect(page.locator("h1")).to_contain_text("success")
    expect(page.get_by_text("Running. New output appears here")).to_have_count(0)


def test_of_a_long_log_the_card_shows_the_end_also_after_it_has_grown(
    page: Page, address: str, client: KeyClient
) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    client.post("/api/v1/heartbeat/alpha/log", data="a long line " * 700)
    for end in ("disk full", "disk still full"):
        client.post("/api/v1/heartbeat/alpha/end?status=fail", data=f"{'a long line ' * 700}\n{end}")
        if end == "disk full":
            page.goto(f"{address}/job?name=alpha")
        log = page.get_by_role("region", name="end of the log")
        expect(log).to_contain_text(end)
        is_seen = """(pre) => {
          const range = document.createRange();
          range.setStart(pre.lastChild, pre.lastChild.length - 1);
          range.setEnd(pre.lastChild, pre.lastChild.length);
          const [last, box] = [range.getBoundingClientRect(), pre.parentElement.getBoundingClientRect()];
          return last.bottom <= box.bottom && last.top >= box.top;
        }"""
        assert log.evaluate(is_seen)


def test_the_days_of_the_calendar_are_those_of_the_viewer(
    page: Page, address: str, client: KeyClient, clock: Clock
) -> None:
    clock.set("2026-06-20T22:30:00Z")  # after midnight in Berlin
    client.post("/api/v1/heartbeat/alpha/end?status=fail")
    clock.set("2026-06-21T10:00:00Z")
    page.goto(f"{address}/job?name=alpha")
    expect(page.get_by_text("Days in Europe/Berlin time.")).to_be_visible()
    expect(page.locator(".calendar title", has_text="Sun 21 Jun 2026: 1 failed")).to_have_count(1)
    page.context.clear_cookies(name="obs_zone")
    without_scripts = page.request.get(f"{address}/job?name=alpha").text()
    assert "Sat 20 Jun 2026: 1 failed" in without_scripts
    assert "Days in UTC time: your browser did not report a time zone." in without_scripts


@pytest.mark.parametrize("heartbeat", ["ping?", "end?duration_ms=60000&"])
def test_nothing_moves_when_the_chart_is_drawn(page: Page, address: str, client: KeyClient, heartbeat: str) -> None:
    """A click on a button below it is lost if the button moves while it is pressed."""
    for time in ("2026-06-20T10:00:00Z", "2026-06-21T09:00:00Z"):
        client.post(f"/api/v1/heartbeat/alpha/{heartbeat}time={time}")
    page.add_init_script(
        """window.tops = new Set(); (function note() {
          const runs = document.getElementById("part-runs");
          if (runs) tops.add(runs.getBoundingClientRect().top);
          requestAnimationFrame(note);
        })();"""
    )
    page.goto(f"{address}/job?name=alpha")
    expect(page.locator("[data-chart] canvas")).to_be_visible()
    if "duration" in heartbeat:
        expect(page.locator("#verdict")).to_contain_text("Median of the last 7 days: 1 min")
    assert len(page.evaluate("[...tops]")) == 1


def test_a_job_is_pinned_paused_renamed_and_deleted(page: Page, address: str, client: KeyClient) -> None:
    client.post("/api/v1/heartbeat/alpha/ping")
    page.goto(f"{address}/job?name=alpha")
    page.get_by_label("Schedule type").select_option("Cron expression")
    page.get_by_label("Cron expression").fill("0 3 * * *")
    page.get_by_role("button", name="Save schedule").click()
    expect(page.get_by_role("status")).to_have_text("Schedule saved.")
    expect(page.locator(".lead")).to_have_text("0 3 * * *, UTC")
    page.get_by_role("button", name="Pause").click()
    expect(page.locator("h1")).to_contain_text("paused")
    page.get_by_role("button", name="Resume").click()
    expect(page.locator("h1")).not_to_contain_text("paused")
    page.get_by_label("New name").fill("beta")
    page.get_by_role("button", name="Rename").click()
    expect(page.locator("h1")).to_contain_text("beta")
    page.get_by_role("button", name="Delete job").click()
    expect(page.get_by_text("Send the first heartbeat")).to_be_visible()
    assert client.get("/api/v1/jobs").json["jobs"] == []
