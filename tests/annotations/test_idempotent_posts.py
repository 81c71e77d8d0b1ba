"""Posting the same annotation again, as a CI job does that is run twice."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from flask import Flask

from tests.conftest import KeyClient

PATH = "/api/v1/annotations"
DEPLOY = {"name": "deploy/web", "title": "Web 2.14.0 is out", "idempotency_key": "build-8121"}


def test_the_same_key_answers_the_first_annotation_and_makes_none(client: KeyClient, clock: Any) -> None:
    first = client.post(PATH, json=DEPLOY)
    clock.advance(minutes=5)
    again = client.post(PATH, json={**DEPLOY, "title": "Another title"})
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json == first.json
    assert again.headers["ETag"] == first.headers["ETag"]
    assert again.headers["Location"] == first.headers["Location"]
    assert client.get(PATH).json["annotations"] == [first.json]


def test_other_keys_and_no_key_make_others(client: KeyClient) -> None:
    client.post(PATH, json=DEPLOY)
    for key in ("build-8122", "BUILD-8121", None, None):
        assert client.post(PATH, json={**DEPLOY, "idempotency_key": key}).status_code == 201
    assert len(client.get(PATH).json["annotations"]) == 5


def test_the_key_of_a_deleted_annotation_is_free(client: KeyClient) -> None:
    first = client.post(PATH, json=DEPLOY)
    client.delete(first.headers["Location"])
    again = client.post(PATH, json=DEPLOY)
    assert (again.status_code, again.json["id"]) == (201, 2)


def test_the_key_of_an_annotation_past_retention_is_free(client: KeyClient, clock: Any) -> None:
    client.post(PATH, json=DEPLOY)
    clock.advance(days=90)
    assert client.post(PATH, json=DEPLOY).status_code == 200
    clock.advance(ms=1)
    again = client.post(PATH, json=DEPLOY)
    assert (again.status_code, again.json["id"]) == (201, 2)


def test_a_key_counts_within_one_organization(client: KeyClient, other_client: KeyClient) -> None:
    client.post(PATH, json=DEPLOY)
    assert other_client.post(PATH, json=DEPLOY).status_code == 201


def test_of_many_posts_at_once_one_makes_it(app: Flask, client: Any) -> None:
    def post(_: int) -> tuple[int, int]:
        answer = KeyClient(app).post(PATH, json=DEPLOY, headers={"X-API-Key": client.key})
        return answer.status_code, answer.json["id"]

    with ThreadPoolExecutor(8) as pool:
        answers = sorted(pool.map(post, range(24)))
    assert answers == [(200, 1)] * 23 + [(201, 1)]
