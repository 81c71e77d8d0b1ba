"""Each page says that maintenance is going on, of which jobs and until when; the form of a window."""

import re

import pytest

from tests.conftest import Clock, KeyClient
from tests.dashboard.conftest import Visitor

BAR = "): no job becomes overdue, and no incident is opened."


@pytest.mark.parametrize("path", ["/", "/projects", "/query", "/annotations", "/incidents", "/alerts", "/settings"])
def test_each_page_names_the_windows_that_are_open(admin: Visitor, clock: Clock, path: str) -> None:
    for title, start, end in (
        ("<b>Disks</b>", "12:00", "14:00"),
        ("Short", "12:00", "13:00"),
        ("Later", "20:00", "23:00"),
    ):
        admin.post(
            "/incidents/maintenance", title=title, start_time=f"2026-06-21T{start}", end_time=f"2026-06-21T{end}"
        )
    for moment, is_shown in (("11:59:59", False), ("12:00:00", True), ("13:59:59", True), ("14:00:00", False)):
        clock.set(f"2026-06-21T{moment}Z")
        text = admin.get(path).text
        assert (BAR in text) is is_shown, moment
        assert ("14:00:00 UTC</time> (&lt;b&gt;Disks" in text) is is_shown, moment


def test_other_organizations_and_strangers_see_no_bar(admin: Visitor, stranger: Visitor, clock: Clock) -> None:
    admin.post("/incidents/maintenance", title="x", start_time="2026-06-21T09:00", end_time="2026-06-21T14:00")
    assert BAR in admin.get("/").text
    assert BAR not in stranger.get("/").text


def test_the_bar_names_what_a_window_covers_and_shows_at_most_three(admin: Visitor, clock: Clock) -> None:
    def add(title: str, **jobs: str) -> None:
        times = {"start_time": "2026-06-21T09:00", "end_time": "2026-06-21T14:00"}
        assert admin.post("/incidents/maintenance", kind="once", title=title, **times, **jobs).status_code == 302

    add("one", host="nas01")
    assert "Maintenance of host nas01 until <time" in admin.get("/").text
    add("two", job_prefix="db/", project="<b>shop")
    text = admin.get("/").text
    assert "Maintenance of jobs db/*, project &lt;b&gt;shop until <time" in text
    assert text.count("these jobs do not become overdue, and no incidents of them are opened.") == 2
    for title in ("three", "four", "five"):
        add(title)
    text = admin.get("/").text
    assert (text.count('<p class="notice">Maintenance'), "2 more windows</a>" in text) == (3, True)
    clock.set("2026-06-21T14:00:00Z")
    assert '<p class="notice">Maintenance' not in admin.get("/").text


def test_the_form_of_a_recurring_window_says_what_is_wrong_beside_each_field_and_keeps_what_was_typed(
    admin: Visitor, client: KeyClient
) -> None:
    typed = {"kind": "again", "zone": "America/New_York", "host": "nas01", "cron": "0 22 * * *", "hours": "8"}
    for change, name, words in (
        ({"cron": ""}, "cron", "Enter a value."),
        ({"cron": "*/5 * * * *", "hours": "0.02"}, "cron", "It begins again after 5 min."),
        ({"hours": "24"}, "cron", "This must be longer than the window, and at least an hour."),
        ({"hours": "eight"}, "hours", "Enter a number of hours"),
        ({"hours": "0"}, "hours", "The length must be 60 seconds to 31 days."),
        ({"hours": "745", "cron": "0 0 1 1 *"}, "hours", "The length must be 60 seconds to 31 days."),
        ({"host": "x" * 201}, "host", "Enter 1 to 200 characters."),
    ):
        page = admin.post("/incidents/maintenance", **{**typed, **change})
        assert page.status_code == 422, change
        problem = page.text.partition(f'id="{name}-problem">')[2].partition("</p>")[0]
        assert words in problem, change
        assert 'value="again" checked' in page.text
        assert 'value="nas01"' in page.text or name == "host"
    assert admin.post("/incidents/maintenance", **typed).status_code == 302
    (window,) = client.get("/api/v1/maintenance").json["maintenance_windows"]
    assert (window["cron"], window["timezone"], window["duration_seconds"]) == (typed["cron"], typed["zone"], 28_800)


def test_the_form_suggests_what_the_jobs_have(admin: Visitor, client: KeyClient) -> None:
    for name, host in (("db/dump", "nas01"), ("db/vacuum", "nas02"), ("alone", "nas01")):
        client.post(f"/api/v1/heartbeat/{name}/ping", headers={"X-Platform-Host": host})
    lists = re.findall(r'<datalist id="known-(\w+)">(.*?)</datalist>', admin.get("/incidents").text, flags=re.DOTALL)
    offered = {name: re.findall(r'value="([^"]*)"', options) for name, options in lists}
    assert offered == {"host": ["nas01", "nas02"], "service": [], "project": [], "prefixes": ["db/"]}
