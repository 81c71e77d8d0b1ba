"""``obs serve`` as a process of its own, whose output a test reads and which it asks over HTTP."""

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

OBS = (sys.executable, "-c", "from obs.cli import main; main()")
PATIENCE_SECONDS = 30


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Server:
    """A process of ``obs serve``, and its output."""

    def __init__(self, folder: Path, port: int | None = None) -> None:
        self.port = port or free_port()
        self.output = folder.with_name(f"{folder.name}-{self.port}.txt")
        command = [*OBS, "serve", "--instance", str(folder), "--port", str(self.port)]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("OBS_")}
        with self.output.open("ab") as output:
            self.process = subprocess.Popen(command, stdout=output, stderr=output, env=environment)

    def wait_until_ready(self) -> "Server":
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                if self.ask("GET", "/readyz").status == 200:
                    return self
            assert self.process.poll() is None, self.printed()
            wait_a_moment()
        raise AssertionError(f"not ready: {self.printed()}")

    def printed(self) -> str:
        return self.output.read_text()

    def key(self) -> str:
        found = re.search(r"obs_default_[0-9A-Za-z]{32}", self.printed())
        assert found, self.printed()
        return found[0]

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_SECONDS)

    def ask(
        self, method: str, path: str, body: Any = None, headers: dict[str, Any] | None = None, *, chunked: bool = False
    ) -> Answer:
        with contextlib.closing(self.connect()) as connection:
            connection.request(method, path, body=body, headers=headers or {}, encode_chunked=chunked)
            answer = connection.getresponse()
            return Answer(answer.status, dict(answer.getheaders()), answer.read())

    def stop(self, number: signal.Signals = signal.SIGTERM) -> tuple[int, float]:
        """Stop the server; returns the exit code and the seconds that it took."""
        begun = time.monotonic()
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_SECONDS), time.monotonic() - begun


def wait_a_moment() -> None:
    """Wait between two attempts; the caller limits the number of attempts."""
    time.sleep(0.05)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def is_taken(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
