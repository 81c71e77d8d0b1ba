"""The overview with its search, filters, order and refresh; the page of a job."""

import gzip
import html
import json
import re
from typing import Any

import pytest
from flask import Flask

from obs.heartbeat.runs import Heartbeat, Kind
from obs.heartbeat.store import expectations
from obs.heartbeat.store.record import JobHeartbeat, record
from obs.services import services
from obs.tenancy.auth import Tenancy
from tests.conftest import ACME, Clock, KeyClient
from tests.dashboard.conftest import FIRST_KEY, Visitor

MINUTE_MS = 60_000


def names(text: str) -> list[str]:
    """The names of the jobs on a page, in their order."""
    return re.findall(r'<th scope="row"><a href="[^"]*">([^<]*)</a>', text)


@pytest.fixture
def three_jobs(client: KeyClient) -> None:
    at = {"X-Platform-Project": "shop", "X-Platform-Service": "api", "X-Platform-Host": "web-1"}
    client.post("/api/v1/heartbeat/alpha/ping", headers=at)
    client.post("/api/v1/heartbeat/Beta/end?status=fail&exit_code=3", headers={"X-Platform-Project": "home"})
    client.post("/api/v1/heartbeat/gamma%20ray/start")


def test_without_jobs_the_page_shows_how_to_send_a_heartbeat(reader: Visitor) -> None:
    text = reader.get("/").text
    assert "/in/acme/api/v1/heartbeat/my-first-job/ping" in text
    assert "Create a key" not in text


def test_an_admin_gets_a_command_that_works(app: Flask, admin: Visitor) -> None:
    admin.get("/")
    assert admin.post("/settings/keys", **FIRST_KEY).location == "/#keys"
    text = admin.get("/").text
    command = re.search(r"X-API-Key: (obs_acme_\w+).*? http://[^/]+(/in/acme/\S+/ping)", text)
    assert command is not None
    assert app.test_client().post(command[2], headers={"X-API-Key": command[1]}).status_code == 200
    assert names(admin.get("/").text) == ["my-first-job"]


@pytest.mark.usefixtures("three_jobs")
def test_the_most_severe_come_first_and_every_state_has_its_name(reader: Visitor) -> None:
    text = reader.get("/").text
    assert names(text) == ["Beta", "gamma ray", "alpha"]
    assert "1 of 3 jobs needs attention" in text
    for state, word in (("failed", "failing"), ("running", "running"), ("new", "new")):
        assert re.search(rf'<td class="state {state}"[^>]*>{word}\b', text)


@pytest.mark.usefixtures("three_jobs")
@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("q=BETA", ["Beta"]),
        ("q=a%20r", ["gamma ray"]),
        ("state=failed", ["Beta"]),
        ("state=running", ["gamma ray"]),
        ("q=Web-1", ["alpha"]),
        ("project=shop", ["alpha"]),
        ("service=api", ["alpha"]),
        ("host=web-1", ["alpha"]),
        ("project=home&q=alpha", []),
        ("sort=name", ["alpha", "Beta", "gamma ray"]),
        ("sort=name&desc=1", ["gamma ray", "Beta", "alpha"]),
        ("sort=nonsense&state=nonsense&page=nonsense", ["Beta", "gamma ray", "alpha"]),
    ],
)
def test_search_filters_and_order(reader: Visitor, query: str, found: list[str]) -> None:
    assert names(reader.get(f"/?{query}").text) == found


@pytest.mark.parametrize(("number", "shown"), [(0, 1), (1, 1), (2, 2), (3, 2), (999, 2)])
def test_a_page_that_does_not_exist_is_the_nearest_one(
    reader: Visitor, client: KeyClient, number: int, shown: int
) -> None:
    for job in range(103):
        client.post(f"/api/v1/heartbeat/job-{job:03}/ping")
    text = reader.get(f"/?sort=name&page={number}").text
    assert re.findall(r'aria-current="page">(\d+)', text) == [str(shown)]
    assert names(text)[0] == ("job-000" if shown == 1 else "job-100")
    assert names(reader.get(f"/?sort=name&q=job-007&page={number}").text) == ["job-007"]
    assert names(reader.get(f"/?q=nothing&page={number}").text) == []


def test_a_name_is_found_in_any_unicode_form(reader: Visitor, client: KeyClient) -> None:
    client.post("/api/v1/heartbeat/gr\u00f6\u00dfe/ping")
    for typed in ("GR\u00d6", "gro\u0308"):
        assert names(reader.get("/", query_string={"q": typed}).text) == ["gr\u00f6\u00dfe"]


@pytest.mark.usefixtures("three_jobs")
def test_nobody_sees_jobs_of_another_organization(stranger: Visitor) -> None:
    assert "Send the first heartbeat" in stranger.get("/").text
    assert stranger.get("/job?name=alpha").status_code == 404
    assert stranger.get("/job/run/1").status_code == 404
    assert "shop" not in stranger.get("/projects").text


class Watching:
    """A browser that shows the overview and refreshes it."""

    def __init__(self, reader: Visitor, query: str = "") -> None:
        self.reader, self.query = reader, query
        text = reader.get(f"/?{query}").text
        self.rows: dict[str, str] = dict(re.findall(r'id="job-(\d+)" data-v="(\w+)"', text))
        self.names = dict(zip(self.rows, names(text), strict=True))
        self.version = re.search(r'data-version="(\d+)"', text)[1]  # type: ignore[index]
        self.headline = ""

    def refresh(self) -> list[str]:
        """Refresh; returns the names of the jobs whose rows were sent."""
        have = ",".join(f"{number}:{version}" for number, version in self.rows.items())
        answer = self.reader.get(f"/jobs/changes?{self.query}&since={self.version}", headers={"X-Have": have})
        if answer.status_code == 204:
            assert answer.data == b""
            return []
        body: Any = answer.json
        for number, row in body["rows"].items():
            self.rows[number] = re.search(r'data-v="(\w+)"', row)[1]  # type: ignore[index]
            (self.names[number],) = names(row)
        if "order" in body:
            self.rows = {number: self.rows[number] for number in body["order"]}
        self.version, self.headline = body["version"], names_in_headline(body["summary"])
        return [self.names[number] for number in body["rows"]]

    def shown(self) -> list[str]:
        """The names of the jobs in their order."""
        return [self.names[number] for number in self.rows]


def names_in_headline(summary: str) -> str:
    return re.search(r"<h1>(.*)</h1>", summary)[1]  # type: ignore[index]


@pytest.mark.usefixtures("three_jobs")
def test_a_refresh_sends_only_the_rows_that_differ(reader: Visitor, client: KeyClient, clock: Clock) -> None:
    page = Watching(reader, "sort=name")
    clock.advance(seconds=20)
    assert page.refresh() == []
    client.post("/api/v1/heartbeat/gamma%20ray/end")
    assert page.refresh() == ["gamma ray"]
    assert page.refresh() == []
    client.post("/api/v1/heartbeat/delta/ping")
    assert page.refresh() == ["delta"]
    assert page.shown() == ["alpha", "Beta", "delta", "gamma ray"]


@pytest.fixture
def five_hundred_jobs(app: Flask, client: KeyClient, clock: Clock) -> Tenancy:
    tenancy: Tenancy = services(app).tenancy
    for number in range(500):

        def runs(db: object, name: str = f"job-{number:03}") -> None:
            for back in range(30, 0, -1):
                at = clock.now_ms - back * MINUTE_MS + 30_000  # so that none is late
                record(db, JobHeartbeat(name, Heartbeat(Kind.END, at, duration_ms=back * 100)), at)  # type: ignore[arg-type]

        tenancy.databases.write(ACME, runs)
    are_learned = False
    while not are_learned:  # a sweep learns for a limited time
        services(app).background.tasks["sweep"].run()
        with tenancy.databases.read(ACME) as db:
            are_learned = not [*expectations.changed_jobs(db, 1)]
    return tenancy


@pytest.mark.slow
def test_five_hundred_jobs_are_a_small_page_with_small_refreshes(
    five_hundred_jobs: Tenancy, reader: Visitor, clock: Clock
) -> None:
    answer = reader.get("/")
    assert len(answer.data) < 70_000
    shown_rows = re.findall(r'id="job-(\d+)" data-v="(\w+)"', answer.text)
    assert len(shown_rows) == 100
    assert names(reader.get("/?page=5").text)[-1] == "job-499"
    have = ",".join(":".join(row) for row in shown_rows)
    five_hundred_jobs.databases.write(
        ACME, lambda db: record(db, JobHeartbeat("job-007", Heartbeat(Kind.PING, clock.now_ms)), clock.now_ms)
    )
    changed = reader.get("/jobs/changes", headers={"X-Have": have})
    assert isinstance(changed.json, dict)
    assert list(changed.json["rows"]) == ["8"]
    assert len(changed.data) < 4_000


@pytest.mark.slow
@pytest.mark.usefixtures("five_hundred_jobs")
def test_a_refresh_brings_other_rows_in_another_order(reader: Visitor) -> None:
    page = re.findall(r'id="job-(\d+)" data-v="(\w+)"', reader.get("/?sort=name&desc=1").text)
    shown = {number: "old" for number, _ in reversed(page) if int(number) % 3}
    have = ",".join(":".join(row) for row in shown.items())
    answer = reader.get("/jobs/changes?sort=name&desc=1", headers={"X-Have": have, "Accept-Encoding": "gzip"})
    assert len(answer.data) <= 10_000
    body: Any = json.loads(gzip.decompress(answer.data))
    for number, row in body["rows"].items():
        shown[number] = re.search(r'data-v="(\w+)"', row)[1]  # type: ignore[index]
    assert [(number, shown[number]) for number in body["order"]] == page
    assert names_in_headline(body["summary"])


@pytest.mark.slow
def test_pages_are_compressed_unless_they_show_a_new_key(
    five_hundred_jobs: Tenancy, reader: Visitor, admin: Visitor
) -> None:
    gzipped = {"Accept-Encoding": "gzip"}
    page = reader.client.get("/", headers=gzipped)
    assert page.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(page.data).decode().count("<tr id=") == 100
    assert len(page.data) < 20_000
    assert "Content-Encoding" not in reader.get("/").headers
    assert admin.post("/settings/keys", label="x", scopes="query:read", expires="").status_code == 302
    shows_key = admin.client.get("/settings", headers=gzipped)
    assert "obs_acme_" in shows_key.text
    assert "Content-Encoding" not in shows_key.headers
    assert admin.client.get("/settings", headers=gzipped).headers["Content-Encoding"] == "gzip"


def test_responses_to_heartbeats_are_never_compressed(client: KeyClient) -> None:
    answer = client.post("/api/v1/heartbeat/x/ping", headers={"Accept-Encoding": "gzip"})
    assert "Vary" not in answer.headers


def test_a_missed_run_is_a_gap(app: Flask, reader: Visitor, client: KeyClient, clock: Clock) -> None:
    for minute in (0, 10, 20, 30, 40, 50, 70, 80):
        clock.set(f"2026-06-21T{10 + minute // 60}:{minute % 60:02}:00Z")
        client.post("/api/v1/heartbeat/tick/ping")
    services(app).background.tasks["sweep"].run()
    assert "Last 8 runs: 8 succeeded, 1 missed" in reader.get("/").text


def test_nothing_is_missed_where_no_expression_has_the_times(
    app: Flask, reader: Visitor, client: KeyClient, clock: Clock
) -> None:
    """The usual interval of four hours fits into a day five times or six."""
    for day in range(1, 15):
        for time in ("08:05", "12:05", "16:05", "20:35"):
            clock.set(f"2026-06-{day:02}T{time}:00Z")
            client.post("/api/v1/heartbeat/report/ping")
    services(app).background.tasks["sweep"].run()
    text = reader.get("/job?name=report&show=missed").text
    assert "Every day at 08:05, 12:05, 16:05 and 20:35" in text
    assert "No runs were missed in the last 13 weeks." in text


def test_a_job_page_links_its_runs(reader: Visitor, client: KeyClient) -> None:
    client.post("/api/v1/heartbeat/db/backup/start")
    client.post("/api/v1/heartbeat/db/backup/log", data="copied 412 files")
    client.post("/api/v1/heartbeat/db/backup/end?exit_code=2&duration_ms=252000")
    text = reader.get("/job?name=db/backup").text
    assert "4 min 12 s" in text
    assert "/job/run/1" in text
    run = reader.get("/job/run/1").text
    assert "copied 412 files" in run
    assert "failed" in run


def test_projects_roll_up_services_and_hosts(reader: Visitor, three_jobs: None) -> None:
    text = reader.get("/projects").text
    assert "shop" in text
    assert "web-1" in text
    assert "1 job, 1 service, 1 host" in text
    assert "1 job, 0 services, 0 hosts" in text


def test_earlier_runs_are_on_further_pages(reader: Visitor, client: KeyClient, clock: Clock) -> None:
    for _ in range(30):
        client.post("/api/v1/heartbeat/tick/end")
        clock.advance(minutes=1)
    seen: list[str] = []
    path = "/job?name=tick"
    pages = 0
    while path:
        text = reader.get(path).text
        seen += re.findall(r'<td><a href="/job/run/(\d+)"', text)
        link = re.search(r'href="([^"]*)">Earlier runs', text)
        path = html.unescape(link[1]) if link else ""
        pages += 1
    assert seen == [str(number) for number in range(30, 0, -1)]
    assert pages == 2


def test_the_newest_messages_outside_any_run_are_shown(reader: Visitor, client: KeyClient, clock: Clock) -> None:
    for number in range(25):
        client.post("/api/v1/heartbeat/tick/log", data=f"message {number}")
        clock.advance(minutes=1)
    shown = re.findall(r">(message \d+)<", reader.get("/job?name=tick").text)
    assert shown == [f"message {number}" for number in range(24, 4, -1)]


def test_a_learned_schedule_is_explained(app: Flask, reader: Visitor, client: KeyClient, clock: Clock) -> None:
    client.post("/api/v1/heartbeat/tick/ping")
    sweep = services(app).background.tasks["sweep"].run
    sweep()
    assert "1 job, still learning its schedule" in reader.get("/").text
    assert "The schedule is learned from past runs." in reader.get("/job?name=tick").text
    for minute in range(10, 90, 10):
        clock.set(f"2026-06-21T{10 + minute // 60}:{minute % 60:02}:00Z")
        client.post("/api/v1/heartbeat/tick/ping")
    sweep()
    assert "The only job is OK" in reader.get("/").text
    text = reader.get("/job?name=tick").text
    assert "<p>Learned from 9 runs (all match)." in text
    assert re.search(r"Next run expected <time .*</time> \(<span .*>in 10 min</span>\)\. Overdue \d+ s later", text)


@pytest.mark.parametrize("path", ["/", "/job?name=backup", "/projects"])
def test_a_state_is_explained_where_it_is_shown(reader: Visitor, client: KeyClient, path: str) -> None:
    client.post("/api/v1/heartbeat/backup/end?status=fail")
    assert 'title="the last run failed"' in reader.get(path).text
