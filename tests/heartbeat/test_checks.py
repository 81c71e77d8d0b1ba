"""Jobs as the management API of Healthchecks shows them."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.conftest import Clock, KeyClient
from tests.heartbeat.conftest import Sender

UUID = "6ba7b810-9dad-41d1-80b4-00c04fd430c8"
CHECKS = "/api/v3/checks/"
Sweep = Callable[[], None]


@pytest.fixture
def reader(new_client: Callable[..., KeyClient]) -> KeyClient:
    return new_client("acme", "query:read")


def check(client: KeyClient, version: str = "v3") -> dict[str, Any]:
    (found,) = client.get(f"/api/{version}/checks/").json["checks"]
    assert isinstance(found, dict)
    return found


def status(client: KeyClient) -> tuple[str, str, bool]:
    """As version 1 says it, as versions 2 and 3 say it, and whether a run is open."""
    first, second, third = (check(client, version) for version in ("v1", "v2", "v3"))
    assert {**first, "status": third["status"]} == second == third
    return first["status"], third["status"], third["started"]


def test_all_fields(by_path: Sender, admin: KeyClient, reader: KeyClient, clock: Clock) -> None:
    pin = {"cron": "0 2 * * *", "timezone": "Europe/Berlin", "grace_seconds": 600}
    place = {"project": "home", "service": "photo backup", "host": "nas"}
    admin.put("/api/v1/jobs/db/Nightly backup", json={"pin": pin, "ping_uuid": UUID, **place})
    by_path("end", "db/Nightly backup", duration_ms=61_500)
    found = check(admin)
    key = found.pop("unique_key")
    assert len(key) == 40
    public = {
        "name": "db/Nightly backup",
        "slug": "db-nightly-backup",
        "tags": "home photo-backup nas",
        "desc": "",
        "grace": 600,
        "n_pings": 1,
        "status": "up",
        "started": False,
        "last_ping": "2026-06-21T10:00:00.000Z",
        "next_ping": "2026-06-22T00:00:00.000Z",
        "last_duration": 61,
        "manual_resume": False,
        "methods": "",
        "schedule": "0 2 * * *",
        "tz": "Europe/Berlin",
    }
    ping_url = f"http://127.0.0.1:8080/in/acme/ping/{UUID}"
    assert found == {**public, "uuid": UUID, "ping_url": ping_url}
    assert check(reader) == {**public, "unique_key": key}
    for one in (UUID, UUID.upper(), key):
        assert reader.get(f"{CHECKS}{one}").json == check(reader)


@pytest.mark.parametrize("rest", ["", "/{}/pings", "/{}/flips"])
def test_the_slash_at_the_end_is_optional(by_path: Sender, reader: KeyClient, rest: str) -> None:
    """A redirect to it would name the scheme and the host of the request, which may be those behind a proxy."""
    by_path("ping")
    path = f"/api/v3/checks{rest.format(check(reader)['unique_key'])}"
    assert reader.get(path).status_code == 200
    assert reader.get(path).json == reader.get(f"{path}/").json


def test_the_status_of_a_check(by_path: Sender, admin: KeyClient, clock: Clock, sweep: Sweep) -> None:
    admin.put("/api/v1/jobs/backup", json={"pin": {"interval_seconds": 3600, "grace_seconds": 600}})
    assert (status(admin), check(admin)["last_ping"]) == (("new", "new", False), None)
    by_path("start")
    assert status(admin) == ("started", "up", True)
    by_path("end")
    assert (status(admin), check(admin)["timeout"]) == (("up", "up", False), 3600)
    sweep()
    clock.advance(minutes=65)
    assert status(admin) == ("grace", "grace", False)
    clock.advance(minutes=6)
    assert status(admin) == ("down", "down", False)
    by_path("end", status="fail")
    assert status(admin) == ("down", "down", False)
    by_path("start")
    assert status(admin) == ("started", "down", True)
    by_path("end", status="fail")
    admin.patch("/api/v1/jobs/backup", json={"paused": True})
    assert status(admin) == ("paused", "paused", False)


def test_a_schedule_that_was_learned(by_path: Sender, reader: KeyClient, clock: Clock, sweep: Sweep) -> None:
    by_path("ping")
    assert check(reader)["timeout"] == 86_400  # the default of Healthchecks while nothing is known
    for day in range(20):
        clock.set(f"2026-07-{day + 1:02}T02:00:{day * 7 % 20 + 1:02}Z")
        by_path("ping")
        sweep()
    assert check(reader)["schedule"] == "0 2 * * *"
    assert "timeout" not in check(reader)


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("", ["a", "b", "c"]),
        ("?tag=home", ["a", "b"]),
        ("?tag=home&tag=nas", ["a"]),
        ("?tag=nas&tag=nowhere", []),
        ("?tag=photo-backup", ["b"]),
        ("?slug=b", ["b"]),
        ("?slug=b&tag=nas", []),
    ],
)
def test_checks_by_their_tags_which_are_the_places_of_a_job_and_by_their_slug(
    admin: KeyClient, query: str, names: list[str]
) -> None:
    admin.put("/api/v1/jobs/a", json={"project": "home", "host": "nas"})
    admin.put("/api/v1/jobs/b", json={"project": "home", "service": "photo backup"})
    admin.put("/api/v1/jobs/c", json={"host": "nas"})
    assert [one["name"] for one in admin.get(f"{CHECKS}{query}").json["checks"]] == names


def test_runs_are_pings(by_path: Sender, admin: KeyClient, reader: KeyClient, clock: Clock) -> None:
    admin.put("/api/v1/jobs/backup", json={"ping_uuid": UUID})
    by_path("end", duration_ms=2_500)
    clock.advance(minutes=1)
    by_path("end", status="fail")
    clock.advance(minutes=1)
    by_path("start", run_id="r3")
    pings = reader.get(f"{CHECKS}{UUID}/pings/").json["pings"]
    assert [(one["n"], one["type"], one["rid"], one["duration"]) for one in pings] == [
        (3, "start", "r3", None),
        (2, "fail", None, None),
        (1, "success", None, 2.5),
    ]
    assert [one["date"] for one in pings][1:] == ["2026-06-21T10:01:00.000Z", "2026-06-21T10:00:00.000Z"]


def test_incidents_are_flips(by_path: Sender, admin: KeyClient, reader: KeyClient, clock: Clock, sweep: Sweep) -> None:
    def flips(query: str = "") -> list[tuple[str, int]]:
        found = reader.get(f"{CHECKS}{UUID}/flips/{query}").json
        return [(one["timestamp"][11:19], one["up"]) for one in found]

    admin.put("/api/v1/jobs/backup", json={"ping_uuid": UUID})
    assert flips() == []
    for status in ("fail", "ok", "fail"):
        by_path("end", status=status)
        sweep()
        clock.advance(minutes=1)
    assert flips() == [("10:02:00", 0), ("10:01:00", 1), ("10:00:00", 0)]
    assert flips("?seconds=90") == [("10:02:00", 0)]
    now = clock() // 1000
    assert flips(f"?start={now - 130}&end={now - 100}") == [("10:01:00", 1)]
    assert reader.get(f"{CHECKS}{UUID}/flips/?seconds=soon").status_code == 422


@pytest.mark.parametrize("rest", ["", "/pings/", "/flips/"])
@pytest.mark.parametrize("check_id", [UUID, "0" * 40, "f" * 40, "backup", f"{99:040x}"])
def test_an_unknown_check_is_not_found(by_path: Sender, reader: KeyClient, check_id: str, rest: str) -> None:
    by_path("ping")
    answer = reader.get(f"{CHECKS}{check_id}{rest}")
    assert (answer.status_code, answer.json["error"]) == (404, "job_not_found")


def test_other_organizations_and_other_keys(
    by_path: Sender, reader: KeyClient, other_client: KeyClient, new_client: Callable[..., KeyClient]
) -> None:
    by_path("ping")
    key = check(reader)["unique_key"]
    assert other_client.get(CHECKS).json == {"checks": []}
    assert other_client.get(f"{CHECKS}{key}").status_code == 404
    assert new_client("acme", "heartbeat:write").get(CHECKS).status_code == 403
    assert reader.get("/api/v4/checks/").status_code == 404
    reader.key = None
    assert reader.get(CHECKS).status_code == 401
