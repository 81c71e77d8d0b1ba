"""A migration step that has landed is never edited: files out there have already run it.

Each step's code is recorded as a hash, without its docstring and comments. A new step gets a new line here; to get its
hash, run the test. Where an old hash no longer matches, put the change into a new step.
"""

import ast
import hashlib
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent.parent / "migrations"
LANDED = {
    "control.py": {
        "organizations_and_keys": "a8802638713e7ca9",
        "credentials_version": "7ee78615d00d2803",
        "query_limits": "3fdbfd708bb7e837",
        "deleted_organizations": "c1cfb90be11434c7",
        "trusted_clock": "ed416102b39b127c",
        "page_sessions": "62b38a75d2070e4e",
        "limits_of_organizations": "8c532c535702c2db",
        "organizations_of_ping_urls": "54a5c39fb365f344",
        "channels": "29d8901a9eca7b00",
        "sessions_without_programs": "dfcef2bef25108b2",
        "users_of_the_pages": "4906c07a1a97ae0a",
        "viewer_zones": "eed425c236628a31",
    },
    "tenant.py": {
        "annotations": "61a84e2e47dcd60e",
        "heartbeats": "5f6a29efc648404c",
        "schedules_and_incidents": "86c299437c1accb3",
        "event_messages": "60d7b9ee27ac1501",
        "rolled_up_runs": "a696a8892c4af13d",
        "revisions_of_jobs": "f0c52c8cf1e1634a",
        "messages_without_positions": "28f8ecb28dd7fbed",
        "renamed_expectations": "3a838a69e91d6fa3",
        "normalized_names_of_jobs": "0d3dda585b7bf09f",
        "audit_log": "c11c93efde48d1df",
        "last_use_of_attributions": "47ea095a44e5e394",
        "changes_of_jobs": "378d0355ffe48a8e",
        "first_heartbeats_and_recent_durations": "267d0972874f36b9",
        "ping_urls_of_jobs": "7b2eee7cf476489d",
        "runs_by_series": "23e2b54b5f0d5cc9",
        "memories_of_jobs": "6ccfd46e10a35a4a",
        "unknown_times_of_jobs": "e351456c3c81f64a",
        "an_index_of_counts_by_day": "afda3879c08a5fd6",
        "deliveries": "43817aa4c6bcbaca",
        "counted_runs": "6cad4eb587ba87b6",
        "events_outside_of_runs": "913623e2e1b89d7b",
        "outcomes_counted_by_job": "e06635a46b78b92c",
        "where_learning_begins": "fcbe3b7912f3c026",
        "events_of_deliveries": "acbc805eac543d9b",
        "alerts_on_queries": "f3eba26f4815279f",
        "windows_of_some_jobs": "5d9a1b875ec0de64",
        "verdicts_on_incidents": "a75abb6fdec2efad",
        "totals_by_five_minutes": "64b789f2ce2f431d",
        "series_by_week": "57c716a7576e2bf4",
        "schedules_of_hosts": "36349ac2953bcc50",
        "hosts_end_in_code": "b13650a3a8fe90bd",
        "problems_are_found_in_code": "84bc5ada6b949879",
        "hosts_survive_corrections": "a9ab92813752f582",
        "series_of_events": "63b354bacc09fbbb",
        "counts_of_hours": "deaee8137176b0ea",
        "failures_of_jobs": "311378f8f24d6d5a",
        "series_of_places": "b3b918438525e9f5",
        "hours_in_order_of_time": "554210ed9281d68c",
        "places_in_order_of_time": "978eea75266214ea",
        "days_and_weeks_in_order_of_time": "24be0a0539cf0a04",
    },
}


def _steps(file: str) -> dict[str, str]:
    """The hash of each step of a file, by name, in the order in which they run."""
    steps = {}
    text = (FOLDER / file).read_text()
    lines = text.splitlines()
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and any(ast.unparse(one) == "migrations()" for one in node.decorator_list):
            first = node.body[1] if ast.get_docstring(node) is not None else node.body[0]
            code = [line for line in lines[first.lineno - 1 : node.end_lineno] if not line.lstrip().startswith("#")]
            steps[node.name] = hashlib.sha256("\n".join(code).encode()).hexdigest()[:16]
    return steps


@pytest.mark.parametrize("file", LANDED)
def test_no_landed_step_was_edited_removed_or_moved(file: str) -> None:
    assert list(_steps(file).items())[: len(LANDED[file])] == list(LANDED[file].items())


@pytest.mark.parametrize("file", LANDED)
def test_every_step_is_recorded(file: str) -> None:
    assert _steps(file).keys() == LANDED[file].keys()


def test_every_file_of_migrations_is_recorded() -> None:
    assert {path.name for path in FOLDER.glob("*.py")} - {"__init__.py"} == LANDED.keys()
