"""Slow, huge, broken and hostile clients do not affect others; hostile.py runs longer."""

import contextlib
import json
import re
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server import PATIENCE_SECONDS, Server, wait_a_moment
from tests.strangers import hostile
from tests.strangers.hostile import answer, connect, head, messages, ping, statuses

THREADS = 8
IDLE = 2_500  # more than the kernel's backlog holds
PING = "/api/v1/heartbeat/hostile/ping"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A service with few threads and almost no time limit for bodies. After all tests its log contains no traceback."""
    with hostile.serving(tmp_path_factory.mktemp("x") / "instance", threads=THREADS, body_seconds=100_000) as server:
        yield server
        assert ping(server) == 200
        assert "Traceback" not in server.printed()


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A service that waits one second for a body."""
    with hostile.serving(tmp_path_factory.mktemp("y") / "instance", threads=THREADS, body_seconds=1) as server:
        yield server
        assert "Traceback" not in server.printed()


@pytest.mark.slow
def test_slow_bodies_do_not_affect_others(server: Server) -> None:
    with contextlib.ExitStack() as opened:
        for connection in hostile.slow_bodies(server, THREADS):
            opened.enter_context(connection)
        assert [ping(server) for _ in range(20)] == [200] * 20
        assert server.ask("GET", "/sign-in").status == 200
        refused = server.ask("POST", hostile.LOG, b"hello", {"X-API-Key": server.key()})
        assert (refused.status, refused.json()["error"]) == (503, "too_many_bodies")
        assert refused.headers["retry-after"] == "1"
    deadline = time.monotonic() + PATIENCE_SECONDS
    while server.ask("POST", hostile.LOG, b"hello", {"X-API-Key": server.key()}).status == 503:
        assert time.monotonic() < deadline, "the threads that waited for bodies were never freed"
        wait_a_moment()
    assert ping(server) == 200


def test_an_incomplete_body_is_not_recorded(server: Server) -> None:
    with connect(server) as connection:
        connection.sendall(head(server, "Content-Length: 50", path="/api/v1/heartbeat/broken/log") + b"half")
        connection.shutdown(socket.SHUT_WR)
        status, body = answer(connection)
    assert (status, json.loads(body)["error"]) == (400, "incomplete_body")
    assert messages(server, "broken") == 0


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says when a connection was last used")
@pytest.mark.parametrize(
    ("lines", "sent"),
    [
        (("Content-Length: 50",), b"half"),
        (("Transfer-Encoding: chunked",), b"5\r\nhal"),
        (("Content-Length: 50", "Expect: 100-continue"), b""),
    ],
    ids=["length", "chunks", "continue"],
)
def test_a_body_that_does_not_arrive_is_ended(impatient: Server, lines: tuple[str, ...], sent: bytes) -> None:
    with connect(impatient) as connection:
        connection.sendall(head(impatient, *lines) + sent)
        status, body = answer(connection)
        assert (status, json.loads(body)["error"]) == (408, "body_timeout")
        assert statuses(connection) == []
    assert messages(impatient, "hostile") == 0


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says when a connection was last used")
def test_a_body_that_trickles_is_ended(impatient: Server) -> None:
    with connect(impatient) as connection, contextlib.suppress(ConnectionError):
        connection.sendall(head(impatient, "Content-Length: 10000"))
        connection.settimeout(0.2)
        while True:
            with contextlib.suppress(TimeoutError):
                assert connection.recv(1_000).startswith(b"HTTP/1.1 408 ")
                break
            connection.sendall(b"x")
    assert messages(impatient, "hostile") == 0


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says when a connection was last used")
@pytest.mark.parametrize("host", ["127.0.0.1", "::"])
def test_bodies_that_do_not_arrive_leave_nothing_open(tmp_path: Path, host: str) -> None:
    with hostile.serving(tmp_path / "instance", threads=THREADS, body_seconds=1, host=host) as server:
        assert ping(server) == 200
        before = hostile.descriptors(server)
        with connect(server) as connection:
            connection.sendall(head(server, "Content-Length: 50", "Expect: 100-continue"))
            while connection.recv(1_000):  # until the server closes it
                pass
        for _ in range(3):
            with connect(server) as connection:
                connection.sendall(head(server, "Content-Length: 50") + b"half")
                assert answer(connection)[0] == 408
        assert hostile.descriptors(server) < before + 20


def test_idle_connections_do_not_affect_others(server: Server) -> None:
    with contextlib.ExitStack() as opened:
        for _ in range(hostile.allow_connections(IDLE)):
            opened.enter_context(connect(server))
        assert ping(server) == 200


@pytest.mark.parametrize("chunked", [False, True])
def test_a_huge_body_is_rejected_unread(server: Server, chunked: bool) -> None:
    size = 64 << 20
    before = hostile.resident_kib(server)
    with connect(server) as connection:
        connection.sendall(head(server, "Transfer-Encoding: chunked" if chunked else f"Content-Length: {size}"))
        if not chunked:
            assert answer(connection)[0] == 413
        assert hostile.pour(connection, size, chunked=chunked) < size
    assert hostile.resident_kib(server) - before < size // 1024 // 4
    assert ping(server) == 200


def test_slow_headers_occupy_no_thread(server: Server) -> None:
    with contextlib.ExitStack() as opened:
        for _ in range(THREADS * 4):
            connection = opened.enter_context(connect(server))
            connection.sendall(head(server)[:-2] + b"X-Slow: ")
        assert [ping(server) for _ in range(20)] == [200] * 20


@pytest.mark.parametrize(
    "lines",
    [["X-Big: " + "x" * 1_000_000], [f"X-{number}: x" for number in range(10_000)], ["X" * 300_000]],
    ids=["huge", "many", "no colon"],
)
def test_too_many_or_too_large_headers_are_rejected(server: Server, lines: list[str]) -> None:
    with connect(server) as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(head(server, *lines, path=PING))
        assert statuses(connection) in ([431], [400], [])
    assert ping(server) == 200


@pytest.mark.parametrize(
    "sent",
    [
        b"\x00\xff\x16\x03\x01 not HTTP\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 200 + b"\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /\xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nX: a\r\n folded\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nX\x00Y: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nX : a\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: identity\r\n\r\nabc",
        b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
)
def test_invalid_http_is_rejected_and_the_connection_closed(server: Server, sent: bytes) -> None:
    with connect(server) as connection:
        connection.sendall(sent)
        assert statuses(connection) in ([400], [])
    assert ping(server) == 200


@pytest.mark.parametrize(
    "framing",
    [
        ["Content-Length: 4", "Transfer-Encoding: chunked"],
        ["Transfer-Encoding: chunked", "Content-Length: 4"],
        ["Transfer-Encoding: xchunked", "Content-Length: 4"],
        ["Transfer-Encoding: chunked, identity", "Content-Length: 4"],
    ],
)
def test_no_request_can_be_smuggled_in_a_body(server: Server, framing: list[str]) -> None:
    smuggled = (
        b"GET /api/v1/heartbeat/smuggled/ping HTTP/1.1\r\nHost: x\r\nX-API-Key: " + server.key().encode() + b"\r\n\r\n"
    )
    with connect(server) as connection:
        connection.sendall(head(server, *framing, path=PING) + b"0\r\n\r\n" + smuggled)
        connection.shutdown(socket.SHUT_WR)
        assert len(statuses(connection)) <= 1
    headers = {"X-API-Key": server.key()}
    assert server.ask("GET", "/api/v1/jobs/smuggled", headers=headers).status == 404


@pytest.mark.parametrize(
    "chunks", [b"zz\r\nhello\r\n0\r\n\r\n", b"-1\r\nhello\r\n", b"ffffffffffffffffff\r\nx", b"3\r\nhello\r\n0\r\n\r\n"]
)
def test_invalid_chunks_are_rejected(server: Server, chunks: bytes) -> None:
    lines = ("Transfer-Encoding: chunked", "Content-Type: application/json")
    with connect(server) as connection:
        connection.sendall(head(server, *lines, path="/api/v1/dsl") + chunks)
        assert statuses(connection) in ([400], [])
    assert ping(server) == 200


def test_pipelined_requests_are_answered_in_order(server: Server) -> None:
    names = [f"piped-{number}" for number in range(20)]
    last = {names[-1]: ("Connection: close",)}
    with connect(server) as connection:
        for name in names:
            connection.sendall(head(server, *last.get(name, ()), path=f"/api/v1/heartbeat/{name}/ping"))
        with connection.makefile("rb") as reader:
            answers = reader.read()
    assert re.findall(rb'"job": "([^"]+)"', answers) == [name.encode() for name in names]


@pytest.mark.parametrize("host", [b"", b"Host: x\r\n"])
def test_http_1_0(server: Server, host: bytes) -> None:
    with connect(server) as connection:
        connection.sendall(b"GET /healthz HTTP/1.0\r\n" + host + b"\r\n")
        assert statuses(connection) == [200]


@pytest.mark.parametrize(
    "path",
    [
        "/%",
        "/%zz/%",
        "/%00",
        "/%c0%af..%c0%afetc/passwd",
        "/..%2f..%2f..%2fetc/passwd",
        "/static/..%2f..%2f__init__.py",
        "/static/%2e%2e/%2e%2e/__init__.py",
        "/api/docs/dist/..%2f..%2fpackage.json",
        "/static//etc/passwd",
        "/library/vega-..%2f..%2fsecret_key.js",
        "/in/..%2f..%2fcontrol.db/api/v1/jobs",
        "/in/%00/api/v1/jobs",
        "/api/v1/annotations/%00",
        "/api/v1/annotations/99999999999999999999999",
        "/api/v1/runs/-1",
        "/api/v1/jobs/%ed%a0%80",
        "/api/v1/jobs/%f5%80%80%80",
        "/api/v1/jobs/" + "x" * 60_000,
        "/api/v1/" + "../" * 5_000 + "etc/passwd",
        "/api/v1/jobs?limit=%00",
        "/api/v1/jobs?q=%ff%fe&cursor=%00",
        "/api/v1/annotations?start=%c0%80",
        "*",
        "http://evil.example/api/v1/jobs/none",
    ],
)  # fmt: skip
def test_nonsense_in_the_path_is_rejected(server: Server, path: str) -> None:
    with connect(server) as connection:
        lines = [f"GET {path} HTTP/1.1", "Host: x", "Connection: close", f"X-API-Key: {server.key()}", "", ""]
        connection.sendall("\r\n".join(lines).encode())
        found = statuses(connection)
    assert len(found) == 1
    assert found[0] in (302, 400, 403, 404, 405, 414, 422)


def test_only_the_owner_can_read_the_folder(server: Server) -> None:
    folder = server.output.with_name("instance")
    for path in (folder / "tenants", folder / "control.db", folder / "secret_key"):
        assert path.stat().st_mode & 0o077 == 0, path
