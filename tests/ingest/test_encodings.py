"""Bodies that are compressed, or in another charset than UTF-8, are read as what they contain, or refused."""

import gzip
import json
import tracemalloc
import zlib
from collections.abc import Callable
from io import BytesIO
from typing import Any

import brotli
import pytest

from tests.conftest import KeyClient
from tests.heartbeat.conftest import BASE

Rows = Callable[..., list[dict[str, Any]]]
LOG, BY_NAME, ANNOTATIONS = f"{BASE}/backup/log", f"{BASE}/log", "/api/v1/annotations"
MB = 1 << 20
GZIPPED, BROTLI = gzip.compress(b"text", mtime=0), brotli.compress(b"text" * 50)
COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "deflate": zlib.compress,
    "br": brotli.compress,
    "identity": bytes,
    "": bytes,
}


def _chunks(text: bytes) -> dict[str, Any]:
    return {
        "input_stream": BytesIO(text),
        "environ_overrides": {"wsgi.input_terminated": True, "HTTP_TRANSFER_ENCODING": "chunked"},
    }


def _messages(rows: Rows) -> list[str | None]:
    return [row["message"] for row in rows("SELECT message FROM events ORDER BY id")]


@pytest.mark.parametrize("coding", ["gzip", "GZIP", "x-gzip", "deflate", "br", "identity", ""])
def test_a_compressed_body_is_decompressed(client: KeyClient, rows: Rows, coding: str) -> None:
    compress = COMPRESS.get(coding, gzip.compress)
    headers = {"Content-Encoding": coding}
    as_json = json.dumps({"name": "backup", "message": "Grüße"}).encode()
    annotation = json.dumps({"name": "deploy", "title": "Grüße"}).encode()
    assert client.post(LOG, data=compress("Grüße".encode()), headers=headers).status_code == 200
    assert client.post(LOG, headers=headers, **_chunks(compress("Grüße".encode()))).status_code == 200
    sent: dict[str, Any] = {"headers": headers, "content_type": "application/json"}
    assert client.post(BY_NAME, data=compress(as_json), **sent).status_code == 200
    assert client.post(ANNOTATIONS, data=compress(annotation), **sent).json["title"] == "Grüße"
    assert _messages(rows) == ["Grüße"] * 3


@pytest.mark.parametrize("coding", ["zstd", "compress", "gzip, gzip", "nonsense"])
@pytest.mark.parametrize("path", [LOG, BY_NAME, ANNOTATIONS])
def test_another_encoding_is_refused_by_its_name(client: KeyClient, rows: Rows, path: str, coding: str) -> None:
    headers = {"Content-Encoding": coding}
    answer = client.post(path, data=b'{"name": "a"}', headers=headers, content_type="application/json")
    assert (answer.status_code, answer.json["error"]) == (415, "unsupported_media_type")
    assert coding in answer.json["message"]
    assert answer.headers["Accept-Encoding"] == "gzip, deflate, br"
    assert rows("SELECT * FROM jobs") == rows("SELECT * FROM annotations") == []


@pytest.mark.parametrize(
    ("coding", "body"),
    [
        *[("gzip", body) for body in (b"plain text", GZIPPED[:-1], GZIPPED[:8], GZIPPED + b"more", GZIPPED * 2)],
        ("gzip", GZIPPED[:-5] + b"xxxxx"),
        *[("br", body) for body in (b"plain text", BROTLI[:-1], BROTLI + b"more")],
    ],
)
@pytest.mark.parametrize("path", [LOG, ANNOTATIONS])
def test_damaged_data_is_refused(client: KeyClient, rows: Rows, path: str, coding: str, body: bytes) -> None:
    headers = {"Content-Encoding": coding}
    answer = client.post(path, data=body, headers=headers, content_type="application/json")
    assert (answer.status_code, answer.json["error"]) == (400, "bad_request")
    assert rows("SELECT * FROM jobs") == rows("SELECT * FROM annotations") == []


@pytest.mark.parametrize("coding", ["gzip", "br"])
@pytest.mark.parametrize(
    ("size", "path", "error"),
    [
        (100 * MB, LOG, "body_too_large"),
        (100 * MB, BY_NAME, "body_too_large"),
        (100 * MB, ANNOTATIONS, "body_too_large"),
        (MB + 1, LOG, "body_too_large"),
        (MB, LOG, "log_too_large"),
        (10 * 1024 + 1, LOG, "log_too_large"),
    ],
)
def test_the_limits_are_those_of_the_decompressed_body(
    client: KeyClient, rows: Rows, coding: str, size: int, path: str, error: str
) -> None:
    bomb = COMPRESS.get(coding, gzip.compress)(b"a" * size)
    assert len(bomb) < MB
    tracemalloc.start()
    answer = client.post(path, data=bomb, headers={"Content-Encoding": coding}, content_type="application/json")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (answer.status_code, answer.json["error"]) == (413, error)
    assert peak < 10 * MB
    assert rows("SELECT * FROM jobs") == rows("SELECT * FROM annotations") == []


@pytest.mark.parametrize(
    ("charset", "text"),
    [
        ("iso-8859-1", "Grüße"),
        ("ISO-8859-15", "5 €"),
        ('"windows-1252"', "„5 €“"),
        ("utf-16", "😀"),
        ("shift_jis", "日本"),
        ("koi8-r", "готово"),
        ("utf-8", "Grüße"),
        ("UTF8", "Grüße"),
    ],
)
def test_a_declared_charset_is_decoded(client: KeyClient, rows: Rows, charset: str, text: str) -> None:
    def sent(content: str) -> bytes:
        return content.encode(charset.strip('"'))

    plain, as_json = f"text/plain; charset={charset}", f"application/json; charset={charset}"
    assert client.post(LOG, data=sent(text), content_type=plain).status_code == 200
    body = sent(json.dumps({"name": "backup", "message": text}, ensure_ascii=False))
    assert client.post(BY_NAME, data=body, content_type=as_json).status_code == 200
    body = gzip.compress(sent(json.dumps({"name": "deploy", "title": text}, ensure_ascii=False)))
    answer = client.post(ANNOTATIONS, data=body, content_type=as_json, headers={"Content-Encoding": "gzip"})
    assert answer.json["title"] == text
    assert _messages(rows) == [text, text]


def test_ascii_that_is_utf_8_is_kept(client: KeyClient, rows: Rows) -> None:
    assert client.post(LOG, data="Grüße".encode(), content_type="text/plain; charset=us-ascii").status_code == 200
    assert _messages(rows) == ["Grüße"]


@pytest.mark.parametrize(
    "charset", ["ebcdic-klingon", "hex", "zlib", "rot13", "idna", "punycode", "unicode_escape", "undefined"]
)
@pytest.mark.parametrize("path", [LOG, ANNOTATIONS])
def test_an_unknown_charset_is_refused(client: KeyClient, rows: Rows, path: str, charset: str) -> None:
    answer = client.post(path, data=b'{"name": "a"}', content_type=f"application/json; charset={charset}")
    assert (answer.status_code, answer.json["error"]) == (415, "unsupported_media_type")
    assert charset in answer.json["message"]
    assert rows("SELECT * FROM jobs") == []
