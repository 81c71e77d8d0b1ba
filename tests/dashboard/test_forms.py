"""Forms: nothing that was typed is lost, problems are beside their fields, and reloading repeats no change."""

import html
import re
from functools import partial

import pytest
from flask import Flask

from obs.annotations.schemas import AnnotationChangesSchema
from obs.services import services
from obs.tenancy import store
from tests.conftest import ACME, KeyClient
from tests.dashboard.conftest import FIRST_KEY, NewClient, Visitor

KEY = re.compile(r"obs_acme_\w{32}")


@pytest.fixture(autouse=True)
def _two_jobs(client: KeyClient) -> None:
    client.post("/api/v1/heartbeat/backup/ping")
    client.post("/api/v1/heartbeat/taken/ping")


@pytest.fixture
def api(new_client: NewClient) -> KeyClient:
    """A client of the API with the scope admin."""
    return new_client("acme", "admin")


def problems(text: str) -> dict[str, str]:
    """The problems of a page by the id of their field."""
    found = re.findall(r'<p class="problem" role="alert" id="([\w-]+)-problem">([^<]*)</p>', text)
    return {name: html.unescape(message) for name, message in found}


def value(text: str, field: str) -> str:
    """The value of an input of a page."""
    found = re.search(rf'<input[^>]* name="{field}" value="([^"]*)"', text)
    assert found is not None
    return html.unescape(found[1])


@pytest.mark.parametrize(
    ("typed", "pin", "field", "message"),
    [
        ({"kind": "cron", "cron": "61 * * * *"}, {"cron": "61 * * * *"}, "cron", 'Invalid minute "61" in the'),
        ({"kind": "cron", "cron": "0 25 * * *"}, {"cron": "0 25 * * *"}, "cron", 'Invalid hour "25" in the'),
        (
            {"kind": "cron", "cron": "every day"},
            {"cron": "every day"},
            "cron",
            "Use five fields: minute, hour, day of the month, month and day of the week.",
        ),
        ({"kind": "cron", "cron": ""}, {"cron": ""}, "cron", "Enter a cron expression, e.g. 0 2 * * *."),
        (
            {"kind": "cron", "cron": "0 2 * * *", "timezone": "Mars/Base"},
            {"cron": "0 2 * * *", "timezone": "Mars/Base"},
            "timezone",
            "Mars/Base",
        ),
        ({"kind": "interval", "interval": "soon"}, {"interval_seconds": "soon"}, "interval", "number of minutes"),
        ({"kind": "interval", "interval": "inf"}, {"interval_seconds": "inf"}, "interval", "number of minutes"),
        ({"kind": "interval", "interval": "0"}, {"interval_seconds": 0}, "interval", ""),
        ({"kind": "interval", "interval": "9999999"}, {"interval_seconds": 599999940}, "interval", "366 days"),
        (
            {"kind": "interval", "interval": "30", "grace": "-5"},
            {"interval_seconds": 1800, "grace_seconds": -300},
            "grace",
            "",
        ),
        ({"kind": "sometimes"}, {"sometimes": True}, "kind", "Choose one of the options."),
    ],
)
def test_an_invalid_schedule_is_explained_beside_its_field_and_the_api_refuses_it_too(
    admin: Visitor, api: KeyClient, typed: dict[str, str], pin: dict[str, object], field: str, message: str
) -> None:
    page = admin.post("/job/pin?name=backup", **{"timezone": "Europe/Berlin", "grace": "7", **typed})
    assert page.status_code == 422
    assert list(problems(page.text)) == [field]
    assert message in problems(page.text)[field]
    assert value(page.text, "timezone") == typed.get("timezone", "Europe/Berlin")
    assert value(page.text, "cron") == typed.get("cron", "")
    assert value(page.text, "grace") == typed.get("grace", "7")
    if field != "kind":
        assert re.search(rf'<option value="{typed["kind"]}" selected>', page.text)
    refused = api.patch("/api/v1/jobs/backup", json={"pin": pin})
    assert refused.status_code == 422
    assert "pin" in refused.json["errors"]["json"]
    assert api.get("/api/v1/jobs/backup").json["pin"] is None


def test_an_interval_keeps_parts_of_minutes(admin: Visitor, api: KeyClient) -> None:
    assert admin.post("/job/pin?name=backup", kind="interval", interval="1.5", grace="0.25").status_code == 302
    assert api.get("/api/v1/jobs/backup").json["pin"] == {"interval_seconds": 90, "grace_seconds": 15}
    text = admin.get("/job?name=backup").text
    assert (value(text, "interval"), value(text, "grace")) == ("1.5", "0.25")


@pytest.mark.parametrize(
    ("name", "status"),
    [("taken", 409), ("", 422), ("n" * 201, 422), ("a\nb", 422)],
    ids=["taken", "", "long", "control"],
)
def test_an_invalid_new_name_is_explained_beside_its_field_and_the_api_refuses_it_too(
    admin: Visitor, api: KeyClient, name: str, status: int
) -> None:
    page = admin.post("/job/rename?name=backup", new_name=name)
    assert page.status_code == status
    assert list(problems(page.text)) == ["new_name"]
    assert value(page.text, "new_name") == name
    refused = api.patch("/api/v1/jobs/backup", json={"name": name})
    assert refused.status_code == status
    assert status == 409 or list(refused.json["errors"]["json"]) == ["name"]


def test_an_unknown_pause_is_refused_beside_its_field(admin: Visitor, api: KeyClient) -> None:
    page = admin.post("/job/pause?name=backup", until="+99d")
    assert (page.status_code, list(problems(page.text))) == (422, ["until"])
    assert api.get("/api/v1/jobs/backup").json["paused"] is False


@pytest.mark.parametrize(
    ("changed", "field", "message"),
    [
        ({"end_time": "2026-07-01T21:00"}, "end_time", "Must be after the start."),
        ({"title": "t" * 600}, "title", "500"),
        ({"start_time": "tonight"}, "start_time", "Enter a date and time, e.g. 2026-06-21 10:00."),
        ({"end_time": ""}, "end_time", "Enter a value."),
    ],
)
def test_an_invalid_maintenance_window_is_explained_beside_its_field_and_the_api_refuses_it_too(
    admin: Visitor, api: KeyClient, changed: dict[str, str], field: str, message: str
) -> None:
    typed = {"title": "New disks", "start_time": "2026-07-01T22:00", "end_time": "2026-07-01T23:00", **changed}
    page = admin.post("/incidents/maintenance", **typed)
    assert page.status_code == 422
    assert list(problems(page.text)) == [field]
    assert message in problems(page.text)[field]
    for name, text in typed.items():
        assert html.escape(text, quote=True) in page.text, name
    refused = api.post("/api/v1/maintenance", json={name: text for name, text in typed.items() if text})
    assert refused.status_code == 422
    assert list(refused.json["errors"]["json"]) == [field]
    assert api.get("/api/v1/maintenance").json["maintenance_windows"] == []


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"title": "t" * 501}, "title"),
        ({"name": ""}, "name"),
        ({"end_time": "2026-06-20T10:00"}, "end_time"),
        ({"url": "ftp://example.com"}, "url"),
    ],
)
@pytest.mark.parametrize("path", ["/annotations", "/annotations/1"])
def test_an_invalid_annotation_is_explained_beside_its_field_and_the_api_refuses_it_too(
    admin: Visitor, api: KeyClient, path: str, changed: dict[str, str], field: str
) -> None:
    assert api.post("/api/v1/annotations", json={"name": "deploy/web", "title": "first"}).json["id"] == 1
    typed = {"name": "deploy/db", "title": "second", "start_time": "2026-06-21T10:00", "description": "why", **changed}
    page = admin.post(path, **typed)
    assert page.status_code == 422
    assert list(problems(page.text)) == [field]
    for name, text in typed.items():
        assert value(page.text, name) == text
    refused = api.open(f"/api/v1{path}", method="PUT" if path.endswith("1") else "POST", json=typed)
    assert refused.status_code == 422
    assert list(refused.json["errors"]["json"]) == [field]
    assert [one["title"] for one in api.get("/api/v1/annotations").json["annotations"]] == ["first"]


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"label": ""}, "label"),
        ({"label": "x" * 201}, "label"),
        ({"scopes": []}, "scopes"),
        ({"scopes": ["x"]}, "scopes"),
    ],
)
def test_an_invalid_key_is_explained_beside_its_field_and_the_api_refuses_it_too(
    admin: Visitor, api: KeyClient, changed: dict[str, object], field: str
) -> None:
    typed = {"label": "cron box", "scopes": ["admin"], "expires": "+90d", **changed}
    page = admin.post("/settings/keys", **typed)
    assert page.status_code == 422
    assert list(problems(page.text)) == [field]
    assert value(page.text, "label") == typed["label"]
    assert '<option value="+90d" selected>' in page.text
    assert ('value="admin" checked' in page.text) == (typed["scopes"] == ["admin"])
    assert 'value="query:read" checked' not in page.text
    refused = api.post("/api/v1/keys", json={name: typed[name] for name in ("label", "scopes")})
    assert refused.status_code == 422
    assert list(refused.json["errors"]["json"]) == [field]


def test_an_optional_field_of_an_annotation_that_is_emptied_is_removed(admin: Visitor, api: KeyClient) -> None:
    required = {"name": "deploy/web", "title": "first", "start_time": "2026-06-21T09:00"}
    # A web address is a valid value of every text.
    texts = dict.fromkeys(AnnotationChangesSchema().fields, "https://ci.example.com/builds/8121")
    admin.post("/annotations", **{**texts, "end_time": "2026-06-21T09:30", **required})
    stored = api.get("/api/v1/annotations/1").json
    assert all(stored[name] for name in texts)
    admin.post("/annotations/1", **{**dict.fromkeys(texts, ""), **required})
    changed = api.get("/api/v1/annotations/1").json
    assert {name: changed[name] for name in texts.keys() - required.keys()} == dict.fromkeys(
        texts.keys() - required.keys()
    )


def test_an_annotation_of_an_incident_cannot_be_changed_on_its_page_nor_through_the_api(
    app: Flask, admin: Visitor, api: KeyClient
) -> None:
    api.post("/api/v1/heartbeat/backup/end?status=fail")
    services(app).background.tasks["sweep"].run()
    (incident,) = api.get("/api/v1/annotations").json["annotations"]
    number = incident["id"]
    page = admin.post(f"/annotations/{number}", name="deploy/web", title="mine")
    assert page.status_code == 409
    assert value(page.text, "title") == "mine"
    for action in ("end", "delete"):
        assert admin.post(f"/annotations/{number}/{action}").status_code == 409
    assert api.put(f"/api/v1/annotations/{number}", json={"title": "mine"}).status_code == 409
    assert api.get(f"/api/v1/annotations/{number}").json == incident


def test_reloading_after_creating_a_key_creates_no_second_one(app: Flask, admin: Visitor, api: KeyClient) -> None:
    before = len(api.get("/api/v1/keys").json["keys"])
    created = admin.post("/settings/keys", label="cron box", scopes="heartbeat:write", expires="")
    assert (created.status_code, created.location) == (302, "/settings#keys")
    assert KEY.search(created.text) is None
    session = admin.client.get_cookie("obs_session")
    first = admin.get("/settings").text
    key = KEY.search(first)
    assert key is not None
    assert session is not None
    assert key[0] not in session.decoded_value
    assert KEY.search(admin.get("/settings").text) is None
    assert len(api.get("/api/v1/keys").json["keys"]) == before + 1
    assert app.test_client().post("/api/v1/heartbeat/x/ping", headers={"X-API-Key": key[0]}).status_code == 200


def test_reloading_after_creating_the_first_key_creates_no_second_one(
    app: Flask, stranger: Visitor, new_client: NewClient
) -> None:
    keys = new_client("globex", "admin")
    before = len(keys.get("/api/v1/keys").json["keys"])
    stranger.get("/")
    assert stranger.post("/settings/keys", **FIRST_KEY).location == "/#keys"
    assert re.search(r"X-API-Key: obs_globex_\w{32}", stranger.get("/").text)
    assert "X-API-Key: YOUR_KEY" in stranger.get("/").text
    assert len(keys.get("/api/v1/keys").json["keys"]) == before + 1


def test_a_new_key_is_shown_only_in_the_session_that_created_it(app: Flask, admin: Visitor, api: KeyClient) -> None:
    other = Visitor(app)
    other.sign_in(str(api.key))
    admin.post("/settings/keys", label="cron box", scopes="heartbeat:write", expires="")
    assert KEY.search(other.get("/settings").text) is None
    assert KEY.search(admin.get("/settings").text) is not None


def test_what_was_typed_stays_when_a_limit_is_reached(app: Flask, admin: Visitor) -> None:
    tenancy = services(app).tenancy
    tenancy.control.write(lambda db: store.set_limit(db, ACME, "max_annotations", 1))
    tenancy.quotas.watch()
    typed = {"name": "deploy/web", "title": "Web 2.14 is out", "description": "with new logos"}
    assert admin.post("/annotations", **typed).status_code == 302
    refused = admin.post("/annotations", **typed)
    assert refused.status_code == 507
    assert re.search(r'role="alert" id="form-problem">The limit of 1 annotations is reached', refused.text)
    assert all(f'value="{text}"' in refused.text or f">\n{text}</textarea>" in refused.text for text in typed.values())


@pytest.mark.parametrize(
    ("path", "location"),
    [
        ("/job/pin?name=backup", "/job?name=backup"),
        ("/job/rename?name=a%26b", "/job?name=a%26b"),
        ("/incidents/maintenance", "/incidents"),
        ("/incidents/maintenance/1/delete", "/incidents"),
        ("/annotations/1/end", "/annotations/1"),
        ("/settings/keys", "/settings"),
        ("/settings/keys/1/revoke", "/settings"),
        ("/sign-out", "/"),
    ],
)
def test_opening_the_address_of_a_form_leads_to_its_page(admin: Visitor, path: str, location: str) -> None:
    answer = admin.get(path)
    assert (answer.status_code, answer.location) == (302, location)


def test_every_change_on_a_page_answers_with_a_redirect(admin: Visitor, api: KeyClient) -> None:
    window = {"title": "x", "start_time": "2026-06-21T11:00", "end_time": "2026-06-21T12:00"}
    changes: dict[str, dict[str, str]] = {
        "/job/pin?name=backup": {"kind": "never"},
        "/job/pause?name=backup": {"until": "+1h"},
        "/job/resume?name=backup": {},
        "/job/rename?name=backup": {"new_name": "other"},
        "/job/delete?name=other": {},
        "/incidents/maintenance": window,
        "/incidents/maintenance/1/delete": {},
        "/annotations": {"name": "deploy/web", "title": "out"},
        "/annotations/1": {"name": "deploy/web", "title": "changed"},
        "/annotations/1/end": {},
        "/annotations/1/delete": {},
        "/settings/keys": {"label": "x", "scopes": "query:read", "expires": ""},
        "/settings/users/add": {"name": "ana", "role": "reader", "password": "correct horse"},
        "/settings/users/change": {"name": "ana", "role": "admin"},
        "/settings/users/delete": {"name": "ana"},
        "/jobs/selected/pause": {"all": "1", "until": ""},
    }
    for path, fields in changes.items():
        answer = admin.post(path, **fields)
        assert answer.status_code == 302, path
        assert admin.get(answer.location.partition("#")[0]).status_code == 200, path


def test_a_missing_page_or_job_is_named_in_plain_words(admin: Visitor) -> None:
    for ask, path, message, area in (
        (admin.get, "/nothing", "Page not found.", "Cron Jobs"),
        (admin.get, "/job?name=", "Job not found.", "Cron Jobs"),
        (admin.get, "/job?name=nothing", "Job not found.", "Cron Jobs"),
        (admin.get, "/job/run/99", "Run not found.", "Cron Jobs"),
        (admin.get, "/annotations/99", "Annotation not found.", "Annotations"),
        (admin.post, "/annotations/99/end", "Annotation not found.", "Annotations"),
        (admin.post, "/incidents/99/acknowledge", "Incident not found.", "Incidents"),
        (admin.post, "/incidents/maintenance/99/delete", "Maintenance window not found.", "Incidents"),
        (partial(admin.post, action="enable"), "/alerts/99", "Channel not found.", "Alerts"),
        (partial(admin.post, action="delete"), "/alerts/query/99", "Alert not found.", "Alerts"),
        (admin.post, "/alerts/deliveries/99/retry", "Delivery not found.", "Alerts"),
        (admin.post, "/settings/keys/99/revoke", "Key not found.", "Settings"),
    ):
        page = ask(path)
        assert page.status_code == 404, path
        assert f"<h1>{message}</h1>" in page.text, path
        assert f">Back to {area}</a>" in page.text, path


def test_a_form_that_is_older_than_a_change_undoes_nothing(admin: Visitor, api: KeyClient) -> None:
    path = "/api/v1/annotations/1"
    api.post("/api/v1/annotations", json={"name": "deploy/web", "title": "first"})
    shown = re.findall(r'name="(version|name|title|start_time)" value="([^"]*)"', admin.get("/annotations/1").text)
    api.put(path, json={"description": "Rolled back"})
    refused = admin.post("/annotations/1", **{**dict(shown), "title": "second"})
    assert (refused.status_code, "was changed meanwhile" in refused.text) == (412, True)
    assert 'value="second"' in refused.text
    assert (api.get(path).json["title"], api.get(path).json["description"]) == ("first", "Rolled back")
    again = admin.post("/annotations/1", **{**dict(shown), "title": "second"})
    assert again.status_code == 412
    shown = re.findall(r'name="(version|name|title|description)" value="([^"]*)"', admin.get("/annotations/1").text)
    assert admin.post("/annotations/1", **{**dict(shown), "title": "second"}).status_code == 302
    assert (api.get(path).json["title"], api.get(path).json["description"]) == ("second", "Rolled back")
