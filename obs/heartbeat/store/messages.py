"""The full-text index of messages."""

import sqlite3


def has_more(db: sqlite3.Connection) -> bool:
    """Whether there are events that are not indexed yet."""
    row = db.execute("SELECT 1 FROM events WHERE id > (SELECT up_to FROM indexed_messages) LIMIT 1").fetchone()
    return row is not None


def index(db: sqlite3.Connection, limit: int) -> int:
    """Index the messages of the next `limit` events; returns how many events there were."""
    seen = "SELECT id, message FROM events WHERE id > (SELECT up_to FROM indexed_messages) ORDER BY id LIMIT ?"
    db.execute(
        f"INSERT INTO event_messages (rowid, message) SELECT id, message FROM ({seen}) WHERE message IS NOT NULL",
        (limit,),
    )
    last, count = db.execute(f"SELECT max(id), count(*) FROM ({seen})", (limit,)).fetchone()
    if count:
        db.execute("UPDATE indexed_messages SET up_to = ?", (last,))
    return int(count)
