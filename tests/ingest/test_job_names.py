"""Names of jobs: which are valid, and that both forms reach the same job."""

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest

from tests.conftest import KeyClient
from tests.heartbeat.conftest import BASE, Sender

Rows = Callable[..., list[dict[str, Any]]]

GOOD = [
    "a",
    "nightly-backup",
    "db/backup",
    "/db//backup/",
    "start",
    "a/start",
    "log/end",
    "a b",
    "50% off?#&=+;",
    "größe/日本/😀",
    "a" * 200,
    "😀" * 200,
    "a\u2028b",
    ".hidden",
]
BAD = [
    "",
    "a" * 201,
    " a",
    "a ",
    "\u00a0a",
    "a\u3000",
    "a\nb",
    "a\x00b",
    "a\x7fb",
    "ä\x85b",
]


@pytest.mark.parametrize("name", GOOD)
def test_both_forms_reach_the_same_job(by_path: Sender, by_body: Sender, rows: Rows, name: str) -> None:
    started = by_path("start", name)
    assert started.status_code == 200, started.json
    ended = by_body("end", name)
    assert (ended.json["job"], ended.json["run_id"]) == (name, started.json["run_id"])
    assert rows("SELECT name FROM jobs") == [{"name": name}]


@pytest.mark.parametrize("name", GOOD)
def test_a_job_is_found_under_its_name(by_body: Sender, client: KeyClient, name: str) -> None:
    number = by_body("ping", name).json["run_id"]
    path = f"/api/v1/jobs/{quote(name, safe='')}"
    assert client.get(path).json["name"] == name
    assert [run["id"] for run in client.get(f"{path}/runs").json["runs"]] == [number]


@pytest.mark.parametrize("name", BAD)
def test_an_invalid_name_is_rejected(send: Sender, rows: Rows, name: str) -> None:
    answer = send("start", name)
    assert (answer.status_code, answer.json["error"]) == (422, "invalid_field")
    place, field = ("path", "job_name") if send.form == "path" else ("json", "name")
    assert field in answer.json["errors"][place]
    assert rows("SELECT * FROM jobs") == []


@pytest.mark.parametrize("name", [None, 7, True, ["a"], {}, "\ud800"])
def test_a_name_in_the_body_must_be_text(by_body: Sender, name: Any) -> None:
    assert by_body("start", name).status_code == 422


def test_the_body_form_requires_a_name(client: KeyClient) -> None:
    answer = client.post(f"{BASE}/start", json={})
    assert answer.status_code == 422
    assert answer.json is not None
    assert answer.json["errors"] == {"json": {"name": ["Missing data for required field."]}}


def test_an_encoded_slash_is_a_slash(client: KeyClient, rows: Rows) -> None:
    client.post(f"{BASE}/db%2Fbackup/ping")
    client.post(f"{BASE}/db/backup/ping")
    assert rows("SELECT name, run_count FROM jobs") == [{"name": "db/backup", "run_count": 2}]


def test_a_name_in_the_path_that_is_not_utf8_is_rejected(client: KeyClient, rows: Rows) -> None:
    answer = client.post("/", environ_overrides={"PATH_INFO": f"{BASE}/a\xffb/ping"})
    assert answer.status_code == 422
    assert answer.json is not None
    assert answer.json["errors"] == {"path": {"job_name": ["Not valid UTF-8."]}}
    assert rows("SELECT * FROM jobs") == []


def test_the_replacement_character_is_allowed(by_path: Sender, by_body: Sender) -> None:
    assert by_path("ping", "a\ufffdb").json["job"] == by_body("ping", "a\ufffdb").json["job"] == "a\ufffdb"


def test_names_differ_by_case(send: Sender, rows: Rows) -> None:
    send("ping", "Backup")
    send("ping", "backup")
    assert len(rows("SELECT id FROM jobs")) == 2
