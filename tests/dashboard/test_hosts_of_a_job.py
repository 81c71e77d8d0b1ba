"""The page of a job that several hosts report, and its incident, name the host that is silent."""

from flask import Flask

from obs.times import DAY_MS, HOUR_MS
from tests.conftest import Clock, KeyClient
from tests.dashboard.conftest import Visitor
from tests.heartbeat.host_stories import MONDAY, Watched
from tests.heartbeat.test_hosts import NAMES, START, daily


def test_the_page_shows_each_host_and_which_one_is_overdue(
    app: Flask, client: KeyClient, reader: Visitor, clock: Clock
) -> None:
    clock.now_ms = MONDAY - DAY_MS
    watched = Watched(app, client, clock)
    watched.send([*daily(range(20), *NAMES), *daily(range(20, 21), "nas01")])
    watched.until(START + 20 * DAY_MS + HOUR_MS)
    page = reader.get("/job?name=backup").text
    assert "no heartbeat from nas02<" in page
    assert "2 hosts, each with a schedule of its own" in page
    rows = page.partition("Hosts with a schedule of their own")[2].partition("</table>")[0].split("<tr")[2:]
    assert ["overdue" in row for row in rows] == [False, True]
    assert all(name in row and "Every day at 02:00, UTC" in row for name, row in zip(NAMES, rows, strict=True))
    assert "backup on nas02" in reader.get("/incidents").text
