"""Quotas: what an organization with too much of something is refused, and what it may go on doing."""

import logging
import re
from collections.abc import Callable

import pytest
from flask import Flask
from flask.testing import FlaskCliRunner

from obs.cli import main
from obs.services import services
from tests.conftest import ApiResponse, Clock, KeyClient
from tests.dashboard.conftest import Visitor

SetLimit = Callable[[str, int], None]


@pytest.fixture
def set_limit(app: Flask, runner: FlaskCliRunner) -> SetLimit:
    """Sets a limit of acme as an operator does, and waits until the service has noticed."""

    def set_it(name: str, value: int) -> None:
        done = runner.invoke(main, ["org", "set-limit", "acme", name, str(value), "--instance", app.instance_path])
        assert done.exit_code == 0, done.output
        notice(app)

    return set_it


def notice(app: Flask) -> None:
    services(app).background.tasks["quotas and disk space"].run()


def ping(client: KeyClient, job: str) -> ApiResponse:
    return client.post(f"/api/v1/heartbeat/{job}/ping")


def settings(client: KeyClient) -> str:
    visitor = Visitor(client.application)
    visitor.sign_in(str(client.key))
    return visitor.get("/settings").text


def used(client: KeyClient, name: str) -> int:
    """How much of a limit is used, as the page Settings shows it."""
    cell = re.search(rf'<th scope="row">{name}</th>.*?data-label="used">([\d.,]+) ?([KM]?)', settings(client))
    assert cell is not None
    return round(float(cell[1].replace(",", "")) * {"": 1, "K": 1024, "M": 1024**2}[cell[2]])


def refused(response: ApiResponse, name: str, value: int, code: int = 507, error: str = "quota_exceeded") -> None:
    body = response.json
    assert (response.status_code, body["error"], body["limit"], body["max"]) == (code, error, name, value)
    assert str(value) in body["message"]
    assert f"obs org set-limit acme {name} " in body["hint"]


def test_only_new_jobs_are_refused_at_the_quota_of_jobs(
    client: KeyClient, other_client: KeyClient, new_client: Callable[..., KeyClient], set_limit: SetLimit
) -> None:
    set_limit("max_jobs", 2)
    assert [ping(client, job).status_code for job in ("a", "b")] == [200, 200]
    refused(ping(client, "c"), "max_jobs", 2)
    refused(client.post("/api/v1/heartbeat/start", json={"name": "d"}), "max_jobs", 2)
    assert [ping(client, job).status_code for job in ("a", "b")] == [200, 200]
    assert [job["name"] for job in client.get("/api/v1/jobs").json["jobs"]] == ["a", "b"]
    assert [ping(other_client, job).status_code for job in "abcd"] == [200] * 4
    assert new_client("acme", "admin").delete("/api/v1/jobs/a").status_code == 204
    assert ping(client, "c").status_code == 200
    set_limit("max_jobs", 3)
    assert ping(client, "d").status_code == 200


def test_heartbeats_beyond_the_rate_of_a_minute_are_refused(
    client: KeyClient, other_client: KeyClient, set_limit: SetLimit, clock: Clock
) -> None:
    set_limit("max_heartbeats_per_minute", 3)
    clock.advance(minutes=1)
    assert [ping(client, "a").status_code for _ in range(3)] == [200] * 3
    over = ping(client, "a")
    refused(over, "max_heartbeats_per_minute", 3, 429, "rate_limited")
    assert (over.headers["RateLimit-Limit"], over.headers["RateLimit-Remaining"]) == ("3", "0")
    assert over.headers["RateLimit-Reset"] == over.headers["Retry-After"]
    assert used(client, "Heartbeats per minute") == 4
    assert ping(other_client, "a").status_code == 200
    clock.advance(seconds=int(over.headers["Retry-After"]) - 1)
    assert ping(client, "a").status_code == 429
    clock.advance(seconds=1)
    assert used(client, "Heartbeats per minute") == 0
    assert ping(client, "a").status_code == 200


def test_only_new_annotations_are_refused_at_the_quota_of_annotations(
    app: Flask, client: KeyClient, other_client: KeyClient, new_client: Callable[..., KeyClient], set_limit: SetLimit
) -> None:
    def annotate(by: KeyClient, key: str) -> ApiResponse:
        return by.post("/api/v1/annotations", json={"name": "deploy", "title": key, "idempotency_key": key})

    set_limit("max_annotations", 1)
    first = annotate(client, "one")
    assert first.status_code == 201
    refused(annotate(client, "two"), "max_annotations", 1)
    refused(client.post("/api/annotations", json={"text": "two"}), "max_annotations", 1)
    visitor = Visitor(app)
    visitor.sign_in(str(new_client("acme", "admin").key))
    visitor.get("/annotations")
    assert visitor.post("/annotations", name="deploy", title="two").status_code == 507
    assert annotate(client, "one").json["id"] == first.json["id"]
    path = f"/api/v1/annotations/{first.json['id']}"
    assert client.put(path, json={"title": "changed"}).json["title"] == "changed"
    assert annotate(other_client, "one").status_code == annotate(other_client, "two").status_code == 201
    assert client.delete(path).status_code == 204
    assert annotate(client, "two").status_code == 201


def test_a_heartbeat_of_a_known_job_is_recorded_without_its_message_at_the_quota_of_bytes(
    client: KeyClient, other_client: KeyClient, set_limit: SetLimit
) -> None:
    ping(client, "a")
    limit = int(used(client, "Storage") / 1.1)
    set_limit("max_stored_bytes", limit)
    refused(ping(client, "b"), "max_stored_bytes", limit)
    refused(client.post("/api/v1/heartbeat/a/log", data="lost"), "max_stored_bytes", limit)
    refused(client.post("/api/v1/annotations", json={"name": "n", "title": "t"}), "max_stored_bytes", limit)
    run = client.post("/api/v1/heartbeat/a/end?status=failed", data="half a page of output")
    assert (run.status_code, run.json["run_status"]) == (200, "failed")
    assert ping(client, "a").status_code == 200
    events = client.get(f"/api/v1/runs/{run.json['run_id']}").json["timeline"]
    assert [event["message"] for event in events] == [
        "(This message was not stored: the disk or the quota of the organization is full.)"
    ]
    assert ping(other_client, "b").status_code == 200
    set_limit("max_stored_bytes", 1)  # far less than what is stored
    refused(ping(client, "a"), "max_stored_bytes", 1)


def test_space_that_was_freed_counts_as_free(
    app: Flask, client: KeyClient, new_client: Callable[..., KeyClient], set_limit: SetLimit
) -> None:
    before = used(client, "Storage")
    for _ in range(600):
        client.post("/api/v1/heartbeat/a/log", data="x" * 10_000)
    limit = (before + used(client, "Storage")) // 2
    set_limit("max_stored_bytes", limit)
    refused(ping(client, "b"), "max_stored_bytes", limit)
    assert new_client("acme", "admin").delete("/api/v1/jobs/a").status_code == 204
    assert used(client, "Storage") < limit
    notice(app)
    assert ping(client, "b").status_code == 200
    assert client.post("/api/v1/heartbeat/b/log", data="stored").status_code == 200


def test_a_reached_quota_is_logged_once_and_counted(
    app: Flask,
    client: KeyClient,
    new_client: Callable[..., KeyClient],
    set_limit: SetLimit,
    clock: Clock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    set_limit("max_jobs", 1)
    ping(client, "a")
    with caplog.at_level(logging.WARNING):
        for minutes in (0, 9, 9, 11):
            clock.advance(minutes=minutes)
            ping(client, "b")
            notice(app)
    assert caplog.messages == ["organization acme has reached its limit max_jobs of 1"] * 2
    clock.advance(seconds=1)
    query = "SELECT action, actor, object FROM audit WHERE action = 'reach limit' LAST 1h"
    entries = new_client("acme", "admin").post("/api/v1/dsl", json={"query": query}).json["rows"]
    assert entries == [["reach limit", "obs", "max_jobs"]] * 2
    refusals = services(app).tenancy.quotas.refusals
    assert refusals >= 4
    assert f"obs_quota_refusals {float(refusals)}" in client.get("/metrics").text


def test_the_page_settings_shows_the_limits_of_the_organization(client: KeyClient, set_limit: SetLimit) -> None:
    set_limit("max_jobs", 7)
    set_limit("query_max_rows", 8)
    shown = dict(re.findall(r'<th scope="row">([^<]*)</th><td data-label="limit">([^<]*)</td>', settings(client)))
    assert (shown["Jobs"], shown["Rows per result"], shown["Annotations"]) == ("7", "8", "100,000")
