"""Names of jobs: which are valid, and that both forms reach the same job."""

import sqlite3
from collections.abc import Callable
from functools import partial
from typing import Any
from urllib.parse import quote

import pytest
from flask import Flask

from obs.services import services
from tests.conftest import ACME, KeyClient
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
    "team 👩🏽 ❤️",
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
    *(
        f"back{character}up"
        for character in "\u200b\u200c\u200d\u200e\u202e\u2066\u2060\xad\ufeff\u061c\u034f\u3164\U000e0041"
    ),
    "backup\u200b",
    "日\u200d本",
    "😀\u200d",
    "می\u200cخواهم",  # Persian  # noqa: RUF001
    "team 👩🏽\u200d💻 ❤️\u200d🔥",
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


NFC, NFD = "gr\u00f6\u00dfe", "gro\u0308\u00dfe"


def test_names_that_differ_only_in_their_unicode_form_are_one_job(
    client: KeyClient, by_path: Sender, by_body: Sender, rows: Rows
) -> None:
    for send in (by_path, by_body):
        for name in (NFD, NFC):
            assert send("ping", name).json["job"] == NFC
    assert rows("SELECT name, run_count FROM jobs") == [{"name": NFC, "run_count": 4}]
    for name in (NFD, NFC):
        assert client.get(f"/api/v1/jobs/{quote(name)}").json["name"] == NFC
        assert len(client.get(f"/api/v1/jobs/{quote(name)}/runs").json["runs"]) == 4


@pytest.mark.parametrize("text", [NFC, NFD])
def test_filters_find_names_in_any_unicode_form(
    new_client: Callable[..., KeyClient], by_path: Sender, text: str
) -> None:
    admin = new_client("acme", "admin", "query:read")
    by_path("ping", NFC)
    for name in ("q", "prefix"):
        found = admin.get("/api/v1/jobs", query_string={name: text}).json["jobs"]
        assert [job["name"] for job in found] == [NFC]
    window = {"start_time": "2026-06-21T09:00:00Z", "end_time": "2026-06-21T12:00:00Z", "title": "x"}
    assert admin.post("/api/v1/maintenance", json={**window, "job_prefix": text}).json["job_prefix"] == NFC
    channel = {"name": "x", "url": "json://example.com", "job_prefix": text}
    assert admin.post("/api/v1/channels", json=channel).json["job_prefix"] == NFC
    assert admin.delete("/api/v1/jobs", query_string={"prefix": text}).json["deleted"] == 1


def test_a_new_name_is_normalized_and_has_no_invisible_characters(
    new_client: Callable[..., KeyClient], by_path: Sender
) -> None:
    admin = new_client("acme", "admin")
    by_path("ping", "a")
    assert admin.patch("/api/v1/jobs/a", json={"name": NFD}).json["name"] == NFC
    refused = admin.patch(f"/api/v1/jobs/{quote(NFD)}", json={"name": "a\u200bb"})
    assert refused.status_code == 422
    assert refused.json["errors"] == {"json": {"name": ["Must not contain the invisible character U+200B."]}}
    joined = admin.patch(f"/api/v1/jobs/{quote(NFD)}", json={"name": "team 👩\u200d💻"})
    message = "name: Must not contain the invisible character U+200D, which joins letters, or several emoji into one."
    assert (joined.status_code, joined.json["message"]) == (422, message)


def test_duplicates_of_an_earlier_version_can_be_read_and_deleted(
    app: Flask, new_client: Callable[..., KeyClient], by_path: Sender, rows: Rows
) -> None:
    admin = new_client("acme", "admin")
    for old in ("x", "y", NFC):
        by_path("ping", old)
    for old, new in (("x", NFD), ("y", "zero\u200bwidth")):
        change = partial(_rename, old=old, new=new)
        services(app).tenancy.databases.write(ACME, change)
    for name in (NFD, "zero\u200bwidth"):
        path = f"/api/v1/jobs/{quote(name)}"
        assert admin.get(path).json["name"] == name
        assert admin.delete(path).status_code == 204
    assert rows("SELECT name FROM jobs") == [{"name": NFC}]


def _rename(db: sqlite3.Connection, old: str, new: str) -> None:
    db.execute("UPDATE jobs SET name = ? WHERE name = ?", (new, old))


def test_a_job_whose_name_ends_with_runs_is_read_under_its_name(client: KeyClient, by_path: Sender) -> None:
    by_path("ping", "nas/runs")
    for path in ("/api/v1/jobs/nas/runs", "/api/v1/jobs/nas%2Fruns"):
        assert client.get(path).json["name"] == "nas/runs"
    assert len(client.get("/api/v1/jobs/nas/runs/runs").json["runs"]) == 1
    by_path("ping", "nas")
    assert len(client.get("/api/v1/jobs/nas/runs").json["runs"]) == 1
    assert [job["name"] for job in client.get("/api/v1/jobs?q=nas/runs").json["jobs"]] == ["nas/runs"]
    assert client.get("/api/v1/jobs/other/runs").status_code == 404
