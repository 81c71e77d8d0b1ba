"""`obs serve` on an instance of its own, as the crash tests start, stop and kill it."""

import http.client
import json
import os
import re
import resource
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from obs import config
from obs.storage.databases import Org
from obs.tenancy import instance, service, store

START_SECONDS = 60
_NO_QUOTAS = {f"OBS_MAX_{name}": str(1 << 40) for name in ("JOBS", "ANNOTATIONS", "HEARTBEATS_PER_MINUTE")}
OBS = (sys.executable, "-m", "obs")


@dataclass
class Service:
    """`obs serve` on an instance, in a process group of its own; what it logs goes to `log`."""

    instance: Path
    port: int
    key: str = ""
    process: subprocess.Popen[bytes] | None = None
    environment: dict[str, str] = field(default_factory=dict)
    descriptors: int | None = None
    log: Path = field(init=False)

    def __post_init__(self) -> None:
        self.log = self.instance.with_name(f"{self.instance.name}.log")

    def start(self, *, wait: bool = True, ready: str = "/readyz") -> None:
        """Start, and return when it is ready."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*OBS, "serve", "--instance", str(self.instance), "--port", str(self.port)],
                start_new_session=True,
                stdout=log,
                stderr=log,
                env=self._environment(),
                preexec_fn=None if self.descriptors is None else self._limit_descriptors,
            )
        if wait:
            self.wait_until_ready(ready)

    def wait_until_ready(self, ready: str = "/readyz") -> None:
        assert self.process is not None
        end = time.monotonic() + START_SECONDS
        while not self.is_ready(ready):
            assert time.monotonic() < end, f"not ready in time:\n{self.logged()[-3000:]}"
            try:
                code = self.process.wait(timeout=0.05)
            except subprocess.TimeoutExpired:
                continue
            raise AssertionError(f"ended with {code} while starting:\n{self.logged()[-3000:]}")

    def is_ready(self, path: str = "/readyz") -> bool:
        try:
            return self.get(path)[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    def kill(self) -> None:
        """SIGKILL to all its processes at once, as when the machine's memory is full or the power is cut."""
        assert self.process is not None
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self) -> tuple[int, float]:
        """SIGTERM; the exit code and the seconds that it took."""
        assert self.process is not None
        begun = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=START_SECONDS), time.monotonic() - begun

    def logged(self) -> str:
        return self.log.read_text(errors="replace")

    def connect(self, seconds: float = 30) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=seconds)

    def get(self, path: str, key: str | None = None) -> tuple[int, bytes]:
        return self.ask("GET", path, key)[::2]

    def sign_in(self, org: str) -> str:
        """Sign in with a one-time link; returns the cookie."""
        path = "/sign-in/" + self.command("sign-in", org).rpartition("/")[2]
        _, opened, page = self.ask("GET", path)
        form = {"Cookie": opened["set-cookie"].partition(";")[0], "Content-Type": "application/x-www-form-urlencoded"}
        token = re.findall(r'name="csrf_token" value="([^"]+)"', page.decode())[0]
        with closing(self.connect()) as connection:
            connection.request("POST", path, f"csrf_token={token}", form)
            answer = connection.getresponse()
            assert answer.status == 302
            return str(answer.getheader("Set-Cookie")).partition(";")[0]

    def ask(
        self, method: str, path: str, key: str | None = None, body: Any = None, headers: Mapping[str, str] = {}
    ) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of one answer; `body` goes as JSON, `key` is the service's own when left out."""
        sent = {"X-API-Key": self.key if key is None else key, **headers}
        if body is not None:
            sent["Content-Type"] = "application/json"
        with closing(self.connect()) as connection:
            connection.request(method, path, None if body is None else json.dumps(body), sent)
            answer = connection.getresponse()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()

    def command(self, *arguments: str) -> str:
        """What an `obs` command printed on this instance. Raises CalledProcessError."""
        done = subprocess.run(
            [*OBS, *arguments, "--instance", str(self.instance)],
            check=True,
            capture_output=True,
            text=True,
            env=self._environment(),
        )
        return done.stdout.strip()

    def add_organizations(self, orgs: Iterable[str]) -> dict[str, str]:
        """Make organizations, each with a key that may do all, from this process; returns the keys."""
        settings = config.load(self.instance, {})
        tenancy = instance.open_instance(self.instance, settings, lambda: time.time_ns() // 1_000_000)
        keys = {}
        for org in orgs:
            created = service.create_organization(tenancy, org)
            added = tenancy.control.write(partial(_add_admin_key, org=created))
            assert added is not None
            keys[org] = added.key
        tenancy.close()
        for key in keys.values():
            self._wait_for(key)
        return keys

    def new_organization(self, org: str) -> str:
        """Make an organization with a key that may do all, with the commands; returns the key."""
        self.command("org", "create", org)
        key = self.command("key", "create", org, "--label", "crash test", "--scope", "admin")
        self._wait_for(key)
        return key

    def _wait_for(self, key: str) -> None:
        while self.process is not None and self.get("/api/v1/jobs", key)[0] == 401:
            assert self.process.poll() is None, self.logged()[-3000:]  # it looks for new keys four times a second

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("OBS_")}
        return {**kept, **_NO_QUOTAS, **self.environment}

    def _limit_descriptors(self) -> None:
        assert self.descriptors is not None
        resource.setrlimit(resource.RLIMIT_NOFILE, (self.descriptors, self.descriptors))


def _add_admin_key(db: sqlite3.Connection, org: Org) -> store.Key | None:
    return store.add_key(db, org, "crash test", ("admin",), None, 0)


def file_of(instance: Path, org: str) -> Path:
    """The file of an organization, whatever its id."""
    return next((instance / "tenants").glob(f"{org}.*.db"), instance / "tenants" / f"{org}.missing.db")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def new_service(folder: Path, environment: Mapping[str, str] = {}) -> Service:
    """A service on a new instance in `folder` that was not started yet, with the organization ``crash``."""
    service = Service(folder / "instance", free_port(), environment=dict(environment))
    service.key = service.new_organization("crash")
    return service


@contextmanager
def running_service(folder: Path, environment: Mapping[str, str] = {}) -> Iterator[Service]:
    """A running service on a new instance in `folder`, killed at the end."""
    service = new_service(folder, environment)
    try:
        service.start()
        yield service
    finally:
        if service.process is not None:
            service.kill()
