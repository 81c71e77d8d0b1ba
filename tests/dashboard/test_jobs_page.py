"""The overview: what it shows, finds, filters, sorts, and sends when it refreshes."""

import gzip
import re
from typing import Any

import pytest
from flask import Flask

from obs.heartbeat.runs import Heartbeat, Kind
from obs.heartbeat.store.attributions import NOWHERE
from obs.heartbeat.store.record import record
from obs.services import services
from obs.tenancy.auth import Tenancy
from tests.conftest import Clock, KeyClient
from tests.dashboard.conftest import Visitor

MINUTE_MS = 60_000


def names(text: str) -> list[str]:
    """The jobs of a page, in their order."""
    return re.findall(r'<th scope="row"><a href="[^"]*">([^<]*)</a>', text)


@pytest.fixture
def three_jobs(client: KeyClient) -> None:
    at = {"X-Platform-Project": "shop", "X-Platform-Service": "api", "X-Platform-Host": "web-1"}
    client.post("/api/v1/heartbeat/alpha/ping", headers=at)
    client.post("/api/v1/heartbeat/Beta/end?status=fail&exit_code=3", headers={"X-Platform-Project": "home"})
    client.post("/api/v1/heartbeat/gamma%20ray/start")


def test_without_jobs_the_page_says_how_to_send_the_first(reader: Visitor) -> None:
    text = reader.get("/").text
    assert "/in/acme/api/v1/heartbeat/my-first-job/ping" in text
    assert "Make a key" not in text


def test_an_admin_gets_a_line_that_works(app: Flask, admin: Visitor) -> None:
    admin.get("/")
    text = admin.post("/first-key").text
    line = re.search(r"X-API-Key: (obs_acme_\w+).*? http://[^/]+(/in/acme/\S+/ping)", text)
    assert line is not None
    assert app.test_client().post(line[2], headers={"X-API-Key": line[1]}).status_code == 200
    assert names(admin.get("/").text) == ["my-first-job"]


@pytest.mark.usefixtures("three_jobs")
def test_the_loudest_come_first_and_every_state_has_its_word(reader: Visitor) -> None:
    text = reader.get("/").text
    assert names(text) == ["Beta", "gamma ray", "alpha"]
    assert "1 of 3 jobs needs a look" in text
    for word in ("failed", "running", "new"):
        assert re.search(rf'<td class="state {word}">{word}\b', text)


@pytest.mark.usefixtures("three_jobs")
@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("q=BETA", ["Beta"]),
        ("q=a%20r", ["gamma ray"]),
        ("state=failed", ["Beta"]),
        ("state=running", ["gamma ray"]),
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


@pytest.mark.usefixtures("three_jobs")
def test_nobody_sees_jobs_of_another_organization(stranger: Visitor) -> None:
    assert "Send the first heartbeat" in stranger.get("/").text
    assert stranger.get("/job?name=alpha").status_code == 404
    assert stranger.get("/job/run/1").status_code == 404
    assert "shop" not in stranger.get("/projects").text


@pytest.mark.usefixtures("three_jobs")
def test_a_refresh_sends_only_the_rows_that_differ(reader: Visitor, client: KeyClient, clock: Clock) -> None:
    held = dict(re.findall(r'id="job-(\d+)" data-v="(\w+)"', reader.get("/?sort=name").text))

    def refresh() -> dict[str, object]:
        have = ",".join(f"{number}:{version}" for number, version in held.items())
        answer = reader.get("/jobs/changes?sort=name", headers={"X-Have": have}).json
        assert isinstance(answer, dict)
        return answer

    clock.advance(seconds=20)
    assert refresh() == {"rows": {}}
    client.post("/api/v1/heartbeat/gamma%20ray/end")
    changed = refresh()
    assert list(changed["rows"]) == ["3"]  # type: ignore[call-overload]
    assert "summary" in changed
    assert "order" not in changed
    client.post("/api/v1/heartbeat/delta/ping")
    assert "4" in refresh()["order"]  # type: ignore[operator]


@pytest.fixture
def five_hundred_jobs(app: Flask, client: KeyClient, clock: Clock) -> Tenancy:
    tenancy: Tenancy = services(app).tenancy
    for number in range(500):

        def runs(db: object, name: str = f"job-{number:03}") -> None:
            for back in range(30, 0, -1):
                at = clock.now_ms - back * MINUTE_MS
                record(db, name, Heartbeat(Kind.END, at, duration_ms=back * 100), NOWHERE, None, at)  # type: ignore[arg-type]

        tenancy.databases.write("acme", runs)
    services(app).background.tasks["sweep"].run()
    return tenancy


def test_five_hundred_jobs_are_one_small_page_and_refreshed_in_little(
    five_hundred_jobs: Tenancy, reader: Visitor, clock: Clock
) -> None:
    answer = reader.get("/")
    assert len(answer.data) < 300_000
    held = re.findall(r'id="job-(\d+)" data-v="(\w+)"', answer.text)
    assert len(held) == 500
    have = ",".join(":".join(row) for row in held)
    five_hundred_jobs.databases.write(
        "acme", lambda db: record(db, "job-007", Heartbeat(Kind.PING, clock.now_ms), NOWHERE, None, clock.now_ms)
    )
    changed = reader.get("/jobs/changes", headers={"X-Have": have})
    assert isinstance(changed.json, dict)
    assert list(changed.json["rows"]) == ["8"]
    assert len(changed.data) < 4_000


def test_a_refresh_of_all_rows_comes_in_small_parts_that_become_the_page(
    five_hundred_jobs: Tenancy, reader: Visitor
) -> None:
    page = re.findall(r'id="job-(\d+)" data-v="(\w+)"', reader.get("/?sort=name&desc=1").text)
    shown = {number: "old" for number, _ in reversed(page) if int(number) % 3}  # others, in another order
    body: dict[str, Any] = {"more": True}
    parts = 0
    while body.get("more", False):
        have = ",".join(":".join(row) for row in shown.items())
        answer = reader.get("/jobs/changes?sort=name&desc=1", headers={"X-Have": have})
        assert len(answer.data) <= 30_000
        body = dict(answer.json or {})
        assert body["rows"]
        for number, html in body["rows"].items():
            shown[number] = re.search(r'data-v="(\w+)"', html)[1]  # type: ignore[index]
        if "order" in body:
            shown = {number: shown[number] for number in body["order"]}
        parts += 1
    assert "summary" in body
    assert list(shown.items()) == page
    assert parts > 5


def test_pages_are_compressed_and_answers_to_forms_are_not(
    five_hundred_jobs: Tenancy, reader: Visitor, admin: Visitor
) -> None:
    taken = {"Accept-Encoding": "gzip"}
    page = reader.client.get("/", headers=taken)
    assert page.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(page.data).decode().count("<tr id=") == 500
    assert len(page.data) < 60_000
    assert "Content-Encoding" not in reader.get("/").headers
    answer = admin.client.post(
        "/settings/keys",
        data={"csrf_token": admin.token, "label": "x", "scopes": "query:read", "expires": ""},
        headers=taken,
    )
    assert answer.status_code == 200
    assert "Content-Encoding" not in answer.headers


def test_heartbeats_are_not_looked_at_for_compression(client: KeyClient) -> None:
    answer = client.post("/api/v1/heartbeat/x/ping", headers={"Accept-Encoding": "gzip"})
    assert "Vary" not in answer.headers


def test_a_run_that_was_due_and_did_not_come_is_a_gap(
    app: Flask, reader: Visitor, client: KeyClient, clock: Clock
) -> None:
    for minute in (0, 10, 20, 30, 40, 50, 70, 80):
        clock.set(f"2026-06-21T{10 + minute // 60}:{minute % 60:02}:00Z")
        client.post("/api/v1/heartbeat/tick/ping")
    services(app).background.tasks["sweep"].run()
    assert "Last 8 runs: 8 success; 1 did not come" in reader.get("/").text


def test_a_job_page_tells_what_was_learned_and_links_its_runs(reader: Visitor, client: KeyClient) -> None:
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
