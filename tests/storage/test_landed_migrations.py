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
        "organizations_and_keys": "a901d5b9096cc6ea",
        "credentials_version": "3ed3601446d3d654",
        "query_limits": "fc08b41d6868bc04",
    },
    "tenant.py": {
        "annotations": "c8750c05df54398c",
        "heartbeats": "560d2064926db9fb",
        "schedules_and_incidents": "5127aee3b7e5c6c9",
        "event_messages": "7dc92d9a4dddeb1f",
        "rolled_up_runs": "471637f3ef7566ac",
        "revisions_of_jobs": "cb3cf5ccfcda9ea1",
        "messages_without_positions": "000530ff9832c407",
    },
}


def _steps(file: str) -> dict[str, str]:
    """The hash of each step of a file, by name, in the order in which they run."""
    steps = {}
    for node in ast.parse((FOLDER / file).read_text()).body:
        if isinstance(node, ast.FunctionDef) and any(ast.unparse(one) == "migrations()" for one in node.decorator_list):
            if ast.get_docstring(node) is not None:
                node.body = node.body[1:]
            steps[node.name] = hashlib.sha256(ast.unparse(node).encode()).hexdigest()[:16]
    return steps


@pytest.mark.parametrize("file", LANDED)
def test_no_landed_step_was_edited_removed_or_moved(file: str) -> None:
    assert list(_steps(file).items())[: len(LANDED[file])] == list(LANDED[file].items())


@pytest.mark.parametrize("file", LANDED)
def test_every_step_is_recorded(file: str) -> None:
    assert _steps(file).keys() == LANDED[file].keys()


def test_every_file_of_migrations_is_recorded() -> None:
    assert {path.name for path in FOLDER.glob("*.py")} - {"__init__.py"} == LANDED.keys()
