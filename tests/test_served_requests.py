"""Requests as the served application gets them: names in paths, bodies in chunks, methods, keys."""

import contextlib
import subprocess
from collections.abc import Iterator

import pytest

from tests.server import OBS, Server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server for all tests that only send requests."""
    server = Server(tmp_path_factory.mktemp("served") / "instance").wait_until_ready()
    yield server
    server.stop()


@pytest.mark.parametrize(
    ("path", "job"),
    [
        ("a", "a"),
        ("db/backup", "db/backup"),
        ("db%2Fbackup", "db/backup"),
        ("gr%C3%B6%C3%9Fe%F0%9F%98%80", "größe😀"),
        ("50%25%3F%23%20off", "50%?# off"),
        ("/a//b/", "/a//b/"),
    ],
)
def test_names_in_the_path(server: Server, path: str, job: str) -> None:
    answer = server.ask("POST", f"/api/v1/heartbeat/{path}/ping", headers={"X-API-Key": server.key()})
    assert answer.status == 200, answer.body
    assert answer.json()["job"] == job


@pytest.mark.parametrize("path", ["a%FFb", "%C3", "a%00b", "a%0Ab", "%20a"])
def test_invalid_names_in_the_path(server: Server, path: str) -> None:
    answer = server.ask("POST", f"/api/v1/heartbeat/{path}/ping", headers={"X-API-Key": server.key()})
    assert answer.status == 422, answer.body
    assert answer.json()["error"] == "invalid_field"


@pytest.mark.parametrize("key", [b"\xff\xfe", "schlüssel".encode(), b"x" * 10_000])
def test_an_impossible_key_is_unauthorized(server: Server, key: bytes) -> None:
    assert server.ask("GET", "/api/v1/jobs", headers={"X-API-Key": key}).status == 401


@pytest.mark.parametrize(("size", "status"), [(10_240, 200), (10_241, 413), ((1 << 20) + 1, 413)])
def test_a_log_in_chunks(server: Server, size: int, status: int) -> None:
    pieces = (b"x" * 1_024 for _ in range(size // 1_024))
    rest = b"x" * (size % 1_024)
    answer = server.ask(
        "POST",
        "/api/v1/heartbeat/chunked/log",
        body=(piece for piece in (*pieces, rest) if piece),
        headers={"X-API-Key": server.key(), "Transfer-Encoding": "chunked"},
        chunked=True,
    )
    assert answer.status == status, answer.body
    if status == 413:
        assert "10240" in answer.json()["message"] or str(1 << 20) in answer.json()["message"]


def test_a_log_in_chunks_is_stored_whole(server: Server) -> None:
    headers = {"X-API-Key": server.key()}
    number = server.ask("POST", "/api/v1/heartbeat/chunked/start", headers=headers).json()["run_id"]
    server.ask(
        "POST",
        "/api/v1/heartbeat/chunked/log",
        body=iter([b"one ", b"two ", b"three"]),
        headers={**headers, "Transfer-Encoding": "chunked"},
        chunked=True,
    )
    run = server.ask("GET", f"/api/v1/runs/{number}", headers=headers).json()
    assert run["timeline"][-1]["message"] == "one two three"


@pytest.mark.parametrize("path", ["/api/v1/heartbeat/backup/log", "/api/v1/annotations"])
def test_a_client_can_go_on_after_a_body_that_is_too_large(server: Server, path: str) -> None:
    """The rest of the body is not read. So the connection cannot be used again, and the response says so."""
    headers = {"X-API-Key": server.key()}
    with contextlib.closing(server.connect()) as connection:
        for _ in range(20):
            connection.request("POST", path, b"x" * 100_000, {**headers, "Content-Length": "1100000"})
            answer = connection.getresponse()
            answer.read()
            assert (answer.status, answer.headers["Connection"]) == (413, "close")
            connection.request("GET", "/api/v1/jobs", headers=headers)
            assert connection.getresponse().read().startswith(b'{"jobs":')


def test_a_client_can_go_on_after_a_body_that_nobody_reads(server: Server) -> None:
    headers = {"X-API-Key": server.key()}
    wrong_key = ("POST", "/api/v1/heartbeat/backup/log", {"X-API-Key": "wrong"}, 401)
    refused: list[tuple[str, str, dict[str, str], int]] = [
        wrong_key,
        ("POST", "/api/v1/me", {}, 405),
        ("PUT", "/api/v1/jobs", {}, 405),
    ]
    with contextlib.closing(server.connect()) as connection:
        for method, path, more, status in refused * 5:
            connection.request(method, path, b"x" * 60_000, {**headers, **more})
            answer = connection.getresponse()
            answer.read()
            assert (answer.status, answer.headers["Connection"]) == (status, "close")
            connection.request("GET", "/api/v1/jobs", headers=headers)
            assert connection.getresponse().read().startswith(b'{"jobs":')


def test_json_in_chunks(server: Server) -> None:
    answer = server.ask(
        "POST",
        "/api/v1/heartbeat/ping",
        body=iter([b'{"name": ', b'"backup"}']),
        headers={"X-API-Key": server.key(), "Transfer-Encoding": "chunked", "Content-Type": "application/json"},
        chunked=True,
    )
    assert answer.status == 200, answer.body


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("HEAD", "/api/v1/heartbeat/backup/ping", 200),
        ("GET", "/api/v1/heartbeat/backup/ping", 200),
        ("GET", "/api/v1/nothing", 404),
        ("PUT", "/api/v1/jobs", 405),
        ("BREW", "/api/v1/jobs", 405),
    ],
)
def test_methods(server: Server, method: str, path: str, status: int) -> None:
    assert server.ask(method, path, headers={"X-API-Key": server.key()}).status == status


def test_a_new_key_works_at_once(server: Server) -> None:
    folder = server.output.with_name("instance")
    created = subprocess.run(
        [*OBS, "key", "create", "default", "--label", "x", "--scope", "query:read", "--instance", str(folder)],
        capture_output=True,
        check=True,
        text=True,
    )
    assert server.ask("GET", "/api/v1/jobs", headers={"X-API-Key": created.stdout.strip()}).status == 200
