"""Two organizations see nothing of each other, and a key does only what its scopes say."""

from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask

from tests.conftest import KeyClient

PATH = "/api/v1/annotations"


def test_another_organizations_annotation_is_unknown(client: KeyClient, other_client: KeyClient) -> None:
    mine = client.post(PATH, json={"name": "deploy/web", "title": "mine"})
    one = mine.headers["Location"]
    assert other_client.get(one).status_code == 404
    assert other_client.put(one, json={"title": "theirs"}).status_code == 404
    assert other_client.delete(one).status_code == 404
    assert other_client.get(PATH).json == {"annotations": [], "next_cursor": None}
    assert other_client.get(f"{PATH}/prefixes").json == {"prefixes": []}
    assert client.get(one).json == mine.json


def test_the_same_id_is_another_annotation_in_another_organization(client: KeyClient, other_client: KeyClient) -> None:
    client.post(PATH, json={"name": "deploy/web", "title": "mine"})
    other_client.post(PATH, json={"name": "deploy/web", "title": "theirs"})
    other_client.delete(f"{PATH}/1")
    assert client.get(f"{PATH}/1").json["title"] == "mine"


def test_a_cursor_of_another_organization_shows_nothing_of_it(client: KeyClient, other_client: KeyClient) -> None:
    for title in ("one", "two"):
        client.post(PATH, json={"name": "a", "title": title})
    cursor = client.get(PATH, query_string={"limit": 1}).json["next_cursor"]
    assert other_client.get(PATH, query_string={"cursor": cursor}).json["annotations"] == []


CALLS = [
    ("GET", PATH, "annotations:read"),
    ("GET", f"{PATH}/prefixes", "annotations:read"),
    ("GET", f"{PATH}/1", "annotations:read"),
    ("POST", PATH, "annotations:write"),
    ("PUT", f"{PATH}/1", "annotations:write"),
    ("DELETE", f"{PATH}/1", "annotations:write"),
]


@pytest.mark.parametrize(("method", "path", "scope"), CALLS)
def test_a_key_without_the_scope_is_refused_before_the_body_is_read(
    new_client: Callable[..., Any], method: str, path: str, scope: str
) -> None:
    others = {"annotations:read", "annotations:write", "query:read", "heartbeat:write"} - {scope}
    answer = new_client("acme", *others).open(path, method=method, data="no json")
    assert (answer.status_code, answer.json["error"]) == (403, "missing_scope")
    assert new_client("acme", scope).open(path, method=method).status_code in (200, 404, 422)


@pytest.mark.parametrize(("method", "path", "scope"), CALLS)
def test_no_key_is_unauthorized(app: Flask, method: str, path: str, scope: str) -> None:
    answer = KeyClient(app).open(path, method=method, data="no json")
    assert (answer.status_code, answer.json["error"]) == (401, "unauthorized")
