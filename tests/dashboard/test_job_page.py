"""The lists of a job's page: its runs page by page, and the latest messages that belong to no run."""

import re
import sqlite3
import time
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from html import unescape
from urllib.parse import unquote_plus
from zoneinfo import ZoneInfo

import pytest
from flask import Flask

from obs.heartbeat.runs import Heartbeat, Kind, Status
from obs.heartbeat.store.record import JobHeartbeat, record
from obs.services import services
from obs.times import HOUR_MS
from tests.conftest import ACME, Clock, KeyClient
from tests.dashboard.conftest import Visitor
from tests.dashboard.test_overview_follows import Work

END = "/api/v1/heartbeat/backup/end"
A_PAGE = 25
_EARLIER = re.compile(r'href="(/job\?[^"]*\bcursor=[^"]*)"')
_RUN = re.compile(r'href="/job/run/(\d+)"')


@pytest.mark.parametrize("pages", [1, 2, 3])
def test_every_run_is_on_a_page_newest_first(client: KeyClient, reader: Visitor, clock: Clock, pages: int) -> None:
    for _ in range(pages * A_PAGE):
        clock.advance(minutes=1)
        assert client.post(END).status_code == 200
    shown: list[int] = []
    path: str | None = "/job?name=backup"
    for _ in range(pages):
        assert path is not None
        text = reader.get(path).text
        runs = list(dict.fromkeys(int(number) for number in _RUN.findall(text)))
        assert len(runs) == A_PAGE
        shown += runs
        earlier = _EARLIER.search(text)
        path = unescape(earlier[1]) if earlier else None
    assert path is None
    assert shown == list(range(pages * A_PAGE, 0, -1))


def test_a_single_run_without_a_duration_is_a_sentence_in_place_of_a_chart(
    client: KeyClient, reader: Visitor, clock: Clock
) -> None:
    client.post("/api/v1/heartbeat/fresh/ping")
    page = reader.get("/job?name=fresh").text
    assert "The time between runs is drawn from the second run on." in page
    assert "data-chart" not in page
    clock.advance(hours=9)
    client.post("/api/v1/heartbeat/fresh/ping")
    assert "data-chart" in reader.get("/job?name=fresh").text
    for _ in range(3):
        client.post("/api/v1/heartbeat/hasty/ping")
    page = reader.get("/job?name=hasty").text
    assert "The runs came too close together to draw the time between them." in page
    assert "data-chart" not in page


def test_the_page_of_a_job_that_is_pinned_by_the_second_takes_no_minutes(
    app: Flask, client: KeyClient, new_client: Callable[..., KeyClient], reader: Visitor
) -> None:
    """Its 6.9 million times in 80 days would take a minute or more to count."""
    client.post(END, query_string={"time": "2026-04-02T10:00:00Z"})
    for minutes in range(20, 0, -1):
        client.post(END, query_string={"time": f"2026-06-21T09:{60 - minutes}:00Z"})
    services(app).background.tasks["sweep"].run()
    pin = {"cron": "* * * * * *"}
    assert new_client("acme", "admin").patch("/api/v1/jobs/backup", json={"pin": pin}).status_code == 200
    started = time.process_time()
    assert reader.get("/job?name=backup").status_code == 200
    assert time.process_time() - started < 10


def test_one_run_more_than_a_page_holds_is_on_the_next(client: KeyClient, reader: Visitor, clock: Clock) -> None:
    for _ in range(A_PAGE + 1):
        clock.advance(minutes=1)
        client.post(END)
    earlier = _EARLIER.search(reader.get("/job?name=backup").text)
    assert earlier is not None
    assert set(_RUN.findall(reader.get(unescape(earlier[1])).text)) == {"1"}


def test_messages_outside_of_runs_are_the_latest(client: KeyClient, reader: Visitor, clock: Clock) -> None:
    for number in range(30):
        clock.advance(minutes=1)
        assert client.post(f"/api/v1/heartbeat/backup/log?message=message-{number:02}-").status_code == 200
    shown = list(dict.fromkeys(re.findall(r"message-(\d\d)-", reader.get("/job?name=backup").text)))
    assert shown == [f"{number:02}" for number in range(29, 9, -1)]


def shown_runs(visitor: Visitor, query: str) -> list[str]:
    """The numbers of the runs in the table, in its order."""
    part = visitor.get(f"/job?name=backup{query}").text.partition('id="part-runs"')[2]
    return _RUN.findall(part.partition("<form")[0])


@pytest.fixture
def eight_runs(client: KeyClient, clock: Clock) -> None:
    """Runs 1 to 8, one a day from 21 June: 3 and 4 failed, 5 is lost, and 7 took ten times as long."""
    for number in range(1, 9):
        if number == 5:
            client.post("/api/v1/heartbeat/backup/start")
        elif number == 6:
            client.post("/api/v1/heartbeat/backup/start")
            client.post(END)
        else:
            status = "fail" if number in (3, 4) else "ok"
            duration_ms = 600_000 if number == 7 else 60_000
            client.post(f"{END}?status={status}&duration_ms={duration_ms}", data=f"error {number}")
        clock.advance(days=1)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", "87654321"),
        ("&show=failed", "43"),
        ("&show=lost", "5"),
        ("&show=slow", "7"),
        ("&show=unknown", "87654321"),
        ("&day=2026-06-23", "321"),
        ("&day=2026-06-23&show=failed", "3"),
        ("&day=2026-06-20", ""),
        ("&day=9999-12-31", "87654321"),
        ("&day=no-date", "87654321"),
    ],
)
@pytest.mark.usefixtures("eight_runs")
def test_runs_are_chosen_by_result_and_date(reader: Visitor, query: str, expected: str) -> None:
    assert shown_runs(reader, query) == list(expected)
    assert ("No runs match" in reader.get(f"/job?name=backup{query}").text) == (not expected)


@pytest.mark.usefixtures("eight_runs")
def test_a_day_is_one_of_the_viewers_zone(reader: Visitor) -> None:
    reader.client.set_cookie("obs_zone", "Pacific/Auckland")  # 10:00 in UTC is 22:00 there
    assert shown_runs(reader, "&day=2026-06-22") == ["2", "1"]
    reader.client.set_cookie("obs_zone", "Pacific/Pago_Pago")  # and 23:00 of the day before here
    assert shown_runs(reader, "&day=2026-06-22") == ["3", "2", "1"]


@pytest.mark.usefixtures("eight_runs")
def test_failed_runs_have_their_error_and_links_keep_the_choice(reader: Visitor, client: KeyClient) -> None:
    text = reader.get("/job?name=backup&show=failed&day=2026-06-30").text
    assert re.findall(r'<td class="error">(.*?)</td>', text) == ["error 4", "error 3"]
    assert "error 7" not in reader.get("/job?name=backup").text
    for _ in range(A_PAGE):
        client.post(f"{END}?status=fail")
    links = [
        unescape(link) for link in re.findall(r'href="(/job\?[^"]*)"', reader.get("/job?name=backup&show=failed").text)
    ]
    assert any("range=7d" in link and "show=failed" in link for link in links)
    assert any("cursor=" in link and "show=failed" in link for link in links)


@pytest.fixture
def record_runs(app: Flask, client: KeyClient, clock: Clock) -> Callable[[int], None]:
    """Records runs between 60 and 5 hours ago; one in ten has failed."""

    def make(count: int) -> None:
        def unit(db: sqlite3.Connection) -> None:
            for number in range(count):
                at = clock() - 5 * HOUR_MS - number * 55 * HOUR_MS // count
                status = Status.SUCCESS if number % 10 else Status.FAILED
                heartbeat = Heartbeat(Kind.END, at, status=status, duration_ms=None if number % 7 else number)
                record(db, JobHeartbeat("backup", heartbeat), at)

        services(app).tenancy.databases.write(ACME, unit)

    return make


def test_a_run_with_many_messages_shows_the_first_and_the_last_500(
    app: Flask, client: KeyClient, reader: Visitor, clock: Clock
) -> None:
    def unit(db: sqlite3.Connection) -> None:
        record(db, JobHeartbeat("backup", Heartbeat(Kind.START, clock())), clock())
        for number in range(1, 2_000):
            clock.advance(ms=1)
            record(db, JobHeartbeat("backup", Heartbeat(Kind.LOG, clock(), message=f"file {number};")), clock())

    services(app).tenancy.databases.write(ACME, unit)
    text = reader.get("/job/run/1").text
    shown = [int(number) for number in re.findall(r"file (\d+);", text)]
    assert shown == [*range(1, 500), *range(1_500, 2_000)]
    assert re.findall(r'aria-label="message (\d+)"', text) == [str(number + 1) for number in shown]
    assert "1,000 events in between are not shown here." in text
    run = client.get("/api/v1/runs/1").json
    assert [one["message"] for one in run["timeline"][1:]] == [f"file {number};" for number in shown]
    assert run["left_out"] == 1_000
    statement = re.search(r'href="/query\?q=([^"]*)">Query the events of this run', text)
    assert statement is not None
    clock.advance(seconds=1)
    rows = client.post("/api/v1/dsl", json={"query": unquote_plus(unescape(statement[1]))}).json["rows"]
    assert [row[2] for row in rows] == [None, *(f"file {number};" for number in range(1, 2_000))]


def _roll_up(app: Flask) -> None:
    services(app).background.tasks["rollups"].run()


@pytest.mark.parametrize("query", ["", "&range=90d", "&day=2026-06-20"])
def test_the_page_costs_no_more_when_more_runs_are_stored(
    app: Flask, reader: Visitor, clock: Clock, record_runs: Callable[[int], None], query: str
) -> None:
    costs = []
    for count in (500, 3_000):
        record_runs(count)
        clock.advance(minutes=1)
        _roll_up(app)
        reader.get(f"/job?name=backup{query}")  # reads the schema
        costs.append(Work(app).of(lambda: reader.get(f"/job?name=backup{query}"))[1])
    assert costs[1] < costs[0] * 1.2, costs


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/St_Johns", "Asia/Kathmandu"])
@pytest.mark.parametrize("span", ["7d", "30d", "90d"])
def test_the_page_is_the_same_when_runs_are_rolled_up(
    app: Flask, reader: Visitor, record_runs: Callable[[int], None], zone: str, span: str
) -> None:
    reader.client.set_cookie("obs_zone", zone)

    def shown() -> str:
        text = reader.get(f"/job?name=backup&range={span}").text
        return re.sub(r'name="(csrf_token|csrf-token)" (value|content)="[^"]+"', "", text)

    record_runs(400)
    before = shown()
    assert "failed" in before
    _roll_up(app)
    with services(app).tenancy.databases.read(ACME) as db:
        assert db.execute("SELECT count(*) FROM rolled_up_hours WHERE attempt IS NULL").fetchone()[0] >= 55
        starts = [
            datetime.fromtimestamp(row[0] / 1000, ZoneInfo(zone)) for row in db.execute("SELECT started_at FROM runs")
        ]
    assert shown() == before
    days = re.findall(r"<title>\w+ (\d+ \w+ \d+): (\d+) failed, (\d+) succeeded</title>", before)
    assert {day: int(failed) + int(ok) for day, failed, ok in days} == Counter(f"{day:%d %b %Y}" for day in starts)


def test_the_days_with_missed_runs_are_listed_and_lead_to_their_runs(
    app: Flask, reader: Visitor, client: KeyClient, new_client: Callable[..., KeyClient], clock: Clock
) -> None:
    for day in range(1, 21):
        clock.set(f"2026-06-{day:02}T10:00:00Z")
        if day not in (12, 15):
            client.post("/api/v1/heartbeat/daily/ping")
    pin = {"cron": "0 10 * * *", "timezone": "UTC", "grace_seconds": 60}
    assert new_client("acme", "admin").patch("/api/v1/jobs/daily", json={"pin": pin}).status_code == 200
    services(app).background.tasks["sweep"].run()
    page = reader.get("/job?name=daily&show=missed").text.partition('id="runs"')[2]
    assert re.findall(r'day=(2026-06-\d\d)#runs">(.*?)</a></th><td data-label="missed" class="number">(\d)', page) == [
        ("2026-06-15", "Mon 15 Jun 2026", "1"),
        ("2026-06-12", "Fri 12 Jun 2026", "1"),
    ]
    assert 'show=missed#runs" aria-current="true">Missed' in page
    client.post("/api/v1/heartbeat/new/ping")
    assert "No runs were missed in the last 13 weeks." in reader.get("/job?name=new&show=missed").text
