"""Slow, huge, broken and hostile clients of a real ``obs serve``, and how well it serves others meanwhile.

python -m tests.strangers.hostile --connections 10000 --bytes 1073741824
"""

import argparse
import contextlib
import http.client
import json
import os
import resource
import socket
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.server import PATIENCE_SECONDS, Server

LOG = "/api/v1/heartbeat/hostile/log"
_PIECE = b"x" * 65_536


@contextmanager
def serving(folder: Path, **settings: int | str) -> Iterator[Server]:
    """Run a service on a new instance in `folder` with `settings`."""
    folder.mkdir()
    (folder / "config.toml").write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in settings.items()))
    server = Server(folder)
    try:
        yield server.wait_until_ready()
    finally:
        server.process.kill()
        server.process.wait()


def connect(server: Server) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_SECONDS)


def head(server: Server, *lines: str, path: str = LOG) -> bytes:
    """The request line and headers of a POST with a valid key."""
    return "\r\n".join([f"POST {path} HTTP/1.1", "Host: x", f"X-API-Key: {server.key()}", *lines, "", ""]).encode()


def answer(connection: socket.socket) -> tuple[int, bytes]:
    """The status and body of the next response. Raises HTTPException or OSError when there is none."""
    response = http.client.HTTPResponse(connection)
    response.begin()
    return response.status, response.read()


def statuses(connection: socket.socket) -> list[int]:
    """The status of every response until the service closes the connection."""
    found, reader = [], connection.makefile("rb")
    with contextlib.suppress(ConnectionError), reader:
        while line := reader.readline():
            if line.startswith(b"HTTP/1."):
                found.append(int(line.split()[1]))
    return found


def ping(server: Server) -> int:
    """The status of the response to a ping of another client."""
    return server.ask("POST", "/api/v1/heartbeat/usual/ping", headers={"X-API-Key": server.key()}).status


def messages(server: Server, job: str) -> int:
    """The number of recorded log messages of a job."""
    query = json.dumps({"query": f"SELECT count(*) FROM logs WHERE job = '{job}' LAST 1d"}).encode()
    headers = {"X-API-Key": server.key(), "Content-Type": "application/json"}
    rows = server.ask("POST", "/api/v1/dsl", query, headers).json()["rows"]
    return int(rows[0][0])


def slow_bodies(server: Server, count: int) -> list[socket.socket]:
    """Open `count` connections of each kind: half a body, half a chunk, no body after 100 Continue, half a form."""
    form = b"POST /sign-in HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\n"
    kinds = (
        head(server, "Content-Length: 5000") + b"half",
        head(server, "Transfer-Encoding: chunked") + b"5\r\nhal",
        head(server, "Expect: 100-continue", "Content-Length: 5000"),
        form + b"Content-Length: 5000\r\n\r\nkey=half",
    )
    opened = []
    for kind in kinds * count:
        opened.append(connect(server))
        opened[-1].sendall(kind)
    return opened


def allow_connections(count: int) -> int:
    """Raise the limit of open files for `count` connections; returns how many are possible."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + 500 if hard == resource.RLIM_INFINITY else min(count + 500, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted - 500


def pour(connection: socket.socket, size: int, *, chunked: bool) -> int:
    """Send a body of `size` bytes until the service stops reading; returns the number of bytes sent."""
    sent = 0
    piece = b"%x\r\n%s\r\n" % (len(_PIECE), _PIECE) if chunked else _PIECE
    with contextlib.suppress(ConnectionError):
        while sent < size:
            connection.sendall(piece)
            sent += len(_PIECE)
    return sent


def processes(server: Server) -> list[str]:
    """The ids of the service and its worker."""
    pid = str(server.process.pid)
    return [pid, *Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def resident_kib(server: Server) -> int:
    """Resident memory of the service and its worker, in KiB."""
    statuses = [Path(f"/proc/{process}/status").read_text() for process in processes(server)]
    return sum(int(status.partition("VmRSS:")[2].split()[0]) for status in statuses)


def descriptors(server: Server) -> int:
    """How many files and connections the service and its worker have open."""
    return sum(len(os.listdir(f"/proc/{process}/fd")) for process in processes(server))


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--connections", type=int, default=10_000)
    arguments.add_argument("--bytes", type=int, default=1 << 30)
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder) / "instance") as server:
        _report(server, "at rest")
        for chunked in (False, True):
            with connect(server) as connection:
                framing = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {options.bytes}"
                connection.sendall(head(server, framing))
                sent = pour(connection, options.bytes, chunked=chunked)
            _report(server, f"{sent:,} of {options.bytes:,} bytes were sent ({framing})")
        with contextlib.ExitStack() as open_connections:
            count = allow_connections(options.connections)
            for _ in range(count):
                open_connections.enter_context(connect(server))
            _report(server, f"{count:,} idle connections")
        with contextlib.ExitStack() as open_connections:
            for connection in slow_bodies(server, 250):
                open_connections.enter_context(connection)
            _report(server, "1,000 half-sent bodies")
        with contextlib.ExitStack() as open_connections:
            for _ in range(1_000):
                connection = open_connections.enter_context(connect(server))
                connection.sendall(head(server)[:-2] + b"X-Slow: " + b"x" * 100_000)
            _report(server, "1,000 incomplete requests with headers of 100 KB")
        print(server.printed()[-500:] if "Traceback" in server.printed() else "no traceback in the log")


def _report(server: Server, situation: str) -> None:
    seconds, answers = [], Counter[int]()
    for _ in range(200):
        begun = time.perf_counter()
        answers[ping(server)] += 1
        seconds.append(time.perf_counter() - begun)
    seconds.sort()
    print(
        f"{situation}: 200 pings of others {dict(answers)}, p50 {seconds[100] * 1000:.1f} ms,"
        f" p99 {seconds[198] * 1000:.1f} ms, memory {resident_kib(server) / 1024:.0f} MB",
        flush=True,
    )


if __name__ == "__main__":
    main()
