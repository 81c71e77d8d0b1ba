"""Pushes of Uptime Kuma: a run with a message and a duration."""

import json

import pytest
from flask.testing import FlaskClient

from tests.ingest.conftest import ID, LOG, Rows


@pytest.mark.parametrize("method", ["GET", "POST", "HEAD", "PUT"])
def test_a_push_is_a_run_with_its_log_and_its_duration(
    web: FlaskClient, ping_url: str, rows: Rows, method: str
) -> None:
    uuid = ping_url.rpartition("/")[2]
    up = web.open(f"/api/push/{uuid}?status=up&msg=OK&ping=123.4", method=method)
    down = web.open(f"/api/push/{uuid}?status=down&msg=no%20spa%C3%A7e&ping=", method=method)
    assert (up.status_code, down.status_code) == (200, 200)
    if method != "HEAD":
        assert json.loads(up.text) == {"ok": True}
    found = rows("SELECT status, duration_ms FROM runs WHERE id > 1 ORDER BY id")
    assert found == [{"status": 1, "duration_ms": 123}, {"status": 2, "duration_ms": None}]
    assert [row["message"] for row in rows(LOG)[1:]] == ["OK", "no spaçe"]


@pytest.mark.parametrize("token", [ID, "IzSDQwlqh0", "", "x/y"])
def test_an_unknown_push_url_is_not_found(web: FlaskClient, ping_key: str, token: str) -> None:
    for path in (f"/api/push/{token}", f"/api/push/{ping_key}"):
        response = web.get(path)
        assert response.status_code == 404
        assert json.loads(response.text)["ok"] is False
