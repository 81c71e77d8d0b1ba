"""CONTAINS, LIKE and =~ find the same messages with the full-text index as without it."""

import re
import sqlite3
from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask

from obs.heartbeat.store import upkeep
from obs.services import services
from obs.storage.databases import in_batches
from obs.tenancy import auth
from tests.conftest import ACME, KeyClient

Ask = Callable[..., dict[str, Any]]
TEXTS = [
    "disk full",
    "DISK full",
    "größe",
    "GRÖSSE",
    "a\0disk full",
    'say "disk"',
    "100% disk_full",
    r"d?sk *[f\ull",
    "日本語のログ",
    "x" * 10_000,
    "bcde and abcd",
    "one line of a log that is longer than the trigrams that are asked for, said once",
    "one line of a log that is longer, said once, than the trigrams that are asked for",
    "",
    None,
]
PARTS = [
    "disk",
    "DISK",
    "dis",
    "di",
    "ö",
    "größe",
    "k full",
    '"disk"',
    "%",
    "_full",
    "本語の",
    "xxxx",
    "abcde",
    "bcde and abcd",
    "one line of a log that is longer than the trigrams that are asked for, said once",
    "\0di",
    "nothing",
    "AND",
    "*",
]


@pytest.fixture
def index(app: Flask, client: Any) -> Callable[[], int]:
    tenancy: auth.Tenancy = services(app).tenancy
    return lambda: in_batches(tenancy.databases, ACME, upkeep.index_messages)


@pytest.fixture
def logged(write: Any, shop: None) -> None:
    write(lambda db: _log(db, TEXTS))


def _log(db: sqlite3.Connection, texts: list[str | None]) -> None:
    now = 1_782_035_000_000
    db.executemany(
        "INSERT INTO events (job_id, kind, received_at, time, message) VALUES (1, 1, ?, 0, ?)",
        [(now + number, text) for number, text in enumerate(texts)],
    )


def _found(ask: Ask, part: str) -> list[Any]:
    """The messages that contain a text; the same ones are found with LIKE and =~."""
    found = []
    escaped = re.sub(r"([%_!])", r"!\1", part)
    for condition in (f"CONTAINS '{part}'", f"LIKE '%{escaped}%' ESCAPE '!'", f"=~ '{re.escape(part)}'"):
        clauses = f"message {condition} AND time >= '2026-06-21T09:43:20Z' LAST 1d"
        answer = ask(f"SELECT message FROM logs WHERE {clauses}")
        found.append([row[0] for row in answer["rows"]])
    assert found[1:] == found[:1] * 2
    return found[0]


def _expected(part: str) -> list[str]:
    return [text for text in TEXTS if text is not None and part in text]


@pytest.mark.usefixtures("logged")
@pytest.mark.parametrize("part", PARTS)
def test_the_same_is_found_before_and_after_indexing(ask: Ask, index: Callable[[], int], part: str) -> None:
    assert _found(ask, part) == _expected(part)
    assert index() > 0
    assert index() == 0
    assert _found(ask, part) == _expected(part)


@pytest.mark.usefixtures("logged")
@pytest.mark.parametrize(
    "pattern",
    [
        "disk (full|empty)",
        "^disk",
        "^(disk|größe)",
        "^disk|größe",
        "(disk|DISK) full",
        "^(d|D)(isk|ISK)",
        "^(?:disk|größe)",
        "disk.*full",
        "disk|größe",
        "disks? full",
        "disk* full",
        "abcde{0}",
        "abcd+$",
        "(?i)disk",
        "(?i)^disk",
        "(?i)^(SAY|disk) ",
        "(?i)100% disk_FULL|longer, said",
        "(?i)größe",
        "(?i)a\0disk",
        "dis(k|c) full",
        "dis(k)|(c)",
        "one (line|part) of .* said once$",
        "bcd(e|(f|g)) and",
        r"nothing\(|disk\(|full",
        "nothing[(]|disk[)]|full",
        "nothing[|(]|full",
        "(größe|disk full)",
        "(größe)|(disk)",
        "(nothing)|disk",
        "nothing|(disk)",
        "nothing|",
        "|".join([*(f"nothing {number}" for number in range(30)), "disk"]),
        "",
    ],
)
def test_a_regular_expression_finds_the_same_with_the_index(ask: Ask, index: Callable[[], int], pattern: str) -> None:
    statement = f"SELECT message FROM logs WHERE message =~ '{pattern}' AND time >= '2026-06-21T09:43:20Z' LAST 1d"
    expected = [[text] for text in TEXTS if text is not None and re.search(pattern, text)]
    assert ask(statement)["rows"] == expected
    others = [[text] for text in TEXTS if text is not None and not re.search(pattern, text)]
    assert ask(statement.replace("=~", "!~"))["rows"] == others
    index()
    assert ask(statement)["rows"] == expected


@pytest.mark.usefixtures("logged")
@pytest.mark.parametrize(
    "pattern",
    [
        "disk%",
        "DISK%",
        "größe%",
        "%k%f_ll%",
        "d_sk%",
        "a%full",
        "dis%full",
        "%",
        "%%",
        "日%の%",
        "%abc" * 500,
        "",
        "disk full",
        "%?%*%[%",
        r"%*[f\ull",
        "[d]%",
        "*%disk*",
        "a",
        "A_disk full",
    ],
)
@pytest.mark.parametrize("ignores_case", [False, True])
def test_like_finds_the_same_with_the_index(
    ask: Ask, index: Callable[[], int], pattern: str, ignores_case: bool
) -> None:
    operator, flags = ("ILIKE", re.IGNORECASE) if ignores_case else ("LIKE", 0)
    matches = re.compile(re.escape(pattern).replace("%", ".*").replace("_", "."), re.DOTALL | flags).fullmatch
    for _ in range(2):
        for negation in ("", "NOT "):
            condition = f"message {negation}{operator} '{pattern}' AND time >= '2026-06-21T09:43:20Z'"
            found = [row[0] for row in ask(f"SELECT message FROM logs WHERE {condition} LAST 1d")["rows"]]
            assert found == [text for text in TEXTS if text is not None and bool(matches(text)) is not bool(negation)]
        index()


@pytest.mark.usefixtures("logged")
@pytest.mark.parametrize("part", PARTS)
def test_ilike_ignores_the_case_of_a_part(ask: Ask, index: Callable[[], int], part: str) -> None:
    escaped = re.sub(r"([%_!])", r"!\1", part)
    like = f"message ILIKE '%{escaped}%' ESCAPE '!'"
    statement = f"SELECT message FROM logs WHERE {like} AND time >= '2026-06-21T09:43:20Z' LAST 1d"
    expected = [[text] for text in TEXTS if text is not None and part.lower() in text.lower()]
    assert ask(statement)["rows"] == expected
    index()
    assert ask(statement)["rows"] == expected


@pytest.mark.usefixtures("logged")
def test_deleted_messages_are_not_found_and_their_ids_can_be_reused(
    ask: Ask, write: Any, index: Callable[[], int]
) -> None:
    index()
    write(lambda db: _log(db, ["said after the index was written"]))
    write(lambda db: db.execute("DELETE FROM events WHERE instr(message, 'disk') OR id > 10"))
    assert _found(ask, "disk") == []
    write(lambda db: _log(db, ["a new disk"]))
    assert _found(ask, "disk") == ["a new disk"]
    assert index() > 0
    assert _found(ask, "disk") == ["a new disk"]
    write(lambda db: db.execute("INSERT INTO event_messages (event_messages) VALUES ('integrity-check')"))


@pytest.mark.usefixtures("logged")
@pytest.mark.parametrize(
    ("condition", "is_searched"),
    [
        ("CONTAINS 'needle'", True),
        ("LIKE '%needle%'", True),
        ("LIKE 'a_%!%nee%' ESCAPE '!'", True),
        ("LIKE '%ne%'", False),
        ("NOT LIKE '%needle%'", False),
        ("ILIKE '%Needle%'", True),
        ("ILIKE '%edible%'", True),
        ("ILIKE '%i\u0131i%'", False),
        ("=~ 'in hay'", True),
        ("=~ 'needles?'", True),
        ("=~ '^needle: (in|on) hay'", True),
        ("=~ 'needle(s|)'", True),
        ("=~ 'needle|pin'", False),
        ("=~ '(needle|pin) in'", False),
        ("=~ 'nee?dle'", False),
        ("=~ 'ne.dle'", False),
        ("CONTAINS 'needle' OR job = 'mail'", False),
    ],
)
def test_a_rare_text_is_found_without_reading_every_message(
    ask: Ask, index: Callable[[], int], condition: str, is_searched: bool
) -> None:
    index()
    answer = ask(f"EXPLAIN SELECT message FROM logs WHERE message {condition} LAST 90d")
    plan = [text for what, text in answer["rows"] if what == "plan"]
    assert any("event_messages VIRTUAL TABLE" in text for text in plan) == is_searched


@pytest.mark.usefixtures("shop")
def test_ilike_finds_the_same_messages_with_the_index(ask: Ask, write: Any, index: Callable[[], int]) -> None:
    letters: list[str | None] = [
        "diskette",
        "DISKETTE",
        "d\u0131skette",
        "D\u0130SKETTE",
        "di\u017fkette",
        "dis\u212aette",
        "GRÖẞE",
    ]
    write(lambda db: _log(db, letters))
    patterns = ["%disk%", "%SKETTE", "_i_kette", "%größe%", "%sk_tte"]
    statements = [f"SELECT message FROM logs WHERE message ILIKE '{each}' LAST 1h" for each in patterns]
    before = [ask(statement)["rows"] for statement in statements]
    assert [len(rows) for rows in before] == [6, 6, 6, 2, 6]
    assert index() > 0
    assert [ask(statement)["rows"] for statement in statements] == before


def test_the_latest_messages_with_a_frequent_text_are_found_without_the_index(
    ask: Ask, write: Any, shop: None, index: Any
) -> None:
    now = 1_782_036_000_000
    add = "INSERT INTO events (job_id, kind, received_at, time, message) VALUES (1, 1, ?, 0, ?)"
    every_third = [(now - number, "needle" if number % 3 == 0 else "hay") for number in range(18_000, 0, -1)]
    write(lambda db: db.executemany(add, every_third))
    write(lambda db: db.execute(add, (now - 9_000, "pin")))
    index()
    for condition, is_searched, count in (
        ("message CONTAINS 'needle'", False, 50),
        ("message ILIKE '%NEEDLE%'", False, 50),
        ("message CONTAINS 'pin'", True, 1),
        ("message CONTAINS 'needle' AND message CONTAINS 'pin'", True, 0),
        ("message LIKE '%needle%pin%'", True, 0),
        ("message CONTAINS 'need' AND message CONTAINS 'eedle'", False, 50),
    ):
        statement = f"SELECT message FROM logs WHERE {condition} ORDER BY time DESC LIMIT 50 LAST 1h"
        plan = [text for what, text in ask(f"EXPLAIN {statement}")["rows"] if what == "plan"]
        assert any("VIRTUAL TABLE" in text for text in plan) == is_searched
        assert len(ask(statement)["rows"]) == count


@pytest.mark.parametrize(("share", "is_searched"), [(3, False), (5, True)])
def test_messages_with_a_very_frequent_text_are_counted_without_the_index(
    ask: Ask, write: Any, shop: None, index: Any, share: int, is_searched: bool
) -> None:
    now = 1_782_036_000_000
    add = "INSERT INTO events (job_id, kind, received_at, time, message) VALUES (1, 1, ?, 0, ?)"
    rows = [(now - number, "needle" if number % share == 0 else "hay") for number in range(30_000, 0, -1)]
    write(lambda db: db.executemany(add, rows))
    index()
    statement = "SELECT count(*) FROM logs WHERE message CONTAINS 'needle' AND host IS NULL EVERY 1h LAST 1h"
    plan = [text for what, text in ask(f"EXPLAIN {statement}")["rows"] if what == "plan"]
    assert any("VIRTUAL TABLE" in text for text in plan) == is_searched
    assert sum(row[1] for row in ask(statement)["rows"]) == 30_000 // share


def test_messages_are_found_whose_ids_are_in_another_order_than_their_times(
    ask: Ask, write: Any, shop: None, index: Any
) -> None:
    """As after a clock was set. Of a frequent word, only the ids in the window are searched, unless there are many."""
    now, half_hour = 1_782_036_000_000, 1_800_000
    add = "INSERT INTO events (job_id, kind, received_at, time, message) VALUES (1, 1, ?, 0, ?)"
    numbers = (50, 1, 7, 0, 3, 60, 2, 49)
    rows = [(now - number * half_hour - 1, f"needle {number}") for number in numbers]
    write(lambda db: db.executemany(add, rows))
    write(lambda db: db.executemany(add, [(now - 100 * half_hour, "needle")] * 6_000))
    write(lambda db: db.executemany(add, [(now - 30 * half_hour, None)] * 100_000))
    write(lambda db: db.execute(add, (now - 25 * half_hour, "needle 25")))
    index()
    for hours in (1, 2, 13, 15, 24, 48):
        found = ask(f"SELECT message FROM logs WHERE message CONTAINS 'needle' LAST {hours}h")["rows"]
        expected = {number for number in (*numbers, 25) if number < 2 * hours}
        assert {row[0] for row in found} == {f"needle {number}" for number in expected}


def test_a_frequent_word_is_looked_for_only_in_the_window(
    client: KeyClient, write: Any, shop: None, index: Any
) -> None:
    now, minute, text = 1_782_036_000_000, 60_000, "needle" + 400 * "-"
    add = "INSERT INTO events (job_id, kind, received_at, time, message) VALUES (1, 1, ?, 0, ?)"
    write(lambda db: db.executemany(add, [(now - number * minute, text) for number in range(30_000, 0, -1)]))
    index()

    def search(window: str) -> tuple[Any, int]:
        query = {"query": f"SELECT count(*) FROM logs WHERE message CONTAINS 'needle' LAST {window}"}
        response = client.post("/api/v1/dsl", json=query)
        return response.json["rows"], int(response.headers["X-Query-Bytes-Scanned"])

    (at_last, few_bytes), (in_month, many_bytes) = search("30m"), search("30d")
    assert (at_last, in_month) == ([[30]], [[30_000]])
    assert few_bytes * 4 < many_bytes, "the messages outside the window are read as well"


@pytest.mark.usefixtures("logged")
def test_an_index_with_positions_is_rebuilt(app: Flask, ask: Ask, write: Any, index: Callable[[], int]) -> None:
    """Files that were created before the index was written without positions have such an index."""

    def go_back(db: sqlite3.Connection) -> None:
        db.execute("DROP TABLE event_messages")
        db.execute(
            "CREATE VIRTUAL TABLE event_messages USING fts5("
            "message, content = 'events', content_rowid = 'id', columnsize = 0, tokenize = 'trigram')"
        )
        db.execute("UPDATE indexed_messages SET up_to = 0")
        assert db.execute("DELETE FROM _sqlite_migrations WHERE name = 'messages_without_positions'").rowcount == 1

    write(go_back)
    index()
    databases = services(app).tenancy.databases
    databases.forget(ACME)
    databases.create(ACME)
    (definition,) = write(
        lambda db: db.execute("SELECT sql FROM sqlite_schema WHERE name = 'event_messages'").fetchone()
    )
    assert "detail = none" in definition
    assert _found(ask, "disk") == _expected("disk")
    assert index() > 0
    assert _found(ask, "disk") == _expected("disk")
