"""A receiver of webhooks on this machine, whose answers a test chooses."""

import json
import threading
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.conftest import serving


class Receiver:
    """Keeps what it receives. `answers` are the statuses of the next responses; after them, 200."""

    def __init__(self) -> None:
        self.requests: list[tuple[dict[str, str], bytes]] = []
        self.answers: list[int] = []
        self.location = self.retry_after = ""
        self.body = b"thanks"
        self.hang: threading.Event | None = None
        self.received = threading.Event()
        self.fetched = 0
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                receiver.fetched += 1
                self.send_response(200)
                self.end_headers()
                receiver.received.set()

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if receiver.hang is not None:
                    receiver.hang.wait(60)
                receiver.requests.append((dict(self.headers), body))
                receiver.received.set()
                self.send_response(receiver.answers.pop(0) if receiver.answers else 200)
                if receiver.location:
                    self.send_header("Location", receiver.location)
                if receiver.retry_after:
                    self.send_header("Retry-After", receiver.retry_after)
                self.end_headers()
                self.wfile.write(receiver.body)

            def log_message(self, *_: Any) -> None:
                return

        self._serving = ExitStack()
        address = self._serving.enter_context(serving(ThreadingHTTPServer(("127.0.0.1", 0), Handler)))
        self.url = f"{address}/hook/secret-path"

    def messages(self) -> list[dict[str, Any]]:
        """The bodies received so far."""
        return [json.loads(body) for _, body in self.requests]

    def close(self) -> None:
        if self.hang is not None:
            self.hang.set()
        self._serving.close()
