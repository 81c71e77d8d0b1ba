"""Several jobs are paused, resumed or deleted from the overview: selected ones, or all that match the filters."""

import re
from collections.abc import Callable
from itertools import count
from types import SimpleNamespace

import pytest

from obs.dashboard.routes import jobs as page
from tests.conftest import KeyClient
from tests.dashboard.conftest import Visitor

JOBS = ("db/dump", "db/vacuum", "web/cache", "web/logs")


@pytest.fixture
def boss(new_client: Callable[..., KeyClient]) -> KeyClient:
    client = new_client("acme", "admin", "heartbeat:write", "query:read")
    for name in JOBS:
        host = "nas01" if name.startswith("db/") else "web01"
        client.post(f"/api/v1/heartbeat/{name}/ping", headers={"X-Platform-Host": host})
    return client


def state(client: KeyClient) -> dict[str, str | None]:
    """Until when each job is paused, "" for indefinitely; None where it is not paused."""
    jobs = client.get("/api/v1/jobs").json["jobs"]
    return {job["name"]: (job["paused_until"] or "") if job["paused"] else None for job in jobs}


def boxes(admin: Visitor, query: str = "") -> dict[str, str]:
    """The values of the checkboxes on the overview, by the name of the job."""
    found = re.findall(
        r'<input type="checkbox" name="job" value="(\d+)" form="selected" aria-label="Select ([^"]+)">',
        admin.get(f"/?{query}").text,
    )
    return {name: number for number, name in found}


def test_the_selected_jobs_are_paused_and_resumed(admin: Visitor, boss: KeyClient) -> None:
    numbers = boxes(admin)
    assert numbers.keys() == set(JOBS)
    chosen = [numbers["db/dump"], numbers["web/logs"]]
    answer = admin.post("/jobs/selected/pause?q=b&sort=name", job=chosen, until="")
    assert (answer.status_code, answer.location) == (302, "/?q=b&sort=name")
    assert "Jobs paused: 2." in admin.get("/").text
    assert state(boss) == {"db/dump": "", "db/vacuum": None, "web/cache": None, "web/logs": ""}
    admin.post("/jobs/selected/pause", job=numbers["db/vacuum"], until="+1d")
    assert state(boss)["db/vacuum"] == "2026-06-22T10:00:00.000Z"
    admin.post("/jobs/selected/resume", job=[numbers["db/dump"], numbers["db/vacuum"]])
    assert state(boss) == {"db/dump": None, "db/vacuum": None, "web/cache": None, "web/logs": ""}


@pytest.mark.parametrize(
    ("query", "paused"),
    [("", set(JOBS)), ("host=nas01", {"db/dump", "db/vacuum"}), ("q=CACHE", {"web/cache"}), ("state=failed", set())],
)
def test_all_that_match_the_filters(
    admin: Visitor, boss: KeyClient, monkeypatch: pytest.MonkeyPatch, query: str, paused: set[str]
) -> None:
    """Also those that are not on this page of the list."""
    monkeypatch.setattr("obs.dashboard.overview.PAGE_SIZE", 1)
    assert admin.post(f"/jobs/selected/pause?{query}", all="1", until="").status_code == 302
    assert {name for name, until in state(boss).items() if until is not None} == paused


def test_deleting_asks_first_and_deletes_what_it_names(admin: Visitor, boss: KeyClient) -> None:
    asked = admin.post("/jobs/selected/delete?host=nas01", all="1")
    assert asked.status_code == 200
    assert "These 2 jobs and their runs" in asked.text
    assert re.findall(r"<li>(\w+/\w+)</li>", asked.text) == ["db/dump", "db/vacuum"]
    assert state(boss).keys() == set(JOBS)
    boss.post("/api/v1/heartbeat/db/new/ping", headers={"X-Platform-Host": "nas01"})  # after the question
    fields = re.findall(r'<input type="hidden" name="(job|confirmed)" value="(\d+)">', asked.text)
    chosen = {"job": [value for name, value in fields if name == "job"], "confirmed": "1"}
    assert admin.post("/jobs/selected/delete?host=nas01", **chosen).location == "/?host=nas01"
    assert "Jobs deleted: 2." in admin.get("/").text
    assert state(boss).keys() == {"db/new", "web/cache", "web/logs"}
    assert boss.get("/api/v1/runs/1").status_code == 404
    assert admin.post("/jobs/selected/delete", **chosen).status_code == 302
    assert "Jobs deleted: 0." in admin.get("/").text


def test_without_a_selection_nothing_is_deleted(admin: Visitor, boss: KeyClient) -> None:
    assert "No job is selected." in admin.post("/jobs/selected/delete").text
    assert "No job is selected." in admin.post("/jobs/selected/delete", job=["x", "999"]).text
    assert "No job is selected." in admin.post("/jobs/selected/pause", until="").text
    assert "No job is selected." in admin.post("/jobs/selected/resume").text
    assert admin.post("/jobs/selected/explode", job="1").status_code in (404, 405)
    assert set(state(boss).values()) == {None}


def test_a_length_that_is_not_offered_is_refused(admin: Visitor, boss: KeyClient) -> None:
    assert admin.post("/jobs/selected/pause", job=boxes(admin)["db/dump"], until="+9d").status_code == 422
    assert set(state(boss).values()) == {None}


@pytest.mark.parametrize("action", ["pause", "resume", "delete"])
def test_a_change_that_takes_too_long_says_how_many_remain_and_continues_there(
    admin: Visitor, boss: KeyClient, monkeypatch: pytest.MonkeyPatch, action: str
) -> None:
    if action == "resume":
        admin.post("/jobs/selected/pause", all="1", until="")
    seconds = count()
    monkeypatch.setattr(page, "_BULK_SECONDS", 4)  # for three jobs, as each takes a second
    monkeypatch.setattr(page, "time", SimpleNamespace(monotonic=lambda: next(seconds)))
    for remaining in (" 1 remain: do it again.", ""):
        admin.post(f"/jobs/selected/{action}", all="1", until="", confirmed="1")
        text = admin.get("/").text
        assert re.search(rf"Jobs {action.removesuffix('e')}ed: \d\.{remaining}</p>", text) is not None
    monkeypatch.undo()
    done = {"pause": dict.fromkeys(JOBS, ""), "resume": dict.fromkeys(JOBS), "delete": {}}[action]
    assert state(boss) == done


@pytest.mark.parametrize("action", ["pause", "delete"])
def test_a_job_that_is_deleted_meanwhile_does_not_stop_the_others(
    admin: Visitor, boss: KeyClient, monkeypatch: pytest.MonkeyPatch, action: str
) -> None:
    """As when two people press the button at once. The clock of the loop is read before each change."""
    steps = count()

    def monotonic() -> float:
        if next(steps) == 2:  # the first job was changed
            assert boss.delete("/api/v1/jobs?prefix=db/vacuum").status_code == 200
        return 0.0

    admin.get("/")
    monkeypatch.setattr(page, "time", SimpleNamespace(monotonic=monotonic))
    answer = admin.post(f"/jobs/selected/{action}", all="1", until="", confirmed="1")
    assert (answer.status_code, answer.location) == (302, "/")
    assert None not in state(boss).values()


def test_readers_and_strangers_change_nothing(
    reader: Visitor, stranger: Visitor, boss: KeyClient, admin: Visitor
) -> None:
    numbers = list(boxes(admin).values())
    assert boxes(reader) == {}
    assert 'id="selected"' not in reader.get("/").text
    assert reader.post("/jobs/selected/pause", job=numbers, until="").status_code == 403
    assert reader.post("/jobs/selected/delete", job=numbers, confirmed="1").status_code == 403
    stranger.post("/jobs/selected/pause", job=numbers, until="")
    stranger.post("/jobs/selected/delete", job=numbers, confirmed="1")
    assert state(boss) == dict.fromkeys(JOBS)


def test_rows_that_change_keep_their_checkbox_for_admins_only(admin: Visitor, reader: Visitor, boss: KeyClient) -> None:
    for visitor, is_there in ((admin, True), (reader, False)):
        rows = (visitor.get("/jobs/changes").json or {})["rows"]
        assert len(rows) == len(JOBS)
        assert all(('name="job"' in row) is is_there for row in rows.values())
