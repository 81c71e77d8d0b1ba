"""Changing an annotation, and doing so only if nobody else has."""

from typing import Any

import pytest

from tests.conftest import KeyClient

PATH = "/api/v1/annotations"
ONE = f"{PATH}/1"


@pytest.fixture
def band(client: KeyClient) -> Any:
    """The answer to posting a band of 08:00 to 09:00."""
    return client.post(
        PATH,
        json={
            "name": "incident/checkout",
            "title": "Checkout is down",
            "start_time": "2026-06-21T08:00:00Z",
            "end_time": "2026-06-21T09:00:00Z",
            "description": "Cards fail.",
            "url": "https://status.example.com/7",
            "idempotency_key": "incident-7",
        },
    )


def test_only_what_is_sent_changes(client: KeyClient, clock: Any, band: Any) -> None:
    clock.advance(minutes=1)
    answer = client.put(ONE, json={"title": "Checkout was down"})
    assert answer.status_code == 200
    assert answer.json == {**band.json, "title": "Checkout was down", "updated_at": "2026-06-21T10:01:00.000Z"}
    assert client.get(ONE).json == answer.json


def test_every_field_can_change(client: KeyClient, band: Any) -> None:
    changes = {
        "name": "incident/search",
        "title": "Search is down",
        "start_time": "2026-06-20T08:00:00.000Z",
        "end_time": "2026-06-20T08:30:00.000Z",
        "description": "No results.",
        "url": "http://status/8",
    }
    assert client.put(ONE, json=changes).json == {**band.json, **changes}


def test_an_incident_is_closed_and_opened_again(client: KeyClient) -> None:
    client.post(PATH, json={"name": "incident/a", "title": "t"})
    closed = client.put(ONE, json={"end_time": "2026-06-21T10:30:00Z"})
    assert closed.json["end_time"] == "2026-06-21T10:30:00.000Z"
    opened = client.put(ONE, json={"end_time": None})
    assert (opened.status_code, opened.json["end_time"]) == (200, None)


def test_description_and_url_can_be_taken_away(client: KeyClient, band: Any) -> None:
    assert client.put(ONE, json={"description": None, "url": None}).json == {
        **band.json,
        "description": None,
        "url": None,
    }


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"end_time": "2026-06-21T07:59:59Z"}, "end_time"),
        ({"start_time": "2026-06-21T09:00:01Z"}, "start_time"),
        ({"start_time": "2026-06-21T09:30:00Z", "end_time": "2026-06-21T09:29:00Z"}, "end_time"),
    ],
)
def test_an_end_before_the_start_is_refused_also_against_what_is_stored(
    client: KeyClient, band: Any, changes: dict[str, str], field: str
) -> None:
    answer = client.put(ONE, json=changes)
    assert (answer.status_code, list(answer.json["errors"]["json"])) == (422, [field])
    assert client.get(ONE).json == band.json


def test_both_ends_can_move_past_the_stored_ones_together(client: KeyClient, band: Any) -> None:
    later = {"start_time": "2026-06-21T12:00:00.000Z", "end_time": "2026-06-21T13:00:00.000Z"}
    assert client.put(ONE, json=later).json == {**band.json, **later}


@pytest.mark.parametrize("body", [{}, None])
def test_nothing_to_change_is_refused(client: KeyClient, band: Any, body: Any) -> None:
    answer = client.put(ONE, json=body) if body is not None else client.put(ONE)
    assert (answer.status_code, answer.json["error"]) == (422, "invalid_field")


REFUSED = [
    ("name", None),
    ("name", "x" * 201),
    ("title", None),
    ("start_time", None),
    ("idempotency_key", "other"),
    ("id", 2),
    ("endtime", None),
    ("url", "data:text/html,x"),
]


def test_what_cannot_change_is_refused_by_its_name(client: KeyClient, band: Any) -> None:
    for field, value in REFUSED:
        answer = client.put(ONE, json={field: value})
        assert (answer.status_code, list(answer.json["errors"]["json"])) == (422, [field]), value
    assert client.get(ONE).json == band.json


def test_the_etag_changes_with_every_change_even_within_a_millisecond(client: KeyClient, band: Any) -> None:
    etags = {band.headers["ETag"]}
    etags.update(client.put(ONE, json={"title": title}).headers["ETag"] for title in ("one", "two"))
    assert len(etags) == 3
    assert client.get(ONE).headers["ETag"] in etags


@pytest.mark.parametrize("pattern", ["{0}", "*", '"other", {0}', '"other" , "more",{0}'])
def test_if_match_lets_the_current_version_through(client: KeyClient, band: Any, pattern: str) -> None:
    if_match = {"If-Match": pattern.format(band.headers["ETag"])}
    assert client.put(ONE, json={"title": "new"}, headers=if_match).status_code == 200


@pytest.mark.parametrize("pattern", ['"other"', "W/{0}", '"other", W/{0}', ""])
@pytest.mark.parametrize("method", ["PUT", "DELETE"])
def test_if_match_of_another_or_a_weak_version_is_refused(
    client: KeyClient, band: Any, method: str, pattern: str
) -> None:
    body = {"json": {"title": "new"}} if method == "PUT" else {}
    if_match = {"If-Match": pattern.format(band.headers["ETag"])}
    answer = client.open(ONE, method=method, headers=if_match, **body)
    assert (answer.status_code, answer.json["error"]) == (412, "precondition_failed")
    assert client.get(ONE).json == band.json


def test_the_second_of_two_writers_with_the_same_version_is_refused(client: KeyClient, band: Any) -> None:
    if_match = {"If-Match": band.headers["ETag"]}
    assert client.put(ONE, json={"title": "mine"}, headers=if_match).status_code == 200
    assert client.put(ONE, json={"title": "yours"}, headers=if_match).status_code == 412
    assert client.get(ONE).json["title"] == "mine"
