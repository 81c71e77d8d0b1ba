"""Every API route, called with every scope, with invalid keys, and by another organization.

A new route without an entry in ROUTES fails `test_every_route_has_an_expectation`.
"""

import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from flask import Flask
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from obs.alerts.store import channels
from obs.services import services
from obs.tenancy import service, store
from obs.tenancy.auth import Tenancy
from obs.tenancy.keys import ANY, PING, SCOPES
from tests.conftest import ACME, Clock, KeyClient

SECRET = "only acme may know"
WINDOW = {"start_time": "2026-06-21T11:00:00Z", "end_time": "2026-06-21T12:00:00Z", "title": SECRET}
MARKER = {"name": "deploy/web", "title": SECRET, "idempotency_key": "k"}
CHANNEL = {"name": "pager", "webhook": {"url": "http://127.0.0.1:1/hook"}}
ALERT = {"name": SECRET, "query": "SELECT count(*) FROM runs LAST 1h", "operator": ">", "threshold": 5}
STORED_CHANNEL: dict[str, Any] = {
    "id": None,
    "organization_id": ACME.id,
    "name": "phone",
    "kind": "webhook",
    "address": "http://127.0.0.1:1/hook",
    "masked": "http://127.0.0.1:1/***",
    "secret": SECRET,
    "enabled": True,
    "filter": {},
}
NEW_KEY = {"label": SECRET, "scopes": ["heartbeat:write"]}
KINDS = ("start", "log", "end", "ping")


class Route(NamedTuple):
    """What one route needs and returns: `own` is the status for its owner, `other` for another organization's admin."""

    scope: str
    own: int
    other: int
    path: str
    body: dict[str, Any] | None = None


def _heartbeats() -> dict[tuple[str, str], Route]:
    """A heartbeat always goes to the sender's own job, even when another organization has a job of that name."""
    routes = {}
    for kind in KINDS:
        by_path = Route("heartbeat:write", 200, 200, f"/api/v1/heartbeat/backup/{kind}")
        routes["POST", f"/api/v1/heartbeat/<job_name:job_name>/{kind}"] = by_path
        body = {"name": "backup", "message": "m"}
        routes["POST", f"/api/v1/heartbeat/{kind}"] = Route(
            "heartbeat:write", 200, 200, f"/api/v1/heartbeat/{kind}", body
        )
    routes["GET", "/api/v1/heartbeat/<job_name:job_name>/ping"] = routes[
        "POST", "/api/v1/heartbeat/<job_name:job_name>/ping"
    ]
    return routes


_ID = "<int(max=9223372036854775807):"
_CHECKS = "/api/<any(v1, v2, v3):version>/checks"
ROUTES: dict[tuple[str, str], Route] = {
    **_heartbeats(),
    ("GET", "/api/v1/jobs"): Route("query:read", 200, 200, "/api/v1/jobs"),
    ("POST", "/api/v1/jobs"): Route("admin", 409, 201, "/api/v1/jobs", {"name": "backup"}),
    ("DELETE", "/api/v1/jobs"): Route("admin", 200, 200, "/api/v1/jobs?prefix=backup"),
    ("GET", "/api/v1/jobs/<job_name:job_name>"): Route("query:read", 200, 404, "/api/v1/jobs/backup"),
    ("GET", "/api/v1/jobs/<job_name:job_name>/runs"): Route("query:read", 200, 404, "/api/v1/jobs/backup/runs"),
    ("PATCH", "/api/v1/jobs/<job_name:job_name>"): Route("admin", 200, 404, "/api/v1/jobs/backup", {"paused": True}),
    ("PUT", "/api/v1/jobs/<job_name:job_name>"): Route("admin", 200, 201, "/api/v1/jobs/backup", {}),
    ("DELETE", "/api/v1/jobs/<job_name:job_name>"): Route("admin", 204, 404, "/api/v1/jobs/backup"),
    ("GET", f"/api/v1/runs/{_ID}number>"): Route("query:read", 200, 404, "/api/v1/runs/{run}"),
    ("GET", "/api/v1/maintenance"): Route("query:read", 200, 200, "/api/v1/maintenance"),
    ("POST", "/api/v1/maintenance"): Route("admin", 201, 201, "/api/v1/maintenance", WINDOW),
    ("DELETE", f"/api/v1/maintenance/{_ID}window_id>"): Route("admin", 204, 404, "/api/v1/maintenance/{window}"),
    ("GET", "/api/v1/annotations"): Route("annotations:read", 200, 200, "/api/v1/annotations"),
    ("GET", "/api/v1/annotations/prefixes"): Route("annotations:read", 200, 200, "/api/v1/annotations/prefixes"),
    # The owner has used this idempotency key and gets the first annotation; another organization creates one.
    ("POST", "/api/v1/annotations"): Route("annotations:write", 200, 201, "/api/v1/annotations", MARKER),
    ("GET", "/api/v1/annotations/<int:annotation_id>"): Route(
        "annotations:read", 200, 404, "/api/v1/annotations/{annotation}"
    ),
    ("PUT", "/api/v1/annotations/<int:annotation_id>"): Route(
        "annotations:write", 200, 404, "/api/v1/annotations/{annotation}", {"title": "changed"}
    ),
    ("DELETE", "/api/v1/annotations/<int:annotation_id>"): Route(
        "annotations:write", 204, 404, "/api/v1/annotations/{annotation}"
    ),
    ("POST", "/api/annotations"): Route("annotations:write", 200, 200, "/api/annotations", {"text": SECRET}),
    ("PATCH", "/api/annotations/<int:annotation_id>"): Route(
        "annotations:write", 200, 404, "/api/annotations/{annotation}", {"text": "changed"}
    ),
    ("POST", "/api/v1/dsl"): Route("query:read", 200, 200, "/api/v1/dsl", {"query": "SHOW SOURCES"}),
    ("GET", f"{_CHECKS}/"): Route("query:read", 200, 200, "/api/v3/checks/"),
    ("GET", f"{_CHECKS}/<check>"): Route("query:read", 200, 404, f"/api/v3/checks/{1:040x}"),
    ("GET", f"{_CHECKS}/<check>/pings/"): Route("query:read", 200, 404, f"/api/v3/checks/{1:040x}/pings/"),
    ("GET", f"{_CHECKS}/<check>/flips/"): Route("query:read", 200, 404, f"/api/v3/checks/{1:040x}/flips/"),
    ("GET", "/api/v1/metrics"): Route("query:read", 200, 200, "/api/v1/metrics"),
    ("GET", "/api/v1/me"): Route(ANY, 200, 200, "/api/v1/me"),
    ("GET", "/api/v1/alerts"): Route("query:read", 200, 200, "/api/v1/alerts"),
    ("POST", "/api/v1/alerts"): Route("admin", 201, 201, "/api/v1/alerts", {**ALERT, "name": "new"}),
    ("POST", "/api/v1/alerts/preview"): Route(
        "query:read", 200, 200, "/api/v1/alerts/preview", {**ALERT, "last": "1h"}
    ),
    ("GET", f"/api/v1/alerts/{_ID}alert_id>"): Route("query:read", 200, 404, "/api/v1/alerts/{alert}"),
    ("PUT", f"/api/v1/alerts/{_ID}alert_id>"): Route("admin", 200, 404, "/api/v1/alerts/{alert}", {"threshold": 7}),
    ("DELETE", f"/api/v1/alerts/{_ID}alert_id>"): Route("admin", 204, 404, "/api/v1/alerts/{alert}"),
    ("GET", "/api/v1/channels"): Route("admin", 200, 200, "/api/v1/channels"),
    ("POST", "/api/v1/channels"): Route("admin", 201, 201, "/api/v1/channels", CHANNEL),
    ("GET", f"/api/v1/channels/{_ID}channel_id>"): Route("admin", 200, 404, "/api/v1/channels/{channel}"),
    ("PUT", f"/api/v1/channels/{_ID}channel_id>"): Route(
        "admin", 200, 404, "/api/v1/channels/{channel}", {"enabled": False}
    ),
    ("DELETE", f"/api/v1/channels/{_ID}channel_id>"): Route("admin", 204, 404, "/api/v1/channels/{channel}"),
    ("POST", f"/api/v1/channels/{_ID}channel_id>/test"): Route("admin", 200, 404, "/api/v1/channels/{channel}/test"),
    ("GET", "/api/v1/incidents"): Route("query:read", 200, 200, "/api/v1/incidents"),
    ("POST", f"/api/v1/incidents/{_ID}incident_id>/acknowledge"): Route(
        "admin", 404, 404, "/api/v1/incidents/1/acknowledge"
    ),
    ("POST", f"/api/v1/incidents/{_ID}incident_id>/feedback"): Route(
        "admin", 404, 404, "/api/v1/incidents/1/feedback", {"verdict": "right"}
    ),
    ("GET", "/api/v1/deliveries"): Route("query:read", 200, 200, "/api/v1/deliveries"),
    ("POST", f"/api/v1/deliveries/{_ID}delivery_id>/retry"): Route("admin", 404, 404, "/api/v1/deliveries/1/retry"),
    ("GET", "/api/v1/keys"): Route("admin", 200, 200, "/api/v1/keys"),
    ("POST", "/api/v1/keys"): Route("admin", 201, 201, "/api/v1/keys", NEW_KEY),
    ("DELETE", f"/api/v1/keys/{_ID}key_id>"): Route("admin", 204, 404, "/api/v1/keys/{key}"),
}
OPEN_TO_ALL = {"/api/openapi.json", "/api/docs/", "/api/docs/dist/<path:name>", "/api/docs/static/<path:filename>"}
CALLS = [pytest.param(method, rule, id=f"{method} {rule}") for method, rule in ROUTES]


class World:
    """Two organizations. ``acme`` has one of everything; none of these ids exists in ``globex``."""

    def __init__(self, app: Flask, new_client: Callable[..., KeyClient]) -> None:
        self.app = app
        self.acme, self.globex = new_client("acme", "admin"), new_client("globex", "admin")
        app.config["ALLOW_PRIVATE_TARGETS"] = "1"
        created = {
            "run": self.acme.post("/api/v1/heartbeat/start", json={"name": "backup", "message": SECRET}),
            "window": self.acme.post("/api/v1/maintenance", json=WINDOW),
            "annotation": self.acme.post("/api/v1/annotations", json=MARKER),
            "key": self.acme.post("/api/v1/keys", json=NEW_KEY),
            "alert": self.acme.post("/api/v1/alerts", json=ALERT),
        }
        assert all(answer.status_code in (200, 201) for answer in created.values())
        self.ids = {
            name: json.loads(answer.text)["run_id" if name == "run" else "id"] for name, answer in created.items()
        }
        control = services(app).tenancy.control
        self.ids["channel"] = control.write(lambda db: channels.save(db, STORED_CHANNEL))

    def call(self, client: FlaskClient, method: str, route: Route, prefix: str = "") -> TestResponse:
        body: dict[str, Any] = {} if route.body is None else {"json": route.body}
        return client.open(prefix + route.path.format(**self.ids), method=method, **body)

    def visible(self) -> list[Any]:
        """Everything that the owner can read, except when keys were last used."""
        found = []
        for (method, _), route in ROUTES.items():
            if method == "GET" and "heartbeat" not in route.path:
                text = self.call(self.acme, method, route).text
                text = re.sub(r'"last_used_at":[^,}]+', '"last_used_at": 0', text)
                found.append(text if text.startswith("#") else json.loads(text))
        return found


@pytest.fixture
def world(app: Flask, new_client: Callable[..., KeyClient]) -> World:
    return World(app, new_client)


def _error(answer: TestResponse) -> str:
    assert answer.json is not None
    code = answer.json["error"]
    assert isinstance(code, str)
    return code


def test_every_route_has_an_expectation(app: Flask) -> None:
    found = {
        (method, rule.rule)
        for rule in app.url_map.iter_rules()
        if rule.rule.startswith("/api/") and rule.rule not in OPEN_TO_ALL
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}
    }
    assert found == ROUTES.keys() - _heartbeats().keys()  # heartbeats are handled before Flask


def test_every_operation_of_the_document_has_an_expectation_and_its_scope(app: Flask) -> None:
    document = app.test_client().get("/api/openapi.json").json
    assert document is not None
    found = {
        (method.upper(), path): operation["x-scope"]
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
        if method != "parameters"
    }
    assert found == {
        (method, re.sub(r"<(?:[^:<>]*:)?(\w+)>", r"{\1}", rule)): route.scope
        for (method, rule), route in ROUTES.items()
    }


@pytest.mark.parametrize(("method", "rule"), CALLS)
def test_each_scope_allows_its_routes_and_no_others(
    world: World, new_client: Callable[..., KeyClient], method: str, rule: str
) -> None:
    route = ROUTES[method, rule]
    before = world.visible()
    too_few = [scope for scope in (PING, *SCOPES) if scope not in (route.scope, "admin")]
    for scope in too_few if route.scope != ANY else [PING]:
        answer = world.call(new_client("acme", scope), method, route)
        assert (answer.status_code, _error(answer)) == (403, "missing_scope"), scope
    others = [scope for scope in SCOPES if scope not in (route.scope, "admin")]
    assert world.call(new_client("acme", *others), method, route).status_code == (200 if route.scope == ANY else 403)
    assert [one for one in world.visible() if "keys" not in one] == [one for one in before if "keys" not in one]
    assert world.call(new_client("acme", route.scope), method, route).status_code == route.own


@pytest.mark.parametrize(("method", "rule"), CALLS)
def test_an_admin_key_is_allowed(world: World, method: str, rule: str) -> None:
    assert world.call(world.acme, method, ROUTES[method, rule]).status_code == ROUTES[method, rule].own


@pytest.mark.parametrize(("method", "rule"), CALLS)
def test_invalid_keys_are_rejected(
    world: World, clock: Clock, new_client: Callable[..., KeyClient], method: str, rule: str
) -> None:
    route = ROUTES[method, rule]
    tenancy: Tenancy = services(world.app).tenancy
    revoked, expired = new_client("acme", "admin"), new_client("acme", "admin")
    with tenancy.control.read() as db:
        ids = [key.id for key in store.keys_of(db, ACME)][-2:]
    service.revoke_key(tenancy, ACME, ids[0])
    expired.key = service.create_key(tenancy, ACME, "short", ("admin",), clock.now_ms + 1).key
    clock.advance(ms=1)
    before, answers = world.visible(), []
    for key in (
        revoked.key,
        expired.key,
        "obs_acme_" + "0" * 32,
        f"{world.acme.key}x",
        str(world.acme.key)[:-1],
        "\xff",
    ):
        stranger = world.app.test_client()
        assert isinstance(stranger, KeyClient)
        stranger.key = key
        answer = world.call(stranger, method, route)
        assert (answer.status_code, _error(answer)) == (401, "unauthorized"), key
        answers.append(
            (answer.text, {name: text for name, text in answer.headers if name not in ("Date", "X-Request-Id")})
        )
    assert answers == [answers[0]] * len(answers)  # a revoked key cannot be distinguished from an unknown one
    assert world.call(world.app.test_client(), method, route).status_code == 401
    assert world.visible() == before


@pytest.mark.parametrize(("method", "rule"), CALLS)
def test_another_organization_sees_and_changes_nothing(world: World, method: str, rule: str) -> None:
    route = ROUTES[method, rule]
    before = world.visible()
    answer = world.call(world.globex, method, route)
    assert answer.status_code == route.other
    if route.body is None or SECRET not in json.dumps(route.body):
        assert SECRET not in answer.text
    if route.other == 404:
        unknown = {name: number + 1_000_000 for name, number in world.ids.items()}
        asked = route._replace(path=route.path.replace("backup", "unknown").format(**unknown))
        missing = world.call(world.globex, method, asked)
        assert _normal(missing.text) == _normal(answer.text)  # as if it did not exist
    assert world.visible() == before


def _normal(text: str) -> str:
    return re.sub(r"\d+|backup|unknown", "#", text)


@pytest.mark.parametrize(("method", "rule"), CALLS)
def test_the_ingest_address_of_another_organization_is_rejected(world: World, method: str, rule: str) -> None:
    route = ROUTES[method, rule]
    before = world.visible()
    for client, prefix in ((world.globex, "/in/acme"), (world.acme, "/in/globex"), (world.acme, "/in/nobody")):
        answer = world.call(client, method, route, prefix)
        assert (answer.status_code, _error(answer)) == (403, "wrong_organization"), prefix
    assert world.call(world.app.test_client(), method, route, "/in/acme").status_code == 401
    assert world.visible() == before
    assert world.call(world.acme, method, route, "/in/acme").status_code == route.own
