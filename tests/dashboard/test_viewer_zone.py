"""Among time zones that describe a schedule equally well, the machine's own is learned, then the viewer's."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from flask import Flask

from obs.services import services
from tests.conftest import Clock, KeyClient
from tests.dashboard.conftest import Visitor


def learned_zone(app: Flask, client: KeyClient, clock: Clock, zone: str) -> Any:
    """The zone of a job that has run daily at 02:00 in Berlin since its clocks went forward and before.

    Somebody whose browser is in `zone` has signed in.
    """
    visitor = Visitor(app)
    visitor.client.set_cookie("obs_zone", zone)
    assert visitor.sign_in(str(client.key)).status_code == 302
    for day in range(40):
        clock.set((datetime(2026, 3, 10, 2, tzinfo=ZoneInfo("Europe/Berlin")) + timedelta(days=day)).isoformat())
        client.post("/api/v1/heartbeat/nightly/ping")
    services(app).background.tasks["sweep"].run()
    learned = client.get("/api/v1/jobs/nightly").json["learned"]
    local = datetime(2026, 4, 10, 2, tzinfo=ZoneInfo("Europe/Berlin")).astimezone(ZoneInfo(learned["zone"]))
    assert learned["summary"] == f"Every day at {local:%H:%M}, {learned['zone']}"
    return learned["zone"]


@pytest.mark.parametrize(
    ("zone", "learned"),
    [
        ("Europe/Berlin", "Europe/Berlin"),
        ("Europe/Paris", "Europe/Paris"),  # not among those that are considered anyway
        ("Africa/Lagos", "Europe/London"),  # its clocks do not change
        ("nowhere", "Europe/London"),
    ],
)
def test_the_viewers_zone_is_learned_if_it_fits(
    app: Flask, client: KeyClient, clock: Clock, zone: str, learned: str
) -> None:
    assert learned_zone(app, client, clock, zone) == learned


def test_the_zone_of_the_machine_comes_first(
    make_app: Callable[..., Flask], new_client: Callable[..., KeyClient], clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tzlocal.get_localzone_name", lambda: "Europe/Madrid")
    app = make_app()
    assert learned_zone(app, new_client(app=app), clock, "Europe/Paris") == "Europe/Madrid"


def test_the_zone_of_another_organization_does_not_count(
    app: Flask, client: KeyClient, new_client: Callable[..., KeyClient], clock: Clock
) -> None:
    elsewhere = Visitor(app)
    elsewhere.client.set_cookie("obs_zone", "Europe/Paris")
    assert elsewhere.sign_in(str(new_client("globex").key)).status_code == 302
    assert learned_zone(app, client, clock, "UTC") == "Europe/London"
