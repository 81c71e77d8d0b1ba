"""Alerts on queries: from a number to an incident and to the receiver, over HTTP."""

import re
from typing import Any

import pytest

from obs.alerts.store import rules as store
from obs.services import services
from tests.alerts.receiver import Receiver
from tests.alerts.world import World, titles
from tests.conftest import KeyClient

FAILURES = "SELECT count(*) FROM runs WHERE status = 'failed' LAST 1h"
BY_HOST = "SELECT count(*) FROM runs WHERE status = 'failed' BY host LAST 1h"


def create(world: World, **fields: Any) -> dict[str, Any]:
    body = {"name": "failures", "query": FAILURES, "operator": ">", "threshold": 1, **fields}
    answer = world.client.post("/api/v1/alerts", json=body)
    assert answer.status_code == 201, answer.json
    return dict(answer.json)


def evaluate(world: World, **length: int) -> None:
    """Move the clock, evaluate what is due, and send what follows from it."""
    world.clock.advance(**length)
    services(world.app).background.tasks["alerts on queries"].run()
    world.deliver()


def fail(world: World, times: int = 1, host: str = "") -> None:
    for _ in range(times):
        world.end("backup", "fail", host)


def shown(world: World, alert: dict[str, Any]) -> dict[str, Any]:
    return dict(world.client.get(f"/api/v1/alerts/{alert['id']}").json)


def incidents(world: World) -> list[list[Any]]:
    world.clock.advance(ms=1)  # a window ends before now
    query = "SELECT job, kind, value, time, ended_at FROM incidents WHERE kind = 'alert' ORDER BY time LAST 30d"
    return list(world.client.post("/api/v1/dsl", json={"query": query}).json["rows"])


def test_an_alert_is_shown_as_it_was_created_with_the_defaults(world: World) -> None:
    alert = create(world)
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


def test_a_number_that_meets_the_condition_for_long_enough_reaches_the_receiver(
    world: World, receiver: Receiver
) -> None:
    world.add_channel(receiver, events=["alert"])
    alert = create(world, **{"for": "5m"})
    fail(world, 2)
    evaluate(world, seconds=1)
    assert shown(world, alert)["state"] == "pending"
    assert list(shown(world, alert)["pending"]) == [""]
    evaluate(world, minutes=4)
    assert shown(world, alert)["state"] == "pending"
    evaluate(world, minutes=1)
    assert shown(world, alert)["state"] == "firing"
    assert [one["value"] for one in shown(world, alert)["firing"].values()] == [2]
    world.pass_time(seconds=11)
    [message] = receiver.messages()
    assert message["title"].startswith("failures is firing since ")
    assert "(value 2)" in message["title"]
    assert f"Fires when > 1: {FAILURES}" in message["text"]
    assert message["incidents"][0]["kind"] == "alert"
    evaluate(world, hours=1)
    assert shown(world, alert)["state"] == "ok"
    world.pass_time(minutes=6)
    assert titles(receiver)[1].startswith("failures was firing from ")
    [[job, kind, value, started_at, ended_at]] = incidents(world)
    assert (job, kind, value) == ("failures", "alert", 2)
    assert started_at == "2026-06-21T10:00:01.000Z"
    assert ended_at == "2026-06-21T11:05:12.000Z"
    [band] = world.client.get("/api/v1/annotations?name_prefix=alert/failures").json["annotations"]
    assert (band["start_time"], band["end_time"]) == (started_at, ended_at)


def test_a_condition_that_is_not_met_for_long_enough_opens_no_incident(world: World) -> None:
    alert = create(world, **{"for": "5m"}, query=FAILURES.replace("1h", "3m"))
    fail(world, 2)
    evaluate(world, seconds=1)
    assert shown(world, alert)["state"] == "pending"
    for _ in range(10):
        evaluate(world, minutes=1)
    assert shown(world, alert)["state"] == "ok"
    assert incidents(world) == []


def test_each_group_has_an_incident_of_its_own(world: World) -> None:
    alert = create(world, query=BY_HOST)
    fail(world, 2, "nas01")
    fail(world, 3, "nas02")
    fail(world, 1, "nas03")
    evaluate(world, seconds=1)
    firing = {group: one["value"] for group, one in shown(world, alert)["firing"].items()}
    assert firing == {"nas01": 2, "nas02": 3}
    assert [row[0] for row in incidents(world)] == ["failures: nas01", "failures: nas02"]
    listed = world.client.get("/api/v1/incidents").json["incidents"]
    assert sorted(one["job"] for one in listed if one["kind"] == "alert") == ["failures: nas01", "failures: nas02"]


@pytest.mark.parametrize(("no_data", "states"), [("keep", "firing"), ("ok", "ok"), ("alert", "firing")])
def test_what_no_data_means_for_an_alert_that_fires(world: World, no_data: str, states: str) -> None:
    query = "SELECT avg(duration_ms) FROM runs LAST 1h"
    alert = create(world, query=query, threshold=0, no_data=no_data)
    world.client.post("/api/v1/heartbeat/backup/end?duration_ms=5000")
    evaluate(world, seconds=1)
    assert shown(world, alert)["state"] == "firing"
    evaluate(world, hours=2)
    assert shown(world, alert)["state"] == states


@pytest.mark.parametrize(("no_data", "state"), [("keep", "ok"), ("ok", "ok"), ("alert", "firing")])
@pytest.mark.parametrize("by", ["", "BY host "])
def test_what_no_data_means_for_an_alert_that_is_ok(world: World, no_data: str, state: str, by: str) -> None:
    query = f"SELECT avg(duration_ms) FROM runs {by}LAST 1h"
    alert = create(world, query=query, threshold=0, no_data=no_data)
    evaluate(world, seconds=1)
    assert shown(world, alert)["state"] == state
    world.client.post("/api/v1/heartbeat/backup/end?duration_ms=0")
    evaluate(world, minutes=1)
    assert shown(world, alert)["state"] == "ok"


def limit(world: World, name: str, value: int | None) -> None:
    """Set a limit of the organization; None for its default."""
    with services(world.app).tenancy.control.read() as db:
        org = db.execute("SELECT id FROM organizations").fetchone()["id"]
    change = "DELETE FROM organization_limits WHERE organization_id = ?"
    if value is not None:
        change = f"INSERT INTO organization_limits VALUES (?, '{name}', {value})"
    services(world.app).tenancy.control.write(lambda db: db.execute(change, (org,)))
    services(world.app).background.tasks["quotas and disk space"].run()


def test_alerts_do_not_count_against_the_rate_limit_and_a_preview_does(world: World) -> None:
    alert = create(world)
    limit(world, "query_rate_per_minute", 1)
    fail(world, 2)
    for _ in range(3):
        evaluate(world, seconds=10, minutes=1)
    assert shown(world, alert)["state"] == "firing"
    body = {"query": FAILURES, "operator": ">", "threshold": 1}
    codes = [world.client.post("/api/v1/alerts/preview", json=body).status_code for _ in range(2)]
    assert codes == [200, 429]


def test_an_alert_whose_statement_fails_can_be_disabled(world: World) -> None:
    alert = create(world)
    limit(world, "query_max_length", 1)
    path = f"/api/v1/alerts/{alert['id']}"
    assert world.client.put(path, json={"enabled": False}).status_code == 200
    assert world.client.put(path, json={"query": FAILURES}).status_code == 422
    evaluate(world, hours=2)
    assert (shown(world, alert)["enabled"], shown(world, alert)["state"]) == (False, "ok")


def test_an_error_keeps_the_state_and_is_shown(world: World) -> None:
    alert = create(world)
    fail(world, 2)
    evaluate(world, seconds=1)
    world.client.post("/api/v1/heartbeat/backup/end")
    limit(world, "query_max_length", 1)
    evaluate(world, hours=2)
    assert shown(world, alert)["state"] == "error"
    assert "The limit is 1" in shown(world, alert)["last_error"]
    assert len(shown(world, alert)["firing"]) == 1
    limit(world, "query_max_length", None)
    evaluate(world, minutes=1)
    assert (shown(world, alert)["state"], shown(world, alert)["last_error"]) == ("ok", None)


@pytest.mark.parametrize("how", ["delete", "disable", "change"])
def test_an_alert_that_is_changed_or_deleted_ends_what_it_fires_for(world: World, receiver: Receiver, how: str) -> None:
    world.add_channel(receiver, events=["alert"])
    alert = create(world)
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
    assert [row[4] is not None for row in incidents(world)] == [True]
    world.pass_time(minutes=6)
    assert [title.split()[1] for title in titles(receiver)] == ["is", "was"]


def test_state_survives_a_restart(world: World, make_app: Any) -> None:
    alert = create(world, **{"for": "5m"})
    fail(world, 2)
    evaluate(world, seconds=1)
    world.use(make_app())
    evaluate(world, minutes=5)
    assert shown(world, alert)["state"] == "firing"
    world.use(make_app())
    evaluate(world, minutes=1)
    assert len(incidents(world)) == 1


@pytest.mark.parametrize(("jobs", "begun"), [({}, 0), ({"host": "nas01"}, 1), ({"job_prefix": "b"}, 1)])
def test_nothing_begins_during_maintenance_of_all_jobs(world: World, jobs: dict[str, str], begun: int) -> None:
    times = {"start_time": "2026-06-21T09:00:00Z", "end_time": "2026-06-21T10:30:00Z"}
    assert world.client.post("/api/v1/maintenance", json={"title": "move", **times, **jobs}).status_code == 201
    create(world)
    fail(world, 2)
    evaluate(world, seconds=1)
    assert len(incidents(world)) == begun
    evaluate(world, minutes=31)
    assert len(incidents(world)) == 1


def test_an_alert_is_evaluated_as_often_as_it_says(world: World) -> None:
    alert = create(world, every="10m")
    evaluate(world, seconds=1)
    fail(world, 2)
    evaluate(world, minutes=9)
    assert shown(world, alert)["state"] == "ok"
    evaluate(world, minutes=1)
    assert shown(world, alert)["state"] == "firing"


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


def test_names_are_unique(world: World) -> None:
    create(world)
    body = {"name": "failures", "query": FAILURES, "operator": ">", "threshold": 1}
    assert world.client.post("/api/v1/alerts", json=body).status_code == 409


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
    assert incidents(world) == []
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


def test_an_alert_of_another_organization_is_unknown(world: World, new_client: Any) -> None:
    alert = create(world)
    stranger = new_client("other", "admin")
    path = f"/api/v1/alerts/{alert['id']}"
    assert stranger.get(path).status_code == 404
    assert stranger.put(path, json={"threshold": 2}).status_code == 404
    assert stranger.delete(path).status_code == 404
    assert stranger.get("/api/v1/alerts").json == {"alerts": []}


def test_an_alert_without_news_writes_nothing(world: World) -> None:
    create(world)
    evaluate(world, seconds=1)
    tenancy = services(world.app).tenancy
    org = tenancy.keyring.organizations()[0]
    before = tenancy.databases.last_write(org)
    for _ in range(5):
        evaluate(world, minutes=1)
    assert tenancy.databases.last_write(org) == before


def test_slow_statements_do_not_delay_the_alerts_of_other_organizations(
    world: World, new_client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = {"query": "SELECT count(*) FROM runs LAST 1h", "operator": "=", "threshold": 0, "every": "5m"}
    clients = [world.client, new_client("other", "admin")]
    for client, names in zip(clients, (["a", "b", "c"], ["a"]), strict=True):
        for name in names:
            assert client.post("/api/v1/alerts", json={**body, "name": name}).status_code == 201
    queries = services(world.app).queries
    numbers = queries.numbers

    def slow(*arguments: Any) -> Any:
        world.clock.advance(seconds=3)
        return numbers(*arguments)

    def states(client: KeyClient) -> list[str]:
        return [one["state"] for one in client.get("/api/v1/alerts").json["alerts"]]

    monkeypatch.setattr(queries, "numbers", slow)
    evaluate(world, seconds=1)
    assert [states(client) for client in clients] == [["firing", "ok", "ok"], ["firing"]]
    for _ in range(2):
        evaluate(world, seconds=1)
    assert states(world.client) == ["firing", "firing", "firing"]


def test_an_outage_of_more_groups_than_an_alert_has_still_fires(world: World) -> None:
    def fail_jobs(count: int) -> None:
        for number in range(count):
            world.end(f"job-{number:03}", "fail")

    fail_jobs(1)
    alert = create(world, query="SELECT count(*) FROM runs WHERE status = 'failed' BY job LAST 1h", threshold=0)
    evaluate(world, seconds=1)
    fail_jobs(120)
    evaluate(world, minutes=1)
    seen = shown(world, alert)
    assert (seen["state"], seen["last_error"], len(seen["firing"])) == ("firing", None, 100)
    assert "job-000" in seen["firing"]


def test_a_group_that_falls_out_of_top_keeps_its_state(world: World) -> None:
    fail(world)
    alert = create(world, query="SELECT count(*) FROM runs WHERE status = 'failed' BY job TOP 1 LAST 1h", threshold=0)
    evaluate(world, seconds=1)
    assert list(shown(world, alert)["firing"]) == ["backup"]
    for _ in range(3):
        world.end("photos", "fail")
    evaluate(world, minutes=1)
    assert sorted(shown(world, alert)["firing"]) == ["backup", "photos"]


def test_time_without_evaluations_does_not_count(world: World) -> None:
    alert = create(world, **{"for": "30m"})
    fail(world, 2)
    evaluate(world, seconds=1)
    world.clock.advance(minutes=50)  # the service was down
    evaluate(world, seconds=1)
    assert shown(world, alert)["state"] == "pending"


@pytest.mark.parametrize("only", [{"host": "nas"}, {"project": "home"}, {"job_prefix": "nas/"}])
def test_a_channel_for_some_jobs_is_notified_of_alerts(world: World, receiver: Receiver, only: dict[str, str]) -> None:
    world.add_channel(receiver, events=["alert"], **only)
    create(world)
    fail(world, 2)
    evaluate(world, seconds=1)
    world.pass_time(seconds=11)
    assert [title.partition(" since")[0] for title in titles(receiver)] == ["failures is firing"]


def test_the_band_of_an_alert_is_not_that_of_a_job_with_its_name(world: World) -> None:
    alert = create(world, name="backup")
    fail(world, 2)
    evaluate(world, seconds=1)
    world.client.delete("/api/v1/jobs/backup")
    [band] = world.client.get("/api/v1/annotations?name_prefix=alert/backup").json["annotations"]
    assert (band["end_time"], shown(world, alert)["state"]) == (None, "firing")


def test_large_numbers_are_written_in_full(world: World, receiver: Receiver) -> None:
    world.add_channel(receiver, events=["alert"])
    query = "SELECT max(duration_ms) FROM runs LAST 1d"
    create(world, query=query, threshold=5_400_001)
    world.client.post("/api/v1/heartbeat/backup/end?duration_ms=5500000")
    evaluate(world, seconds=1)
    world.pass_time(seconds=11)
    [message] = receiver.messages()
    assert "(value 5500000)" in message["title"]
    assert f"Fires when > 5400001: {query}" in message["text"]


def test_what_is_saved_while_alerts_are_read_is_evaluated(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    alerts_of, saved = store.alerts, list[Any]()

    def slow(db: Any, alert_id: int | None = None) -> Any:
        found = alerts_of(db, alert_id)
        if alert_id is None and not saved:
            saved.append(None)
            saved.append(create(world))
        return found

    fail(world, 2)
    monkeypatch.setattr(store, "alerts", slow)
    evaluate(world, seconds=1)
    evaluate(world, minutes=1)
    assert shown(world, saved[1])["state"] == "firing"


def test_groups_that_differ_only_after_a_nul_fire_each(world: World) -> None:
    for end in "bc":
        world.client.post("/api/v1/heartbeat/web/ping", data=f"a\0{end}", content_type="text/plain")
    create(world, query="SELECT count(*) FROM events BY message LAST 1h", threshold=0)
    evaluate(world, minutes=1)
    evaluate(world, minutes=1)
    assert [job for job, *_ in incidents(world)] == ["failures: a\0b", "failures: a\0c"]


def test_an_alert_that_is_pending_fires_in_time_after_the_clock_is_set_back(world: World) -> None:
    alert = create(world, no_data="alert", operator="<", **{"for": "5m"})
    evaluate(world, seconds=1)
    assert shown(world, alert)["state"] == "pending"
    evaluate(world, days=-3)
    for _ in range(5):
        assert shown(world, alert)["state"] == "pending"
        evaluate(world, minutes=1)
    assert shown(world, alert)["state"] == "firing"
