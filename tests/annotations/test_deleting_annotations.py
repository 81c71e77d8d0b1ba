"""Deleting an annotation, and ids that name none."""

import pytest
from flask import Flask

from obs.services import services
from tests.conftest import ACME, KeyClient

PATH = "/api/v1/annotations"
UNKNOWN_IDS = ("2", "0", str(2**63 - 1), str(2**63), str(2**64 + 1), "9" * 300)


def test_deleted_is_gone(app: Flask, client: KeyClient) -> None:
    for title in ("stays", "goes"):
        client.post(PATH, json={"name": "a", "title": title})
    answer = client.delete(f"{PATH}/2")
    assert (answer.status_code, answer.data) == (204, b"")
    assert client.delete(f"{PATH}/2").status_code == 404
    assert client.get(f"{PATH}/2").status_code == 404
    assert [each["title"] for each in client.get(PATH).json["annotations"]] == ["stays"]
    with services(app).tenancy.databases.read(ACME) as db:
        assert [tuple(row) for row in db.execute("SELECT id FROM annotations")] == [(1,)]


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_an_unknown_id_is_not_found(client: KeyClient, method: str) -> None:
    client.post(PATH, json={"name": "a", "title": "t"})
    body = {"json": {"title": "new"}} if method == "PUT" else {}
    for unknown in UNKNOWN_IDS:
        answer = client.open(f"{PATH}/{unknown}", method=method, **body)
        assert (answer.status_code, answer.json["error"]) == (404, "annotation_not_found"), unknown
    assert client.get(f"{PATH}/1").json["title"] == "t"


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_what_is_no_id_is_not_found(client: KeyClient, method: str) -> None:
    client.post(PATH, json={"name": "a", "title": "t"})
    for odd in ("-1", "1.0", "abc", "1%00", "01%2F"):
        assert client.open(f"{PATH}/{odd}", method=method, json={"title": "new"}).status_code == 404, odd
    assert client.get(f"{PATH}/1").json["title"] == "t"


def test_an_id_longer_than_any_number_is_not_found(client: KeyClient) -> None:
    assert client.get(f"{PATH}/{'9' * 5000}").status_code == 404
