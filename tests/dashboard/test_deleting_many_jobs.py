"""Deleting the jobs with a prefix, over HTTP and on the page."""

import re
from collections.abc import Callable

import pytest

from obs.heartbeat import service
from tests.conftest import KeyClient
from tests.dashboard.conftest import Visitor


@pytest.fixture
def boss(new_client: Callable[..., KeyClient]) -> KeyClient:
    """A client of acme with jobs test/0 to test/29, testing, Test/x and other."""
    client = new_client("acme", "admin", "heartbeat:write", "query:read")
    for name in (*(f"test/{number}" for number in range(30)), "testing", "Test/x", "other"):
        assert client.post(f"/api/v1/heartbeat/{name}/start").status_code == 200
        assert client.post(f"/api/v1/heartbeat/{name}/log", data=f"from {name}").status_code == 200
    return client


def names(client: KeyClient) -> list[str]:
    return [job["name"] for job in client.get("/api/v1/jobs?limit=1000").json["jobs"]]


def test_the_jobs_with_a_prefix_are_deleted_with_their_runs(boss: KeyClient) -> None:
    counted = boss.delete("/api/v1/jobs?prefix=test/&dry_run=true")
    assert (counted.status_code, counted.json) == (200, {"deleted": 0, "remaining": 30})
    assert len(names(boss)) == 33
    assert boss.delete("/api/v1/jobs?prefix=test/").json == {"deleted": 30, "remaining": 0}
    assert names(boss) == ["Test/x", "other", "testing"]
    assert boss.get("/api/v1/runs/1").status_code == 404
    assert boss.delete("/api/v1/jobs?prefix=test/").json == {"deleted": 0, "remaining": 0}


def test_characters_with_a_meaning_in_patterns_have_none_in_a_prefix(boss: KeyClient) -> None:
    for prefix in ("%25", "_", "*", "test*", "t%5Bea%5Dst"):
        assert boss.delete(f"/api/v1/jobs?prefix={prefix}").json == {"deleted": 0, "remaining": 0}


@pytest.mark.parametrize(
    "query", ["", "?prefix=", "?dry_run=true", f"?prefix={'x' * 201}", "?prefix=a&dry_run=perhaps"]
)
def test_without_a_prefix_nothing_is_deleted(boss: KeyClient, query: str) -> None:
    assert boss.delete(f"/api/v1/jobs{query}").status_code == 422
    assert len(names(boss)) == 33


def test_a_key_without_admin_deletes_nothing(boss: KeyClient, new_client: Callable[..., KeyClient]) -> None:
    assert new_client("acme", "query:read").delete("/api/v1/jobs?prefix=test/").status_code == 403
    assert new_client("globex", "admin").delete("/api/v1/jobs?prefix=test/").json == {"deleted": 0, "remaining": 0}
    assert len(names(boss)) == 33


def test_a_request_that_takes_too_long_says_how_many_remain(boss: KeyClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "_DELETING_SECONDS", 0.0)  # one batch a request
    deleted, remaining, requests = 0, 30, 0
    while remaining:
        counts = boss.delete("/api/v1/jobs?prefix=test/").json
        deleted += counts["deleted"]
        assert counts["remaining"] == 30 - deleted
        remaining, requests = counts["remaining"], requests + 1
    assert requests > 3
    assert names(boss) == ["Test/x", "other", "testing"]


def test_the_page_asks_first_and_states_the_number(boss: KeyClient, admin: Visitor) -> None:
    assert "/jobs/delete" in admin.get("/").text
    asked = admin.get("/jobs/delete?prefix=test/").text
    assert re.search(r"<b>30 jobs</b> start with <code>test/</code>", asked)
    assert len(names(boss)) == 33
    assert admin.post("/jobs/delete", prefix="test/").location == "/"
    assert "Jobs deleted: 30." in admin.get("/").text
    assert names(boss) == ["Test/x", "other", "testing"]
    for without in (admin.get("/jobs/delete"), admin.post("/jobs/delete", prefix="")):
        assert without.status_code == 200
        assert '<input name="prefix" required' in without.text
    assert names(boss) == ["Test/x", "other", "testing"]
    assert "No name of a job starts with" in admin.get("/jobs/delete?prefix=none").text


def test_a_reader_does_not_see_the_form(boss: KeyClient, reader: Visitor) -> None:
    assert "/jobs/delete" not in reader.get("/").text
    assert reader.get("/jobs/delete?prefix=test/").status_code == 403
