"""The rows of alerts on queries, in the organization's file. `definition` is in JSON all that is not in a column."""

import json
import sqlite3
from dataclasses import asdict
from functools import partial

from obs.alerts.rules import Alert
from obs.alerts.store import incidents
from obs.errors import existing
from obs.storage.connection import delete_row, save_row


def alerts(db: sqlite3.Connection, alert_id: int | None = None) -> list[Alert]:
    """All alerts, in the order of their names, or the one with this id."""
    firing = incidents.firing(db, alert_id)
    rows = db.execute("SELECT id, name, definition FROM alerts WHERE ?1 IS NULL OR id = ?1 ORDER BY name", (alert_id,))
    return [Alert(id=at, name=name, **json.loads(text), firing=firing.get(at, {})) for at, name, text in rows]


def alert(db: sqlite3.Connection, alert_id: int) -> Alert:
    """The alert with this id. Raises ServiceError (404)."""
    is_possible = alert_id.bit_length() < 64  # SQLite has no larger numbers
    return existing("alert", alert_id, alerts(db, alert_id) if is_possible else ())


def save(db: sqlite3.Connection, alert: Alert) -> int:
    """See `save_row`. Raises sqlite3.IntegrityError where the name is taken."""
    definition = {name: value for name, value in asdict(alert).items() if name not in ("id", "name", "firing")}
    return save_row(db, "alerts", {"id": alert.id, "name": alert.name, "definition": json.dumps(definition)})


delete = partial(delete_row, table="alerts")
