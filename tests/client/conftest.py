"""The client as the service offers it, as one file, with a server that can be taken away."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from tests.conftest import Clock, KeyClient, serving
from tests.dashboard.conftest import address

__all__ = ["address"]
REFUSING = "http://127.0.0.1:1"  # nothing listens there
RESPONSES = {
    "error": b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 2\r\n\r\n{}",
    "garbage": b"\x00\xff garbage\r\n\r\n",
    "another service": b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>",
    "another JSON": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]",
    "an error of another": b'HTTP/1.1 404 Not Found\r\nContent-Length: 13\r\n\r\n{"error":"x"}',
    "redirect": b"HTTP/1.1 302 Found\r\nLocation: /sign-in\r\nContent-Length: 0\r\n\r\n",
    "dies midway": b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{",
    "hangs": None,
}
"""Responses of servers that are broken, or not obs."""
ALL_RESPONSES = [pytest.param(one, marks=pytest.mark.slow) if raw is None else one for one, raw in RESPONSES.items()]
"""The names of all; a server that hangs takes the test as long as the client waits."""


class Machine:
    """A machine with the client: its home, and the server that it reports to."""

    def __init__(self, home: Path, url: str, key: str) -> None:
        self.home, self.url, self.key = home, url, key
        self.spool = home / ".local" / "state" / "obs"
        self.started: list[subprocess.Popen[bytes]] = []

    @property
    def environment(self) -> dict[str, str]:
        """That of a user who has logged in."""
        config = self.home / ".config" / "obs.toml"
        config.parent.mkdir(exist_ok=True)
        if self.url:
            config.write_text(f'url = "{self.url}"\nkey = "{self.key}"\n')
        return {"HOME": str(self.home)} | {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}

    @property
    def variables(self) -> dict[str, str]:
        """The environment with the server in it."""
        return {**self.environment, "OBS_URL": self.url, "OBS_API_KEY": self.key}

    @property
    def program(self) -> list[str]:
        return [sys.executable, str(self.home / "obs")]

    def start(self, *arguments: str, **kwargs: Any) -> subprocess.Popen[bytes]:
        settings: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        settings |= {"args": [*self.program, *arguments], "env": self.environment, **kwargs}
        process: subprocess.Popen[bytes] = subprocess.Popen(**settings)
        self.started.append(process)
        return process

    def obs(self, *arguments: str, **kwargs: Any) -> subprocess.CompletedProcess[bytes]:
        process = self.start(*arguments, **kwargs)
        out, err = process.communicate(timeout=60)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def waiting(self) -> list[list[Any]]:
        """The heartbeats in the spool."""
        paths = sorted(self.spool.rglob("*.ndjson"))
        return [json.loads(line) for path in paths for line in path.read_text().splitlines()]


def log(run: dict[str, Any]) -> str:
    """The log messages of a run, as one text."""
    return "".join(event["message"] or "" for event in run["timeline"] if event["kind"] == "log")


@pytest.fixture
def machine(app: Flask, client: KeyClient, address: str, tmp_path: Path, clock: Clock) -> Iterator[Machine]:
    clock.now_ms = time.time_ns() // 1_000_000  # the client has the time of the machine
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "obs").write_bytes(app.test_client().get("/client/obs").data)
    (tmp_path / "home" / "obs").chmod(0o755)
    made = Machine(tmp_path / "home", address, str(client.key))
    yield made
    for process in made.started:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()


@pytest.fixture
def runs(client: KeyClient) -> Callable[[str], list[dict[str, Any]]]:
    """The runs of a job with their timelines, oldest first."""

    def read(job: str) -> list[dict[str, Any]]:
        found = client.get(f"/api/v1/jobs/{job}/runs")
        if found.status_code == 404:
            return []
        return [client.get(f"/api/v1/runs/{run['id']}").json for run in reversed(found.json["runs"])]

    return read


@pytest.fixture
def bad_server() -> Iterator[Callable[[bytes | None], str]]:
    """Starts a server that sends these bytes to every request, or that hangs with None; returns its URL."""
    release = threading.Event()

    def start(response: bytes | None) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.do_POST()

            def do_POST(self) -> None:
                if response is None:
                    release.wait(60)
                else:
                    self.wfile.write(response)
                self.close_connection = True

            def log_message(self, *_: Any) -> None:
                pass

        return servers.enter_context(serving(ThreadingHTTPServer(("127.0.0.1", 0), Handler)))

    with ExitStack() as servers:
        yield start
        release.set()
