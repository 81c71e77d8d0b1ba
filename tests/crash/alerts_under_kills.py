"""Kills the service and its courier at random moments between incidents and their delivery, and counts what arrives.

    python -m tests.crash.alerts_under_kills --times 200

Two webhooks fail one time in three: with a status, or by closing the connection after they have read the message. Time
passes 120 times as fast for the service. At the end, each incident must have been reported to both channels, its end
after its beginning, and messages that arrived twice must have the same Idempotency-Key.
"""

import argparse
import json
import os
import random
import secrets
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from flask import Flask

from obs import create_app
from obs.services import services
from obs.tenancy import service
from obs.tenancy.auth import Caller

SPEED = 120
SETTLE_SECONDS = 180


class Channel:
    """A receiver that fails one time in three. `received` are the messages that it has read but not refused."""

    def __init__(self) -> None:
        self.received: list[tuple[str, dict[str, Any]]] = []
        self.failures: Counter[str] = Counter()
        self.is_healthy = False
        channel = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outcome = "ok" if channel.is_healthy else random.choice(("ok", "ok", "ok", "ok", "500", "close"))
                channel.failures[outcome] += 1
                if outcome != "500":
                    channel.received.append((self.headers["Idempotency-Key"], body))
                if outcome == "close":
                    self.connection.close()
                    return
                self.send_response(500 if outcome == "500" else 200)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.handle_error = lambda *_: None  # type: ignore[method-assign]  # closed by us, or by a kill
        self.url = f"http://127.0.0.1:{self.server.server_port}/"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


def application(folder: Path, started_at: float) -> Flask:
    def clock() -> int:
        return round((started_at + (time.time() - started_at) * SPEED) * 1000)

    settings = {"TESTING": True, "INSTANCE": folder, "QUERY_WORKERS": 0, "ALLOW_PRIVATE_TARGETS": "1"}
    return create_app({**settings, "CLOCK": clock, "MONOTONIC": lambda: clock() / 1000})


def work(folder: Path, started_at: float, key: str, *, with_incidents: bool) -> None:
    """What the service does, without its HTTP server: heartbeats, sweeps and deliveries, again and again."""
    app = application(folder, started_at)
    built, client = services(app), app.test_client()
    built.background.sweeper.excuse_downtime()
    unfinished, cursor = [], ""
    while cursor is not None:
        page = client.get(f"/api/v1/jobs?limit=1000{cursor}", headers={"X-API-Key": key}).get_json()
        unfinished += [job["name"] for job in page["jobs"] if job["status"] == "failed"]
        cursor = page["next_cursor"] and f"&cursor={page['next_cursor']}"
    while True:
        if with_incidents and len(unfinished) < 40 and random.random() < 0.3:
            unfinished.append(f"job-{secrets.token_hex(6)}")
            client.post(f"/api/v1/heartbeat/{unfinished[-1]}/end?status=fail", headers={"X-API-Key": key})
        elif unfinished and (not with_incidents or (len(unfinished) > 5 and random.random() < 0.2)):
            client.post(f"/api/v1/heartbeat/{unfinished.pop(0)}/end?status=ok", headers={"X-API-Key": key})
        built.background.sweeper.run()
        built.background.notifier.run()
        time.sleep(0.05)


class Run:
    """One instance, its worker and its two channels."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.started_at = folder, time.time()
        self.channels = [Channel(), Channel()]
        app = application(folder, self.started_at)
        tenancy = services(app).tenancy
        org = service.create_organization(tenancy, "acme")
        self.file = tenancy.databases.path(org)
        self.key = service.create_key(tenancy, org, "test", ("admin", "heartbeat:write", "query:read"), None).key
        admin = Caller(org, 0, frozenset({"admin"}), tenancy.clock(), tenancy)
        for number, channel in enumerate(self.channels):
            services(app).alerts.save(admin, {"name": f"hook {number}", "webhook": {"url": channel.url}})
        services(app).alerts.courier.close()
        tenancy.databases.close()
        tenancy.control.close()

    def start(self, *, with_incidents: bool = True) -> "subprocess.Popen[bytes]":
        options = ["--worker", str(self.folder), "--start", str(self.started_at), "--key", self.key]
        command = [sys.executable, "-m", "tests.crash.alerts_under_kills", *options]
        return subprocess.Popen([*command, *(["--incidents"] if with_incidents else [])], start_new_session=True)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(f"file:{self.file}?mode=ro", uri=True)) as db:
            return db.execute(sql).fetchall()


def courier_of(worker: int) -> int | None:
    for task in Path(f"/proc/{worker}/task").glob("*/children"):
        try:
            children = task.read_text().split()
        except OSError:
            continue
        if children:
            return int(children[0])
    return None


def kill(times: int, folder: Path, seconds: float) -> dict[str, Any]:
    run, kills = Run(folder), Counter[str]()
    worker, end = run.start(), time.monotonic() + seconds
    while kills.total() < times and time.monotonic() < end:
        before = sum(map(len, (channel.received for channel in run.channels)))
        ready_by = time.monotonic() + 20
        while sum(map(len, (channel.received for channel in run.channels))) == before and time.monotonic() < ready_by:
            time.sleep(0.01)  # until the worker delivers again
        time.sleep(random.uniform(0, 0.6))
        target = random.choice(("everything", "service", "courier", "courier"))
        courier = courier_of(worker.pid)
        if target == "courier" and courier is not None:
            os.kill(courier, signal.SIGKILL)
        elif target == "everything":
            os.killpg(worker.pid, signal.SIGKILL)
        elif target == "service":
            worker.kill()
        else:
            continue
        kills[target] += 1
        if target != "courier":
            worker.wait()
            worker = run.start()
    os.killpg(worker.pid, signal.SIGKILL)
    worker.wait()
    for channel in run.channels:
        channel.is_healthy = True
    print(f"killed {dict(kills)}", file=sys.stderr, flush=True)
    worker = run.start(with_incidents=False)
    settled_by = time.monotonic() + SETTLE_SECONDS
    open_or_pending = (
        "SELECT (SELECT count(*) FROM incidents WHERE ended_at IS NULL)"
        " + (SELECT count(*) FROM deliveries WHERE next_attempt_at IS NOT NULL)"
    )
    while run.rows(open_or_pending)[0][0] and time.monotonic() < settled_by:
        time.sleep(0.2)
    os.killpg(worker.pid, signal.SIGKILL)
    worker.wait()
    return {
        "kills": dict(kills),
        "seconds to settle": round(time.monotonic() - settled_by + SETTLE_SECONDS),
        **check(run),
    }


def check(run: Run) -> dict[str, Any]:
    """Compare what the channels received with the incidents. Raises AssertionError."""
    jobs = [name for (name,) in run.rows("SELECT jobs.name FROM incidents JOIN jobs ON jobs.id = job_id")]
    assert jobs
    assert len(jobs) == len(set(jobs)), "each job has one incident"
    assert not run.rows("SELECT * FROM incidents WHERE ended_at IS NULL"), "an incident is still open"
    assert not run.rows("SELECT * FROM deliveries WHERE state <> 'sent'"), "not everything was sent"
    found = {"incidents": len(jobs), "alerts": 0, "recoveries": 0, "both in one message": 0, "duplicates": 0}
    for channel in run.channels:
        said: dict[str, list[tuple[str, bool]]] = defaultdict(list)
        contents: dict[str, set[tuple[str, bool]]] = {}
        for key, body in channel.received:
            news = {(one["job"], one["ended_at"] is not None) for one in body["incidents"]}
            assert contents.setdefault(key, news) == news, f"{key} was used for two messages"
            for job, is_over in news:
                said[job].append((key, is_over))
        found["duplicates"] += len(channel.received) - len(contents)
        for job in jobs:
            assert said[job], f"{job} was never reported"
            states = [is_over for _, is_over in dict.fromkeys(said[job])]
            assert states == sorted(states), f"{job}: the recovery came before the alert"
            assert states[-1], f"{job}: the recovery was never reported"
            found["alerts"] += not states[0]
            found["recoveries"] += states[-1]
            found["both in one message"] += states[0]
        found["attempts that failed"] = channel.failures["500"] + channel.failures["close"]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=540, help="stop killing after so long")
    parser.add_argument("--worker", type=Path)
    parser.add_argument("--start", type=float)
    parser.add_argument("--key")
    parser.add_argument("--incidents", action="store_true")
    given = parser.parse_args()
    if given.worker:
        work(given.worker, given.start, given.key, with_incidents=given.incidents)
    else:
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(kill(given.times, Path(folder), given.seconds), indent=2))


if __name__ == "__main__":
    main()
