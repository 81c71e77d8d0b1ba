"""Alerts on queries: from a number to an incident and to the receiver, over HTTP."""

from typing import Any

import pytest

from obs.alerts.store import rules as store
from obs.services import services
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
from tests.conftest import KeyClient


def test_a_number_that_meets_the_condition_for_long_enough_reaches_the_receiver(
    world: World, receiver: Receiver
) -> None:
    world.add_channel(receiver, events=["alert"])
    alert = create_alert(world, **{"for": "5m"})
    fail(world, 2)
    evaluate(world, seconds=1)
    assert shown_alert(world, alert)["state"] == "pending"
    assert list(shown_alert(world, alert)["pending"]) == [""]
    evaluate(world, minutes=4)
    assert shown_alert(world, alert)["state"] == "pending"
    evaluate(world, minutes=1)
    assert shown_alert(world, alert)["state"] == "firing"
    assert [one["value"] for one in shown_alert(world, alert)["firing"].values()] == [2]
    world.pass_time(seconds=11)
    [message] = receiver.messages()
    assert message["title"].startswith("failures has been firing since ")
    assert "(value 2)" in message["title"]
    assert f"Fires when > 1: {FAILURES}" in message["text"]
    assert message["incidents"][0]["kind"] == "alert"
    evaluate(world, hours=1)
    assert shown_alert(world, alert)["state"] == "ok"
    world.pass_time(minutes=6)
    assert titles(receiver)[1].startswith("failures was firing from ")
    [[job, kind, value, started_at, ended_at]] = incidents_of_alerts(world)
    assert (job, kind, value) == ("failures", "alert", 2)
    assert started_at == "2026-06-21T10:00:01.000Z"
    assert ended_at == "2026-06-21T11:05:12.000Z"
    [band] = world.client.get("/api/v1/annotations?name_prefix=alert/failures").json["annotations"]
    assert (band["start_time"], band["end_time"]) == (started_at, ended_at)


def test_a_condition_that_is_not_met_for_long_enough_opens_no_incident(world: World) -> None:
    alert = create_alert(world, **{"for": "5m"}, query=FAILURES.replace("1h", "3m"))
    fail(world, 2)
    evaluate(world, seconds=1)
    assert shown_alert(world, alert)["state"] == "pending"
    for _ in range(10):
        evaluate(world, minutes=1)
    assert shown_alert(world, alert)["state"] == "ok"
    assert incidents_of_alerts(world) == []


def test_each_group_has_an_incident_of_its_own(world: World) -> None:
    alert = create_alert(world, query=BY_HOST)
    fail(world, 2, "nas01")
    fail(world, 3, "nas02")
    fail(world, 1, "nas03")
    evaluate(world, seconds=1)
    firing = {group: one["value"] for group, one in shown_alert(world, alert)["firing"].items()}
    assert firing == {"nas01": 2, "nas02": 3}
    assert [row[0] for row in incidents_of_alerts(world)] == ["failures: nas01", "failures: nas02"]
    listed = world.client.get("/api/v1/incidents").json["incidents"]
    assert sorted(one["job"] for one in listed if one["kind"] == "alert") == ["failures: nas01", "failures: nas02"]


def test_the_group_without_a_value_is_called_not_set(world: World, receiver: Receiver) -> None:
    world.add_channel(receiver, events=["alert"])
    create_alert(world, query=BY_HOST)
    fail(world, 2)
    evaluate(world, seconds=1)
    world.pass_time(seconds=11)
    [message] = receiver.messages()
    assert message["title"].startswith("failures: (not set) has been firing since ")


def test_groups_of_several_columns_with_the_same_text_are_told_apart(world: World) -> None:
    query = "SELECT count(*) FROM runs BY host, job LAST 1h"
    alert = create_alert(world, query=query)
    for job, host, times in (("b, c", "a", 2), ("c", "a, b", 3), ("d", "(not set)", 4), ("d2", None, 5)):
        for _ in range(times):
            headers = {} if host is None else {"X-Platform-Host": host}
            world.client.post("/api/v1/heartbeat/ping", json={"name": job}, headers=headers)
    evaluate(world, seconds=1)
    firing = {group: one["value"] for group, one in shown_alert(world, alert)["firing"].items()}
    assert firing == {'a, "b, c"': 2, '"a, b", c': 3, '"(not set)", d': 4, "(not set), d2": 5}


@pytest.mark.parametrize(("no_data", "states"), [("keep", "firing"), ("ok", "ok"), ("alert", "firing")])
def test_what_no_data_means_for_an_alert_that_fires(world: World, no_data: str, states: str) -> None:
    query = "SELECT avg(duration_ms) FROM runs LAST 1h"
    alert = create_alert(world, query=query, threshold=0, no_data=no_data)
    world.client.post("/api/v1/heartbeat/backup/end?duration_ms=5000")
    evaluate(world, seconds=1)
    assert shown_alert(world, alert)["state"] == "firing"
    evaluate(world, hours=2)
    assert shown_alert(world, alert)["state"] == states


@pytest.mark.parametrize(("no_data", "state"), [("keep", "ok"), ("ok", "ok"), ("alert", "firing")])
@pytest.mark.parametrize("by", ["", "BY host "])
def test_what_no_data_means_for_an_alert_that_is_ok(world: World, no_data: str, state: str, by: str) -> None:
    query = f"SELECT avg(duration_ms) FROM runs {by}LAST 1h"
    alert = create_alert(world, query=query, threshold=0, no_data=no_data)
    evaluate(world, seconds=1)
    assert shown_alert(world, alert)["state"] == state
    world.client.post("/api/v1/heartbeat/backup/end?duration_ms=0")
    evaluate(world, minutes=1)
    assert shown_alert(world, alert)["state"] == "ok"


def test_alerts_do_not_count_against_the_rate_limit_and_a_preview_does(world: World) -> None:
    alert = create_alert(world)
    limit(world, "query_rate_per_minute", 1)
    fail(world, 2)
    for _ in range(3):
        evaluate(world, seconds=10, minutes=1)
    assert shown_alert(world, alert)["state"] == "firing"
    body = {"query": FAILURES, "operator": ">", "threshold": 1}
    codes = [world.client.post("/api/v1/alerts/preview", json=body).status_code for _ in range(2)]
    assert codes == [200, 429]


def test_an_error_keeps_the_state_and_is_shown(world: World) -> None:
    alert = create_alert(world)
    fail(world, 2)
    evaluate(world, seconds=1)
    world.client.post("/api/v1/heartbeat/backup/end")
    limit(world, "query_max_length", 1)
    evaluate(world, hours=2)
    assert shown_alert(world, alert)["state"] == "error"
    assert "The limit is 1" in shown_alert(world, alert)["last_error"]
    assert len(shown_alert(world, alert)["firing"]) == 1
    limit(world, "query_max_length", None)
    evaluate(world, minutes=1)
    assert (shown_alert(world, alert)["state"], shown_alert(world, alert)["last_error"]) == ("ok", None)


def test_state_survives_a_restart(world: World, make_app: Any) -> None:
    alert = create_alert(world, **{"for": "5m"})
    fail(world, 2)
    evaluate(world, seconds=1)
    world.use(make_app())
    evaluate(world, minutes=5)
    assert shown_alert(world, alert)["state"] == "firing"
    world.use(make_app())
    evaluate(world, minutes=1)
    assert len(incidents_of_alerts(world)) == 1


@pytest.mark.parametrize(("jobs", "begun"), [({}, 0), ({"host": "nas01"}, 1), ({"job_prefix": "b"}, 1)])
def test_nothing_begins_during_maintenance_of_all_jobs(world: World, jobs: dict[str, str], begun: int) -> None:
    times = {"start_time": "2026-06-21T09:00:00Z", "end_time": "2026-06-21T10:30:00Z"}
    assert world.client.post("/api/v1/maintenance", json={"title": "move", **times, **jobs}).status_code == 201
    create_alert(world)
    fail(world, 2)
    evaluate(world, seconds=1)
    assert len(incidents_of_alerts(world)) == begun
    evaluate(world, minutes=31)
    assert len(incidents_of_alerts(world)) == 1


def test_an_alert_is_evaluated_as_often_as_it_says(world: World) -> None:
    alert = create_alert(world, every="10m")
    evaluate(world, seconds=1)
    fail(world, 2)
    evaluate(world, minutes=9)
    assert shown_alert(world, alert)["state"] == "ok"
    evaluate(world, minutes=1)
    assert shown_alert(world, alert)["state"] == "firing"


def test_an_alert_without_news_writes_nothing(world: World) -> None:
    create_alert(world)
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
    alert = create_alert(world, query="SELECT count(*) FROM runs WHERE status = 'failed' BY job LAST 1h", threshold=0)
    evaluate(world, seconds=1)
    fail_jobs(120)
    evaluate(world, minutes=1)
    seen = shown_alert(world, alert)
    assert (seen["state"], seen["last_error"], len(seen["firing"])) == ("firing", None, 100)
    assert "job-000" in seen["firing"]


def test_a_group_that_falls_out_of_top_keeps_its_state(world: World) -> None:
    fail(world)
    alert = create_alert(
        world, query="SELECT count(*) FROM runs WHERE status = 'failed' BY job TOP 1 LAST 1h", threshold=0
    )
    evaluate(world, seconds=1)
    assert list(shown_alert(world, alert)["firing"]) == ["backup"]
    for _ in range(3):
        world.end("photos", "fail")
    evaluate(world, minutes=1)
    assert sorted(shown_alert(world, alert)["firing"]) == ["backup", "photos"]


def test_time_without_evaluations_does_not_count(world: World) -> None:
    alert = create_alert(world, **{"for": "30m"})
    fail(world, 2)
    evaluate(world, seconds=1)
    world.clock.advance(minutes=50)  # the service was down
    evaluate(world, seconds=1)
    assert shown_alert(world, alert)["state"] == "pending"


@pytest.mark.parametrize("only", [{"host": "nas"}, {"project": "home"}, {"job_prefix": "nas/"}])
def test_a_channel_for_some_jobs_is_notified_of_alerts(world: World, receiver: Receiver, only: dict[str, str]) -> None:
    world.add_channel(receiver, events=["alert"], **only)
    create_alert(world)
    fail(world, 2)
    evaluate(world, seconds=1)
    world.pass_time(seconds=11)
    assert [title.partition(" since")[0] for title in titles(receiver)] == ["failures has been firing"]


def test_the_band_of_an_alert_is_not_that_of_a_job_with_its_name(world: World) -> None:
    alert = create_alert(world, name="backup")
    fail(world, 2)
    evaluate(world, seconds=1)
    world.client.delete("/api/v1/jobs/backup")
    [band] = world.client.get("/api/v1/annotations?name_prefix=alert/backup").json["annotations"]
    assert (band["end_time"], shown_alert(world, alert)["state"]) == (None, "firing")


def test_large_numbers_are_written_in_full(world: World, receiver: Receiver) -> None:
    world.add_channel(receiver, events=["alert"])
    query = "SELECT max(duration_ms) FROM runs LAST 1d"
    create_alert(world, query=query, threshold=5_400_001)
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
            saved.append(create_alert(world))
        return found

    fail(world, 2)
    monkeypatch.setattr(store, "alerts", slow)
    evaluate(world, seconds=1)
    evaluate(world, minutes=1)
    assert shown_alert(world, saved[1])["state"] == "firing"


def test_groups_that_differ_only_after_a_nul_fire_each(world: World) -> None:
    for end in "bc":
        world.client.post("/api/v1/heartbeat/web/ping", data=f"a\0{end}", content_type="text/plain")
    create_alert(world, query="SELECT count(*) FROM events BY message LAST 1h", threshold=0)
    evaluate(world, minutes=1)
    evaluate(world, minutes=1)
    assert [job for job, *_ in incidents_of_alerts(world)] == ["failures: a\0b", "failures: a\0c"]


def test_an_alert_that_is_pending_fires_in_time_after_the_clock_is_set_back(world: World) -> None:
    alert = create_alert(world, no_data="alert", operator="<", **{"for": "5m"})
    evaluate(world, seconds=1)
    assert shown_alert(world, alert)["state"] == "pending"
    evaluate(world, days=-3)
    for _ in range(5):
        assert shown_alert(world, alert)["state"] == "pending"
        evaluate(world, minutes=1)
    assert shown_alert(world, alert)["state"] == "firing"
