"""Taking a heartbeat: from what was sent to the answer, when it is on disk."""

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

from obs.heartbeat.queue import SweepQueue
from obs.heartbeat.runs import KINDS, STATUSES, Kind
from obs.heartbeat.store.record import record
from obs.ingest import reading
from obs.tenancy.auth import Caller, Tenancy
from obs.times import DAY_MS, format_ms

SCOPE = "heartbeat:write"
ANSWER_HEADERS = {
    "Content-Type": "application/json",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
}


class Intake:
    """Takes heartbeats, however they came in: it knows WSGI and not Flask."""

    def __init__(self, tenancy: Tenancy, watch: SweepQueue, keep_days: int) -> None:
        """`watch` is told of each heartbeat; one that is older than `keep_days` is refused."""
        self.tenancy = tenancy
        self.watch = watch
        self._keep_ms = keep_days * DAY_MS

    def take(self, sender: Caller, environ: Mapping[str, Any], body: bytes, kind: Kind, name: str | None) -> bytes:
        """Record the heartbeat of the job `name`, None where the body names it; returns the JSON of the answer.

        Raises ServiceError; then nothing is recorded.
        """
        now_ms = sender.now_ms
        oldest_ms = now_ms - self._keep_ms
        if name is None:
            name, heartbeat = reading.from_body(environ, body, kind, now_ms, oldest_ms)
        else:
            name, heartbeat = reading.from_path(environ, body, kind, name, now_ms, oldest_ms)
        recorded = sender.write(
            partial(
                record,
                name=name,
                heartbeat=heartbeat,
                attribution=reading.attribution(environ),
                idempotency_key=reading.idempotency_key(environ),
                now_ms=now_ms,
            )
        )
        self.watch.note(sender.org)
        answer = {
            "job": name,
            "event": KINDS[kind],
            "run_id": recorded.run_id,
            "run_status": None if recorded.run_status is None else STATUSES[recorded.run_status],
            "time": format_ms(recorded.time),
        }
        return json.dumps(answer).encode()
