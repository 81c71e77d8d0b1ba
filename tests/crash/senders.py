"""Clients that report all kinds of heartbeats at once and keep a ledger of what was sent and what was answered."""

import http.client
import json
import random
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import urlencode

SENDERS = 16
KINDS = ("start", "log", "end", "ping")


class Mark(NamedTuple):
    """By what an event that was sent is found again among the stored ones.

    `by` is ``key`` (Idempotency-Key), ``message``, ``run`` (the client's run id, for start and end) or ``time``.
    """

    org: str
    job: str
    kind: str
    by: str
    value: str


@dataclass(slots=True)
class Sent:
    """An event: how often it was sent, and what was answered (None: the connection broke before an answer)."""

    mark: Mark
    path: str
    body: str | None
    headers: dict[str, str]
    status: int | None = None
    answer: Any = None
    answered_at: float = 0.0

    @property
    def may_be_repeated(self) -> bool:
        return self.mark.by in ("key", "run")


@dataclass
class Ledger:
    """All that was sent. Safe to use from any thread."""

    sent: dict[Mark, Sent] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    _last_time: int = 0

    def add(self, sent: Sent) -> None:
        with self.lock:
            assert sent.mark not in self.sent, f"the test marks two events alike: {sent.mark}"
            self.sent[sent.mark] = sent

    def acknowledged(self, until: float = float("inf")) -> dict[Mark, Sent]:
        """What was answered with 2xx before the moment `until` of the monotonic clock."""
        return {
            mark: sent
            for mark, sent in self.sent.items()
            if sent.status is not None and sent.status < 300 and sent.answered_at <= until
        }

    def unanswered(self) -> list[Sent]:
        return [sent for sent in self.sent.values() if sent.status is None]

    def new_time(self) -> str:
        """A time to the millisecond that no other event has, near now."""
        with self.lock:
            self._last_time = max(self._last_time + 1, time.time_ns() // 1_000_000)
            ms = self._last_time
        seconds, rest = divmod(ms, 1000)
        return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{rest:03d}Z"


class Sender:
    """One client with one connection: it reports runs of jobs of its own and of jobs that all senders share."""

    def __init__(self, port: int, keys: Mapping[str, str], ledger: Ledger, name: str, chance: random.Random) -> None:
        self._port = port
        self._keys = keys
        self._ledger = ledger
        self._name = name
        self._chance = chance
        self._number = 0
        self._connection: http.client.HTTPConnection | None = None

    def run(self, stopped: Callable[[], bool], repeats: Iterable[Sent] = ()) -> None:
        """Send `repeats` once more, then new events, until the connection breaks or `stopped`."""
        try:
            for sent in repeats:
                if stopped():
                    return
                self.send(sent)
            while not stopped():
                for sent in self._story():
                    self._ledger.add(sent)
                    if not self.send(sent) or stopped():
                        break
        except (OSError, http.client.HTTPException):
            return  # killed: what was not acknowledged may be lost
        finally:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def send(self, sent: Sent) -> bool:
        """Send an event and note the answer; False if it was refused."""
        if self._connection is None:
            self._connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
            self._connection.connect()
            self._connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connection.request("POST", sent.path, sent.body, sent.headers)
        answer = self._connection.getresponse()
        body = answer.read()
        if answer.will_close:
            self._connection.close()
            self._connection = None
        sent.status, sent.answer, sent.answered_at = answer.status, json.loads(body), time.monotonic()
        assert answer.status < 300 or (answer.status == 503 and answer.headers["Retry-After"]), (answer.status, body)
        return answer.status < 300

    def _story(self) -> list[Sent]:
        """One or a few events that belong together."""
        chance = self._chance
        org = chance.choices(list(self._keys), [8, *[1] * (len(self._keys) - 1)])[0]
        own, shared = f"{self._name}/own", f"shared-{chance.randrange(3)}"
        self._number += 1
        run_id = f"{self._name}-{self._number}"
        what = chance.random()
        if what < 0.25:  # a run without an id, told in three calls; some are never ended
            events: list[tuple[str, str, str | None]] = [("start", own, None), ("log", own, None), ("end", own, None)]
            events = events[: chance.choice((1, 3, 3, 3))]
        elif what < 0.55:  # runs with ids go on side by side
            events = [("start", shared, run_id), ("ping", shared, run_id), ("end", shared, run_id)]
            events = events[: chance.choice((1, 2, 3, 3))]
        elif what < 0.6:  # the end comes first
            events = [("end", shared, run_id), ("start", shared, run_id)]
        elif what < 0.65:
            return [self._annotation(org)]
        else:
            kind = chance.choice(("ping", "ping", "log", "end"))
            # Without an id it would end any run of a shared job, and that run's own end would then be a repetition.
            events = [(kind, chance.choice((own, "pings") if kind == "end" else (own, shared, "pings")), None)]
        return [self._event(org, *event) for event in events]

    def _event(self, org: str, kind: str, job: str, run_id: str | None) -> Sent:
        chance = self._chance
        self._number += 1
        value = f"{self._name}:{self._number}"
        fields: dict[str, Any] = {} if run_id is None else {"run_id": run_id}
        headers = {"X-API-Key": self._keys[org]}
        if chance.random() < 0.4:
            by = "key"
            headers["Idempotency-Key"] = value
        elif kind == "log":
            by = "message"
        elif run_id is not None and kind != "ping":
            by, value = "run", run_id
        elif kind == "ping" and chance.random() < 0.5:
            by = "message"
        else:
            by, value = "time", self._ledger.new_time()
            fields["time"] = value
        if kind == "log" or by == "message":
            fields["message"] = value if chance.random() < 0.9 else value.ljust(9000, ".")
            value = fields["message"] if by == "message" else value
        if kind == "end":
            fields |= chance.choice(({}, {"status": "fail"}, {"exit_code": 3}, {"duration_ms": 1234}))
        if chance.random() < 0.2:
            headers["X-Platform-Host"] = f"host-{chance.randrange(5)}"
        mark = Mark(org, job, kind, by, value)
        if chance.random() < 0.3:
            headers["Content-Type"] = "application/json"
            return Sent(mark, f"/api/v1/heartbeat/{kind}", json.dumps({"name": job, **fields}), headers)
        message = fields.pop("message", None)
        return Sent(mark, f"/api/v1/heartbeat/{job}/{kind}?{urlencode(fields)}", message, headers)

    def _annotation(self, org: str) -> Sent:
        self._number += 1
        value = f"{self._name}:{self._number}"
        body = {"name": "deploy", "title": value, "start_time": self._ledger.new_time(), "idempotency_key": value}
        headers = {"X-API-Key": self._keys[org], "Content-Type": "application/json"}
        return Sent(Mark(org, "deploy", "annotation", "key", value), "/api/v1/annotations", json.dumps(body), headers)


class Load:
    """SENDERS senders at work, from `with` to its end or to their connections' end."""

    def __init__(self, port: int, keys: Mapping[str, str], ledger: Ledger, name: str, chance: random.Random) -> None:
        self._stop = threading.Event()
        unanswered = [sent for sent in ledger.unanswered() if sent.may_be_repeated]
        repeated = chance.sample(unanswered, len(unanswered) * 3 // 4)
        self.faults: list[BaseException] = []
        self._threads = [
            threading.Thread(
                target=self._run,
                args=(
                    Sender(port, keys, ledger, f"{name}-{number}", random.Random(chance.random())),
                    repeated[number::SENDERS],
                ),
            )
            for number in range(SENDERS)
        ]

    def _run(self, sender: Sender, repeats: list[Sent]) -> None:
        try:
            sender.run(self._stop.is_set, repeats)
        except BaseException as fault:
            self.faults.append(fault)
            raise

    def wait(self, seconds: float) -> None:
        """Let them work for a while."""
        self._stop.wait(seconds)

    def __enter__(self) -> "Load":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *unused: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        if self.faults:
            raise self.faults[0]


def sign_of_life(port: int, key: str) -> bool:
    """Whether a heartbeat is taken right now."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
        connection.request("POST", "/api/v1/heartbeat/sign-of-life/ping", headers={"X-API-Key": key})
        answer = connection.getresponse()
        answer.read()
        return answer.status == 200
