"""Log messages: at most 10,240 bytes of text, stored unchanged."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.conftest import KeyClient
from tests.heartbeat.conftest import BASE, Sender

Rows = Callable[..., list[dict[str, Any]]]
MOST = 10_240
LOG = f"{BASE}/backup/log"


def _stored(rows: Rows) -> list[str | None]:
    return [row["message"] for row in rows("SELECT message FROM events ORDER BY id")]


@pytest.mark.parametrize("text", ["a" * MOST, "ü" * (MOST // 2), "😀" * (MOST // 4), "\x00" * MOST])
def test_10240_bytes_are_accepted(client: KeyClient, by_body: Sender, rows: Rows, text: str) -> None:
    assert client.post(LOG, data=text.encode()).status_code == 200
    assert by_body("log", message=text).status_code == 200
    assert _stored(rows) == [text, text]


@pytest.mark.parametrize("text", ["a" * (MOST + 1), "ü" * (MOST // 2) + "a", "😀" * (MOST // 4) + "a"])
def test_10241_bytes_are_rejected(client: KeyClient, by_body: Sender, rows: Rows, text: str) -> None:
    for answer in (client.post(LOG, data=text.encode()), by_body("log", message=text)):
        assert answer.status_code == 413
        assert answer.json is not None
        assert answer.json["error"] == "log_too_large"
        assert "10241" in answer.json["message"]
        assert "10240" in answer.json["message"]
    assert rows("SELECT * FROM events") == rows("SELECT * FROM jobs") == []


@pytest.mark.parametrize("kind", ["end", "ping"])
def test_end_and_ping_have_the_same_limit(client: KeyClient, rows: Rows, kind: str) -> None:
    client.post(f"{BASE}/backup/start")
    assert client.post(f"{BASE}/backup/{kind}", data=b"a" * (MOST + 1)).status_code == 413
    assert rows("SELECT status FROM runs") == [{"status": 0}]


def test_a_body_of_more_than_1_mb_is_rejected(client: KeyClient, rows: Rows) -> None:
    answer = client.post(f"{BASE}/log", data=b'{"name": "' + b"a" * (1 << 20) + b'"}', content_type="application/json")
    assert answer.status_code == 413
    assert answer.json is not None
    assert answer.json["error"] == "body_too_large"
    assert str(1 << 20) in answer.json["message"]
    assert str((1 << 20) + 12) in answer.json["message"]
    assert rows("SELECT * FROM events") == []


@pytest.mark.parametrize(
    "content_type",
    [
        None,
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/json",
        "multipart/form-data; boundary=x",
        "",
    ],
)
def test_the_body_is_text_whatever_its_content_type(client: KeyClient, rows: Rows, content_type: str | None) -> None:
    assert client.post(LOG, data=b'{"a": 1}&b=%20', content_type=content_type).status_code == 200
    assert _stored(rows) == ['{"a": 1}&b=%20']


@pytest.mark.parametrize("text", ["a\x00b", "\r\n\t\x1b[1m", "\ufeffbom", "  spaces  ", "\u2028\U0010ffff"])
def test_every_character_is_stored_unchanged(client: KeyClient, send: Sender, rows: Rows, text: str) -> None:
    started = send("start").json["run_id"]
    if send.form == "path":
        client.post(LOG, data=text.encode())
    else:
        send("log", message=text)
    assert _stored(rows)[-1] == text
    timeline = client.get(f"/api/v1/runs/{started}").json["timeline"]
    assert timeline[-1]["message"] == text


def test_bytes_that_are_not_utf8_are_replaced(client: KeyClient, rows: Rows) -> None:
    assert client.post(LOG, data=b"before \xff\xfe after \xc3").status_code == 200
    assert _stored(rows) == ["before \ufffd\ufffd after \ufffd"]


def test_the_limit_applies_to_the_bytes_sent(client: KeyClient, rows: Rows) -> None:
    assert client.post(LOG, data=b"\xff" * MOST).status_code == 200
    assert _stored(rows) == ["\ufffd" * MOST]


def test_half_a_surrogate_pair_in_json_is_replaced(by_body: Sender, rows: Rows) -> None:
    assert by_body("log", message="a\ud800b").status_code == 200
    assert len(_stored(rows)) == 1


def test_the_path_form_accepts_an_empty_log(client: KeyClient, rows: Rows) -> None:
    assert client.post(LOG).status_code == 200
    assert _stored(rows) == [""]


@pytest.mark.parametrize("fields", [{}, {"message": None}])
def test_the_body_form_requires_the_message_of_a_log(by_body: Sender, rows: Rows, fields: dict[str, Any]) -> None:
    answer = by_body("log", **fields)
    assert answer.status_code == 422
    assert answer.json["errors"] == {"json": {"message": ["Missing data for required field."]}}
    assert rows("SELECT * FROM jobs") == []


@pytest.mark.parametrize("message", [1, True, ["a"], {"a": 1}])
def test_a_message_in_json_must_be_text(by_body: Sender, message: Any) -> None:
    assert by_body("log", message=message).status_code == 422


def test_a_message_in_both_the_query_string_and_the_body_is_rejected(client: KeyClient) -> None:
    assert client.post(f"{LOG}?message=a", data=b"b").status_code == 422


@pytest.mark.parametrize("kind", ["end", "ping"])
def test_the_body_of_end_and_ping_is_their_message(client: KeyClient, rows: Rows, kind: str) -> None:
    client.post(f"{BASE}/backup/{kind}", data=b"copied 412 files")
    assert _stored(rows) == ["copied 412 files"]
