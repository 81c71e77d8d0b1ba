"""The page of a new alert on a query, and the list of alerts."""

import html
import json
import re

import pytest
from flask import Flask

from obs.services import services
from tests.conftest import Clock, KeyClient
from tests.dashboard.conftest import Visitor

PAGE = "/alerts/query"
QUERY = "SELECT count(*) FROM runs WHERE status = 'failed' BY host LAST 1d"
FIELDS = {"query": QUERY, "operator": ">", "threshold": "1", "for": "0s", "every": "1m", "no_data": "keep"}


@pytest.fixture(autouse=True)
def _failures(client: KeyClient, clock: Clock) -> None:
    for _ in range(2):
        client.post("/api/v1/heartbeat/backup/end?status=fail", headers={"X-Platform-Host": "nas01"})
    clock.advance(minutes=1)


def text_of(page: str) -> str:
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", page)))


def test_a_result_leads_to_a_new_alert_with_its_statement(admin: Visitor, reader: Visitor) -> None:
    result = admin.get("/query", query_string={"q": QUERY}).text
    link = re.search(r'href="(/alerts/query[^"]*)">Alert me on this', result)
    assert link is not None
    assert html.escape(QUERY).replace("&#x27;", "&#39;") in admin.get(html.unescape(link[1])).text
    assert "Alert me on this" not in reader.get("/query", query_string={"q": QUERY}).text


@pytest.mark.parametrize(
    ("query", "is_offered"),
    [
        (QUERY, True),
        ("SELECT count(*) FROM runs LAST 1d", True),
        ("SELECT count(*) FROM runs SINCE yesterday", True),
        ("SELECT job, status FROM runs LAST 1d", False),
        ("SELECT count(*), avg(duration_ms) FROM runs LAST 1d", False),
        ("SELECT min(job) FROM runs LAST 1d", False),
        ("SELECT count(*) FROM runs BETWEEN '2026-01-01' AND '2027-01-01'", False),
        ("SELECT count(*) FROM runs EVERY 1h LAST 1d", False),
        ("SELECT count(*) FROM audit LAST 1d", False),
        ("EXPLAIN SELECT count(*) FROM runs LAST 1d", False),
        ("SHOW SOURCES", False),
    ],
)
def test_only_results_that_an_alert_can_have_lead_to_a_new_alert(admin: Visitor, query: str, is_offered: bool) -> None:
    shown = admin.get("/query", query_string={"q": query})
    assert (shown.status_code, "Alert me on this" in shown.text) == (200, is_offered)
    preview = admin.post(PAGE, **{**FIELDS, "query": query}, name="", action="preview")
    assert preview.status_code == (200 if is_offered else 422)


def test_a_result_with_too_many_groups_leads_to_no_alert(admin: Visitor, client: KeyClient, clock: Clock) -> None:
    query = "SELECT count(*) FROM runs LAST 1d BY job"
    for number in range(100):
        client.post(f"/api/v1/heartbeat/job-{number}/ping")
    clock.advance(minutes=1)
    assert "Alert me on this" not in admin.get("/query", query_string={"q": query}).text
    assert "Alert me on this" in admin.get("/query", query_string={"q": f"{query} LIMIT 100"}).text


def test_a_preview_shows_when_it_would_have_fired_and_keeps_what_was_typed(admin: Visitor, client: KeyClient) -> None:
    page = admin.post(PAGE, **FIELDS, name="failures", action="preview")
    assert page.status_code == 200
    assert "This alert would have fired 1 time, evaluated every " in text_of(page.text)
    assert "A preview reads what is stored now" in text_of(page.text)
    drawn = json.loads(re.findall(r'<script type="application/json">(.*?)</script>', page.text, re.S)[-1])
    assert {numbers.get("nas01", drawn["data"]["absent"]) for _, numbers in drawn["data"]["numbers"]} == {0, 2}
    assert drawn["data"]["threshold"] == 1
    assert [band["title"] for band in drawn["annotations"]] == ["nas01"]
    assert 'value="failures"' in page.text
    assert client.get("/api/v1/alerts").json == {"alerts": []}


def test_an_alert_is_created_listed_disabled_and_deleted(admin: Visitor, app: Flask, client: KeyClient) -> None:
    created = admin.post(PAGE, **FIELDS, name="failures", action="save")
    assert created.status_code == 302
    services(app).background.tasks["alerts on queries"].run()
    listed = text_of(admin.get("/alerts").text)
    assert "failures" in listed
    assert "> 1, run every 1 min" in listed
    assert "nas01 since" in listed
    [alert] = client.get("/api/v1/alerts").json["alerts"]
    admin.post(f"{PAGE}/{alert['id']}", action="disable")
    [disabled] = client.get("/api/v1/alerts").json["alerts"]
    assert (disabled["enabled"], disabled["firing"]) == (False, {})
    for action in ("test", "on", ""):
        assert admin.post(f"{PAGE}/{alert['id']}", action=action).status_code == 400
    admin.post(f"{PAGE}/{alert['id']}", action="enable")
    assert admin.post(f"{PAGE}/{alert['id']}", action="on").status_code == 400
    assert client.get("/api/v1/alerts").json["alerts"][0]["enabled"] is True
    admin.post(f"{PAGE}/{alert['id']}", action="delete")
    assert client.get("/api/v1/alerts").json == {"alerts": []}


def test_an_alert_is_edited_in_the_form_with_its_values(admin: Visitor, reader: Visitor, client: KeyClient) -> None:
    admin.post(PAGE, **{**FIELDS, "for": "90m"}, name="failures", action="save")
    [alert] = client.get("/api/v1/alerts").json["alerts"]
    admin.post(f"{PAGE}/{alert['id']}", action="disable")
    link = html.unescape(re.findall(r'href="(/alerts/query\?id=[^"]*)"', admin.get("/alerts").text)[0])
    assert "/alerts/query?id=" not in reader.get("/alerts").text
    form = admin.get(link).text
    assert {'value="1"', 'value="90m"', 'value="1m"', 'value="failures"'} <= set(re.findall(r'value="[^"]*"', form))
    assert html.escape(QUERY).replace("&#x27;", "&#39;") in form
    wrong = admin.post(PAGE, **FIELDS, id=alert["id"], name="", action="save")
    assert (wrong.status_code, f'name="id" value="{alert["id"]}"' in wrong.text) == (422, True)
    changes = {**FIELDS, "threshold": "2.5", "id": alert["id"], "name": "many failures"}
    assert admin.post(PAGE, **changes, action="save").status_code == 302
    [changed] = client.get("/api/v1/alerts").json["alerts"]
    expected = {**alert, "name": "many failures", "threshold": 2.5, "for": "0s", "enabled": False}
    assert changed == expected
    assert admin.get(f"{PAGE}?id=99").status_code == 404


@pytest.mark.parametrize("action", ["preview", "save"])
@pytest.mark.parametrize(
    ("typed", "field", "message"),
    [
        (
            {"query": "SELECT job FROM runs LAST 1d"},
            "query",
            "It must return one number, or one for each group, in a window relative to now.",
        ),
        ({"query": "SELECT count(*) FROM rums LAST 1d"}, "query", "rums"),
        ({"threshold": ""}, "threshold", "Enter a value."),
        ({"threshold": "1,5"}, "threshold", "Enter a number, e.g. 30."),
        ({"for": "soon"}, "for", "Not a length of time such as 30s, 5m, 2h or 1d."),
        ({"every": "1s"}, "every", "Must be from 30s to 30d."),
    ],
)
def test_a_problem_is_beside_its_field_and_nothing_is_lost(
    admin: Visitor, client: KeyClient, action: str, typed: dict[str, str], field: str, message: str
) -> None:
    page = admin.post(PAGE, **{**FIELDS, "name": "failures", **typed}, action=action)
    assert page.status_code == 422
    found = re.findall(r'<p class="problem" role="alert" id="([\w-]+)-problem">([^<]*)</p>', page.text)
    assert [name for name, _ in found] == [field]
    assert message in html.unescape(found[0][1])
    assert html.escape({**FIELDS, **typed}["query"]).replace("&#x27;", "&#39;") in page.text
    assert client.get("/api/v1/alerts").json == {"alerts": []}


def test_who_may_only_read_changes_no_alert(reader: Visitor, client: KeyClient) -> None:
    assert reader.post(PAGE, **FIELDS, name="failures", action="save").status_code == 403
    assert "New alert on a query" not in reader.get("/alerts").text
    form = reader.get(PAGE)
    assert (form.status_code, "Your access is read-only." in form.text, "<textarea" in form.text) == (403, True, False)
    assert client.get("/api/v1/alerts").json == {"alerts": []}


def test_incidents_of_alerts_lead_to_the_page_of_alerts(admin: Visitor, app: Flask) -> None:
    admin.post(PAGE, **FIELDS, name="failures", action="save")
    services(app).background.tasks["alerts on queries"].run()
    page = admin.get("/incidents").text
    assert re.search(r'<a href="/alerts">failures: nas01</a>', page)
    assert "firing" in page


@pytest.mark.parametrize("number", ["7", "99999999999999999999", "-99999999999999999999"])
def test_an_alert_that_does_not_exist_is_not_found(admin: Visitor, number: str) -> None:
    assert admin.get(f"{PAGE}?id={number}").status_code == 404
    assert admin.post(PAGE, **FIELDS, id=number, name="failures", action="save").status_code == 404
