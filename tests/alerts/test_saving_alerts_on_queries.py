"""Alerts on queries are created, previewed, changed and deleted; what is invalid is refused."""

import re
from typing import Any

import pytest

from tests.alerts.receiver import Receiver
from tests.alerts.world import (
    BY_HOST,
    FAILURES,
    World,
    create_alert,
    evaluate,
    fail,
    incidents_of_alerts,
    limit,
    shown_alert,
    titles,
)


def test_an_alert_is_shown_as_it_was_created_with_the_defaults(world: World) -> None:
    alert = create_alert(world)
    assert alert == {
        "id": alert["id"],
        "name": "failures",
        "query": FAILURES,
        "operator": ">",
        "threshold": 1,
        "for": "0s",
        "every": "1m",
        "no_data": "keep",
        "enabled": True,
        "state": "ok",
        "last_error": None,
        "firing": {},
        "pending": {},
    }
    assert world.client.get("/api/v1/alerts").json == {"alerts": [alert]}


def test_names_are_unique(world: World) -> None:
    create_alert(world)
    body = {"name": "failures", "query": FAILURES, "operator": ">", "threshold": 1}
    assert world.client.post("/api/v1/alerts", json=body).status_code == 409


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"query": "SELECT job FROM runs LAST 1h"}, "query"),
        ({"query": "SELECT count(*) FROM runs EVERY 1h LAST 1d"}, "query"),
        ({"query": "SELECT count(*), max(duration_ms) FROM runs LAST 1d"}, "query"),
        ({"query": "SELECT count(*) FROM runs COMPARE WITH 7d AGO LAST 1d"}, "query"),
        ({"query": "SELECT avg(duration_ms) FROM runs AROUND 'deploy/' WITHIN 2h LAST 30d"}, "query"),
        ({"query": "SELECT max(time) FROM runs LAST 1d"}, "query"),
        ({"query": "EXPLAIN SELECT count(*) FROM runs LAST 1d"}, "query"),
        ({"query": "SHOW SOURCES"}, "query"),
        ({"query": "SELECT count(*) FROM runs BETWEEN '2026-01-01' AND '2026-02-01'"}, "query"),
        ({"query": "SELECT count(*) FROM rums LAST 1d"}, "query"),
        ({"query": "SELECT count(*) FROM audit LAST 1d"}, "query"),
        ({"query": ""}, "query"),
        ({"operator": "~"}, "operator"),
        ({"threshold": "many"}, "threshold"),
        ({"for": "5 minutes"}, "for"),
        ({"for": "60d"}, "for"),
        ({"every": "29s"}, "every"),
        ({"no_data": "maybe"}, "no_data"),
        ({"name": ""}, "name"),
        ({"who": "me"}, "who"),
    ],
)
def test_an_invalid_alert_is_refused_and_nothing_is_saved(world: World, fields: dict[str, Any], field: str) -> None:
    body = {"name": "failures", "query": FAILURES, "operator": ">", "threshold": 1, **fields}
    for path in ("/api/v1/alerts", "/api/v1/alerts/preview"):
        answer = world.client.post(path, json=body)
        if (path.endswith("preview"), field) == (True, "name"):
            continue
        assert answer.status_code == 422, answer.json
        assert list(answer.json["errors"]["json"]) == [field]
    assert world.client.get("/api/v1/alerts").json == {"alerts": []}


def test_an_admin_is_told_why_an_alert_cannot_read_what_only_admins_may_read(world: World) -> None:
    body = {"query": "SELECT count(*) FROM audit LAST 1d", "operator": ">", "threshold": 1}
    answer = world.client.post("/api/v1/alerts/preview", json=body).json
    assert answer["errors"]["json"]["query"] == ["Reading audit needs the scope admin."]
    assert answer["hint"] == "An alert is shown to readers too, so it reads only what they may read."


def test_an_alert_of_another_organization_is_unknown(world: World, new_client: Any) -> None:
    alert = create_alert(world)
    stranger = new_client("other", "admin")
    path = f"/api/v1/alerts/{alert['id']}"
    assert stranger.get(path).status_code == 404
    assert stranger.put(path, json={"threshold": 2}).status_code == 404
    assert stranger.delete(path).status_code == 404
    assert stranger.get("/api/v1/alerts").json == {"alerts": []}


def test_an_alert_whose_statement_fails_can_be_disabled(world: World) -> None:
    alert = create_alert(world)
    limit(world, "query_max_length", 1)
    path = f"/api/v1/alerts/{alert['id']}"
    assert world.client.put(path, json={"enabled": False}).status_code == 200
    assert world.client.put(path, json={"query": FAILURES}).status_code == 422
    evaluate(world, hours=2)
    assert (shown_alert(world, alert)["enabled"], shown_alert(world, alert)["state"]) == (False, "ok")


def test_a_change_of_nothing_is_refused_with_the_fields_as_they_are_sent(world: World) -> None:
    answer = world.client.put(f"/api/v1/alerts/{create_alert(world)['id']}", json={})
    assert answer.status_code == 422
    fields = "name, query, operator, threshold, for, every, no_data, enabled"
    assert answer.json["message"] == f"Send at least one of {fields}."


@pytest.mark.parametrize("how", ["delete", "disable", "change"])
def test_an_alert_that_is_changed_or_deleted_ends_what_it_fires_for(world: World, receiver: Receiver, how: str) -> None:
    world.add_channel(receiver, events=["alert"])
    alert = create_alert(world)
    fail(world, 2)
    evaluate(world, seconds=1)
    world.pass_time(seconds=11)
    path = f"/api/v1/alerts/{alert['id']}"
    if how == "delete":
        assert world.client.delete(path).status_code == 204
        assert world.client.get(path).status_code == 404
    else:
        changes = {"enabled": False} if how == "disable" else {"threshold": 2}
        assert world.client.put(path, json=changes).status_code == 200
    evaluate(world, minutes=1)
    assert [row[4] is not None for row in incidents_of_alerts(world)] == [True]
    world.pass_time(minutes=6)
    assert [title.split()[1] for title in titles(receiver)] == ["has", "was"]


def test_what_an_alert_fires_for_goes_on_when_its_fields_are_sent_as_they_are(world: World) -> None:
    alert = create_alert(world)
    fail(world, 2)
    evaluate(world, seconds=1)
    fields = {name: alert[name] for name in ("name", "query", "threshold", "for")}
    answer = world.client.put(f"/api/v1/alerts/{alert['id']}", json=fields)
    assert (answer.status_code, answer.json["state"]) == (200, "firing")
    evaluate(world, minutes=1)
    assert [row[4] for row in incidents_of_alerts(world)] == [None]


def test_a_preview_says_when_the_alert_would_have_fired_and_saves_nothing(world: World) -> None:
    world.clock.advance(days=-3)
    fail(world, 2, "nas01")
    world.clock.advance(days=3)
    fail(world, 3, "nas02")
    world.clock.advance(minutes=1)
    body = {"query": BY_HOST.replace("1h", "1d"), "operator": ">", "threshold": 1, "every": "30m", "last": "7d"}
    answer = world.client.post("/api/v1/alerts/preview", json=body)
    assert answer.status_code == 200, answer.json
    first, second = answer.json["periods"]
    assert (first["group"], first["value"]) == ("nas01", 2)
    assert first["started_at"] < first["ended_at"]
    assert (second["group"], second["value"], second["ended_at"]) == ("nas02", 3, None)
    assert incidents_of_alerts(world) == []
    assert world.client.get("/api/v1/alerts").json == {"alerts": []}


def test_a_preview_whose_step_is_longer_than_the_condition_must_last_counts_each_moment(world: World) -> None:
    fail(world, 2, "nas01")
    world.clock.advance(minutes=8)
    query = {"query": BY_HOST.replace("1h", "10m"), "operator": ">", "threshold": 1, "for": "5m", "last": "7d"}
    answer = world.client.post("/api/v1/alerts/preview", json=query).json
    assert [(one["group"], one["value"]) for one in answer["periods"]] == [("nas01", 2)]


def test_the_step_of_a_preview_is_whole_seconds(world: World) -> None:
    body = {"query": FAILURES, "operator": ">", "threshold": 1, "last": "10001s"}
    step = world.client.post("/api/v1/alerts/preview", json=body).json["step"]
    assert re.fullmatch("[0-9]+[smhd]", step)
