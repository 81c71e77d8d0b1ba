"""Annotations are kept 90 days from the later of their start and end, and purged after."""

import sqlite3
from typing import Any

import pytest
from flask import Flask

from obs.services import services
from tests.conftest import ACME, KeyClient

PATH = "/api/v1/annotations"
# The clock of these tests stands at 2026-06-21T10:00:00Z.
OLDEST = "2026-03-23T10:00:00.000Z"
TOO_OLD = "2026-03-23T09:59:59.999Z"
MUCH_TOO_OLD = "2026-01-01T00:00:00.000Z"


def _post(client: KeyClient, **fields: Any) -> Any:
    return client.post(PATH, json={"name": "deploy/web", "title": "t", **fields})


def _count_rows(app: Flask) -> int:
    with services(app).tenancy.databases.read(ACME) as db:
        return int(db.execute("SELECT count(*) FROM annotations").fetchone()[0])


@pytest.mark.parametrize(
    ("times", "field"),
    [
        ({"start_time": TOO_OLD}, "start_time"),
        ({"start_time": TOO_OLD, "end_time": None}, "start_time"),
        ({"start_time": MUCH_TOO_OLD, "end_time": TOO_OLD}, "end_time"),
    ],
)
def test_what_is_older_is_refused_with_the_oldest_time_allowed(
    client: KeyClient, times: dict[str, Any], field: str
) -> None:
    answer = _post(client, **times)
    assert (answer.status_code, list(answer.json["errors"]["json"])) == (422, [field])
    assert OLDEST in answer.json["hint"]


@pytest.mark.parametrize("times", [{"start_time": OLDEST}, {"start_time": MUCH_TOO_OLD, "end_time": OLDEST}])
def test_what_is_just_young_enough_is_taken_and_listed(client: KeyClient, times: dict[str, str]) -> None:
    created = _post(client, **times)
    assert created.status_code == 201
    assert client.get(PATH).json["annotations"] == [created.json]


@pytest.mark.parametrize("changes", [{"start_time": TOO_OLD}, {"start_time": MUCH_TOO_OLD, "end_time": TOO_OLD}])
def test_a_change_cannot_put_it_past_the_retention(client: KeyClient, changes: dict[str, str]) -> None:
    created = _post(client)
    answer = client.put(f"{PATH}/1", json=changes)
    assert answer.status_code == 422
    assert OLDEST in answer.json["hint"]
    assert client.get(f"{PATH}/1").json == created.json


def test_a_band_with_an_old_start_cannot_lose_its_end(client: KeyClient) -> None:
    _post(client, start_time=MUCH_TOO_OLD, end_time="2026-06-21T09:00:00Z")
    answer = client.put(f"{PATH}/1", json={"end_time": None})
    assert (answer.status_code, list(answer.json["errors"]["json"])) == (422, ["end_time"])
    assert client.put(f"{PATH}/1", json={"title": "new"}).status_code == 200


def test_past_the_retention_it_is_unknown_before_any_purge(app: Flask, client: KeyClient, clock: Any) -> None:
    _post(client)
    clock.advance(days=90)
    assert client.get(f"{PATH}/1").status_code == 200
    assert len(client.get(PATH).json["annotations"]) == 1
    assert client.get(f"{PATH}/prefixes").json == {"prefixes": [{"prefix": "deploy/", "count": 1}]}

    clock.advance(ms=1)
    assert client.get(f"{PATH}/1").status_code == 404
    assert client.get(PATH).json["annotations"] == []
    assert client.get(PATH, query_string={"start": "2026-01-01T00:00:00Z"}).json["annotations"] == []
    assert client.get(f"{PATH}/prefixes").json == {"prefixes": []}
    assert client.put(f"{PATH}/1", json={"start_time": "2026-09-01T00:00:00Z"}).status_code == 404
    assert client.delete(f"{PATH}/1").status_code == 404
    assert _count_rows(app) == 1


def test_a_band_is_kept_from_its_end(client: KeyClient, clock: Any) -> None:
    _post(client, start_time="2026-06-01T00:00:00Z", end_time="2026-06-21T10:00:00Z")
    clock.advance(days=90)
    assert len(client.get(PATH).json["annotations"]) == 1
    clock.advance(ms=1)
    assert client.get(PATH).json["annotations"] == []


def test_purge_deletes_what_is_past_the_retention_and_nothing_else(app: Flask, client: KeyClient, clock: Any) -> None:
    databases, purge = services(app).tenancy.databases, services(app).background.tasks["purge"].run
    begun = clock.now_ms
    rows = [("a", "t", begun - age, None, begun, begun) for age in range(1, 1501)]
    rows.append(("a", "t", begun - 2000, begun, begun, begun))

    def fill(db: sqlite3.Connection) -> None:
        db.executemany(
            "INSERT INTO annotations (name, title, start_time, end_time, created_at, updated_at)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            rows,
        )

    databases.write(ACME, fill)
    youngest = _post(client).json["id"]
    clock.advance(days=90)
    purge()
    assert _count_rows(app) == 2
    assert client.get(f"{PATH}/{youngest}").status_code == 200
    assert client.get(f"{PATH}/1501").status_code == 200
    clock.advance(ms=1)
    purge()
    assert _count_rows(app) == 0


def test_ids_are_not_given_again_after_a_purge(app: Flask, client: KeyClient, clock: Any) -> None:
    _post(client)
    clock.advance(days=91)
    services(app).background.tasks["purge"].run()
    assert _count_rows(app) == 0
    assert _post(client).json["id"] == 2
