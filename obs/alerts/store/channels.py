"""Channels in the control file: where alerts are sent, and which of them. Times are milliseconds since the epoch."""

import json
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

from obs.api import PLACE
from obs.storage.connection import delete_row, first_value, save_row
from obs.storage.databases import Org

EVENTS = ("failed", "overdue", "lost", "overrunning", "too_often", "alert", "schedule_changed")
"""The words for the events that a channel can be notified of."""
UNSET: Mapping[str, Any] = dict.fromkeys(("job_prefix", *PLACE, "reminder_hours", "quiet_hours"))
FILTER_DEFAULTS: Mapping[str, Any] = {"events": list(EVENTS[:-1]), **UNSET, "recoveries": True, "always_loud": []}
"""The fields of a channel that decide what it is sent, and when. Those in UNSET need no value."""


@dataclass(frozen=True, slots=True)
class Channel:
    """A channel. `address` and `secret` are never shown; `masked` is the address without its secret parts."""

    id: int
    name: str
    kind: str  # the module of `obs.alerts.courier` that sends to it
    address: str
    masked: str
    secret: str | None
    enabled: bool
    filter: Mapping[str, Any]  # the fields of FILTER_DEFAULTS

    def wants(self, event: str, job: str, where: object) -> bool:
        """Whether it is notified of an event of a job, whose place is in the attributes of `where`."""
        is_there = all(self.filter[name] in (None, getattr(where, name)) for name in PLACE)
        is_about = is_there and job.startswith(self.filter["job_prefix"] or "")  # an alert is not about a job
        return self.enabled and event in self.filter["events"] and (is_about or event == "alert")

    def quiet_until(self, events: Iterable[str], now_ms: int) -> int:
        """When the quiet hours end that keep a message about `events` of that time; `now_ms` where none do."""
        hours = self.filter["quiet_hours"]
        if hours is None or not set(self.filter["always_loud"]).isdisjoint(events):
            return now_ms
        now = datetime.fromtimestamp(now_ms / 1000, ZoneInfo(hours["timezone"]))
        start, end, clock = hours["from"], hours["until"], f"{now:%H:%M}"
        if not (start <= clock < end if start < end else clock >= start or clock < end):
            return now_ms
        day = now.date() if clock < end else now.date() + timedelta(days=1)
        ends = datetime.combine(day, time.fromisoformat(end), now.tzinfo)
        return max(now_ms, round(ends.timestamp() * 1000))


def channels_of(db: sqlite3.Connection, org: Org) -> list[Channel]:
    """The channels of an organization, in the order of their names."""
    found = f"SELECT {', '.join(Channel.__slots__)} FROM channels WHERE organization_id = ? ORDER BY name"
    rows = db.execute(found, (org.id,))
    return [Channel(**{**dict(row), "filter": {**FILTER_DEFAULTS, **json.loads(row["filter"])}}) for row in rows]


def save(db: sqlite3.Connection, values: Mapping[str, Any]) -> int:
    """Save a channel, of one with an id only what is sent: see `save_row`. IntegrityError means the name is taken."""
    columns = {name: values[name] for name in ("organization_id", *Channel.__slots__) if name in values}
    known = json.loads(first_value(db, "SELECT filter FROM channels WHERE id = ?", (values["id"],)) or "{}")
    return save_row(db, "channels", {**columns, "filter": json.dumps({**known, **values["filter"]})})


delete = partial(delete_row, table="channels")
