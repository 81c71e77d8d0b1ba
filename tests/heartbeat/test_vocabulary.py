"""Each enumeration is defined once, and SQL takes its numbers from there."""

import re
from pathlib import Path

from obs.alerts.store.incidents import KINDS, IncidentKind
from obs.heartbeat.runs import KINDS as EVENT_KINDS, OUTCOMES, STATES, STATUSES, Kind, Status
from obs.heartbeat.source import STATE_SQL

OBS = Path(__file__).parents[2] / "obs"
NUMBER_IN_SQL = re.compile(r"\b(status|last_outcome|kind)\s*(=|<>|!=|IN|WHEN)\s*\(?\s*\d|CASE \?\d+ WHEN \d", re.I)


def test_a_word_stands_at_the_index_of_its_number() -> None:
    assert [STATUSES[status] for status in Status] == ["open", "success", "failed", "lost"]
    assert [EVENT_KINDS[kind] for kind in Kind] == ["start", "log", "end", "ping"]
    assert all(KINDS[kind] == kind.word for kind in IncidentKind)
    assert OUTCOMES == ("success", "failed", "lost")


def test_the_numbers_in_the_database_stay() -> None:
    assert {kind.word: kind.value for kind in IncidentKind} == {
        "overdue": 0,
        "failing": 1,
        "lost": 2,
        "overrunning": 3,
        "too_often": 4,
        "alert": 5,
    }


def test_incidents_are_ordered_by_severity_and_have_titles() -> None:
    assert tuple(kind.word for kind in IncidentKind) == (
        "failing",
        "lost",
        "overdue",
        "alert",
        "overrunning",
        "too_often",
    )
    assert [kind.title("nas/backup") for kind in IncidentKind] == [
        "nas/backup failing",
        "nas/backup lost a run",
        "nas/backup overdue",
        "nas/backup firing",
        "nas/backup overrunning",
        "nas/backup runs more often than expected",
    ]


def test_the_sql_for_the_state_of_a_job_knows_all_states() -> None:
    assert set(re.findall(r"(?:THEN|ELSE) '(\w+)'", STATE_SQL)) == set(STATES)


def test_no_sql_contains_a_number_of_a_status_or_kind() -> None:
    sql = [path for path in OBS.rglob("*.py") if "store" in path.as_posix() or path.name == "source.py"]
    assert len(sql) > 10
    assert [f"{path}: {found[0]}" for path in sql for found in NUMBER_IN_SQL.finditer(path.read_text())] == []
