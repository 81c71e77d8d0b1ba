"""/healthz, /readyz and /metrics, and the URL of another monitor that is fetched while the service works."""

import runpy
from collections.abc import Callable
from pathlib import Path

import pytest
from flask import Flask

from obs.errors import ServiceError
from obs.services import services
from obs.tenancy import service
from tests.alerts.conftest import receiver
from tests.alerts.receiver import Receiver
from tests.conftest import KeyClient

__all__ = ["receiver"]


def test_health_needs_no_key(app: Flask) -> None:
    answer = app.test_client().get("/healthz")
    assert (answer.status_code, answer.json) == (200, {"status": "ok"})


def test_ready_only_while_the_scheduler_is_alive(app: Flask) -> None:
    client = app.test_client()
    assert client.get("/readyz").status_code == 503
    services(app).background.start()
    assert client.get("/readyz").json == {"status": "ready"}


def test_not_ready_when_the_control_file_was_deleted(app: Flask) -> None:
    services(app).background.start()
    control = Path(app.instance_path) / "control.db"
    control.rename(control.with_name("elsewhere"))
    answer = app.test_client().get("/readyz")
    assert (answer.status_code, (answer.json or {})["control"]) == (503, "The file control.db is missing.")


def test_the_first_request_starts_the_background_work_under_another_server(
    app: Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OBS_INSTANCE", app.instance_path)
    loaded = runpy.run_path(str(Path(__file__).parent.parent / "app.py"))["app"]
    assert not services(loaded).background.scheduler.running
    try:
        assert loaded.test_client().get("/readyz").json == {"status": "ready"}
        assert loaded.test_client().get("/healthz").json == {"status": "ok"}
    finally:
        services(loaded).background.stop()
        services(loaded).tenancy.close()


def test_metrics_count_requests(app: Flask) -> None:
    client = app.test_client()
    client.get("/healthz")
    text = client.get("/metrics").get_data(as_text=True)
    assert 'obs_http_request_duration_seconds_count{endpoint="healthz",status="200"} 1.0' in text


def test_the_heartbeat_url_is_fetched_only_while_the_service_works(
    make_app: Callable[..., Flask], receiver: Receiver
) -> None:
    app = make_app(HEARTBEAT_URL=receiver.url)
    background, tenancy = services(app).background, services(app).tenancy
    deleted = service.create_organization(tenancy, "deleted")
    tenancy.databases.path(deleted).unlink()
    background.run("heartbeat")
    background.run("sweep")
    background.run("heartbeat")
    assert receiver.fetched == 0, "the deliveries have not run yet"
    background.run("deliveries")
    background.run("heartbeat")
    assert receiver.fetched == 0, "the file of an organization is missing"
    service.delete_organization(tenancy, deleted)
    with pytest.raises(ServiceError):  # a request that was under way
        tenancy.databases.write(deleted, lambda db: None)
    background.run("heartbeat")
    assert receiver.received.wait(30)
    assert receiver.fetched == 1


def test_the_heartbeat_url_is_not_fetched_while_an_organization_cannot_be_swept(
    make_app: Callable[..., Flask], new_client: Callable[..., KeyClient], receiver: Receiver
) -> None:
    app = make_app(HEARTBEAT_URL=receiver.url)
    background, tenancy = services(app).background, services(app).tenancy
    client = new_client(app=app)
    (org,) = tenancy.keyring.organizations()

    def change_pin(pin: str | None) -> None:
        tenancy.databases.write(org, lambda db: db.execute("UPDATE jobs SET pin = ?, revision = revision + 1", (pin,)))

    client.post("/api/v1/heartbeat/odd/ping")
    change_pin("no JSON")
    background.run("deliveries")
    background.run("sweep")
    background.run("heartbeat")
    fetch = {"op": "fetch", "kind": "webhook", "address": receiver.url, "allow_private": True}
    services(app).alerts.courier.submit(fetch).result(30)
    assert receiver.fetched == 1, "only by the line above"
    change_pin(None)
    receiver.received.clear()
    background.run("sweep")
    background.run("heartbeat")
    assert receiver.received.wait(30)
