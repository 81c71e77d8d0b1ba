"""Posting an annotation."""

import pytest
from flask import Flask

from obs.annotations.schemas import AnnotationRequestSchema
from obs.services import services
from tests.conftest import ACME, KeyClient

PATH = "/api/v1/annotations"


def test_a_name_and_a_title_make_a_marker_at_the_moment_of_the_request(app: Flask, client: KeyClient) -> None:
    answer = client.post(PATH, json={"name": "deploy/web", "title": "Web 2.14.0 is out"})
    assert answer.status_code == 201
    assert answer.json == {
        "id": 1,
        "name": "deploy/web",
        "title": "Web 2.14.0 is out",
        "start_time": "2026-06-21T10:00:00.000Z",
        "end_time": None,
        "description": None,
        "url": None,
        "idempotency_key": None,
        "created_at": "2026-06-21T10:00:00.000Z",
        "updated_at": "2026-06-21T10:00:00.000Z",
        "by_service": False,
    }
    with services(app).tenancy.databases.read(ACME) as db:
        rows = [tuple(row) for row in db.execute("SELECT name, title, start_time, end_time FROM annotations")]
    assert rows == [("deploy/web", "Web 2.14.0 is out", 1782036000000, None)]


def test_all_fields_come_back(client: KeyClient) -> None:
    fields = {
        "name": "incident/checkout",
        "title": "Checkout is down",
        "start_time": "2026-06-20T08:00:00.000Z",
        "end_time": "2026-06-20T09:30:00.250Z",
        "description": "Card payments failed.",
        "url": "http://localhost:8080/incidents/7?from=a&to=b#top",
        "idempotency_key": "incident-7",
    }
    answer = client.post(PATH, json=fields)
    assert answer.status_code == 201
    assert fields.items() <= answer.json.items()


def test_location_is_the_path_of_the_annotation(client: KeyClient) -> None:
    answer = client.post(PATH, json={"name": "app/web", "title": "Feature on"})
    assert answer.headers["Location"] == f"{PATH}/1"
    fetched = client.get(answer.headers["Location"])
    assert (fetched.json, fetched.headers["ETag"]) == (answer.json, answer.headers["ETag"])


def test_times_with_an_offset_are_answered_in_utc(client: KeyClient) -> None:
    answer = client.post(PATH, json={"name": "a", "title": "t", "start_time": "2026-06-21T10:00:00+02:00"})
    assert answer.json["start_time"] == "2026-06-21T08:00:00.000Z"


def test_null_is_the_same_as_not_sent(client: KeyClient) -> None:
    optional = ("start_time", "end_time", "description", "url", "idempotency_key")
    answer = client.post(PATH, json={"name": "a", "title": "t", **dict.fromkeys(optional)})
    assert answer.status_code == 201
    assert answer.json["start_time"] == "2026-06-21T10:00:00.000Z"


def test_a_band_may_be_of_no_length(client: KeyClient) -> None:
    moment = "2026-06-21T09:00:00.000Z"
    answer = client.post(PATH, json={"name": "a", "title": "t", "start_time": moment, "end_time": moment})
    assert (answer.status_code, answer.json["end_time"]) == (201, moment)


def test_an_end_before_the_start_is_refused(client: KeyClient) -> None:
    times = {"start_time": "2026-06-21T10:00:00Z", "end_time": "2026-06-21T09:59:59.999Z"}
    answer = client.post(PATH, json={"name": "a", "title": "t", **times})
    assert (answer.status_code, answer.json["error"]) == (422, "invalid_field")
    assert answer.json["errors"] == {"json": {"end_time": ["Must not be before start_time."]}}
    assert "2026-06-21T10:00:00.000Z" in answer.json["hint"]
    assert client.get(PATH).json["annotations"] == []


@pytest.mark.parametrize("start", [{}, {"start_time": None}])
def test_an_end_without_a_start_is_refused(client: KeyClient, start: dict[str, None]) -> None:
    answer = client.post(PATH, json={"name": "a", "title": "t", "end_time": "2026-06-21T11:00:00Z", **start})
    assert answer.status_code == 422
    assert "start_time" in answer.json["errors"]["json"]


REFUSED = [
    ("name", ""),
    ("name", "x" * 201),
    ("name", None),
    ("name", 7),
    ("title", ""),
    ("title", "x" * 501),
    ("title", ["t"]),
    ("description", "x" * 4001),
    ("description", False),
    ("start_time", 1782036000000),
    ("start_time", "yesterday"),
    ("start_time", "2026-13-01T00:00:00Z"),
    ("start_time", "1969-12-31T23:59:59Z"),
    ("end_time", "-1h"),
    ("url", ""),
    ("url", "ci.example.com/1"),
    ("url", "javascript:alert(1)"),
    ("url", "java\tscript:alert(1)"),
    ("url", "ftp://example.com/"),
    ("url", "http://"),
    ("url", "http://[::1"),
    ("url", "http://example.com:99999/"),
    ("url", "https://example.com/a b"),
    ("url", "https://example.com/" + "x" * 2000),
    ("idempotency_key", ""),
    ("idempotency_key", "x" * 201),
    ("idempotency_key", 12),
    ("endtime", "2026-06-21T10:00:00Z"),
    ("id", 3),
]


def test_what_a_field_cannot_hold_is_refused_by_its_name(client: KeyClient) -> None:
    for field, value in REFUSED:
        body = {"name": "a", "title": "t", "start_time": "2026-06-21T09:00:00Z", field: value}
        answer = client.post(PATH, json=body)
        assert (answer.status_code, answer.json["error"]) == (422, "invalid_field"), body
        assert list(answer.json["errors"]["json"]) == [field], body
    assert client.get(PATH).json["annotations"] == []


def test_name_and_title_are_required(client: KeyClient) -> None:
    answer = client.post(PATH)
    assert answer.status_code == 422
    assert set(answer.json["errors"]["json"]) == {"name", "title"}


ODD_TEXTS = [
    ("name", "ü" * 200),
    ("title", "\N{ROCKET}" * 500),
    ("title", "a\0b"),
    ("description", "x" * 4000),
    ("description", "line\nline\r\n\t\x7f"),
    ("url", "https://bücher.example/ä"),
]


def test_text_comes_back_as_it_went_in(client: KeyClient) -> None:
    for field, value in ODD_TEXTS:
        created = client.post(PATH, json={"name": "a", "title": "t", field: value})
        assert created.status_code == 201, value
        assert client.get(f"{PATH}/{created.json['id']}").json[field] == value


TEXTS = ["name", "title", "description", "url", "idempotency_key"]


def test_half_of_a_surrogate_pair_is_refused(client: KeyClient) -> None:
    for field in TEXTS:
        body = {"name": '"a"', "title": '"t"', field: r'"http://a/\ud83d"'}
        text = "{" + ",".join(f'"{name}":{value}' for name, value in body.items()) + "}"
        answer = client.post(PATH, data=text, content_type="application/json")
        assert (answer.status_code, list(answer.json["errors"]["json"])) == (422, [field])


NO_OBJECTS = ["[]", "{", "null", '{"name": NaN}', "[" * 100_000, '{"name": ' + "9" * 5000 + "}"]


def test_a_body_that_is_no_json_object_is_refused(client: KeyClient) -> None:
    for body in NO_OBJECTS:
        answer = client.post(PATH, data=body, content_type="application/json")
        assert (answer.status_code, answer.json["error"]) == (400, "invalid_json"), body[:50]


def test_a_body_of_another_type_is_refused(client: KeyClient) -> None:
    answer = client.post(PATH, data={"name": "a", "title": "t"})
    assert (answer.status_code, answer.json["error"]) == (415, "unsupported_media_type")


def test_ids_are_never_given_again(client: KeyClient) -> None:
    for title in ("first", "second"):
        client.post(PATH, json={"name": "a", "title": title})
    assert client.delete(f"{PATH}/2").status_code == 204
    assert client.post(PATH, json={"name": "a", "title": "third"}).json["id"] == 3


def test_every_field_of_the_request_is_stored(client: KeyClient) -> None:
    # A web address is a valid value of every text.
    fields = dict.fromkeys(AnnotationRequestSchema().fields, "https://ci.example.com/builds/8121")
    fields |= {"start_time": "2026-06-21T09:00:00.000Z", "end_time": "2026-06-21T09:30:00.000Z"}
    created = client.post(PATH, json=fields)
    assert created.status_code == 201
    stored = client.get(f"{PATH}/{created.json['id']}").json
    assert {name: stored[name] for name in fields} == fields
