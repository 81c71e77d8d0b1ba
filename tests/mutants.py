"""How many small changes to the code do the tests notice? Makes changes one at a time and runs the tests of their area.

    python -m tests.mutants [--mutants 200] [--seed 1] [--area query --area storage] [--seconds 300]

Works on a copy of the project. A mutant is noticed when a test of its area fails, or else one of all the tests. One
that takes longer than --seconds may be an endless loop, or the machine may be busy. Prints each mutant with its
outcome, then the outcomes by area. The same seed chooses the same mutants of the same code. Tests that are slow, need a
browser or stop processes do not run, and neither do the tests of style and types. An area whose tests fail on unchanged
code is an error.
"""

import argparse
import ast
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
COPIED = (
    "obs",
    "migrations",
    "tests",
    "docs",
    "app.py",
    "pyproject.toml",
    "README.md",
    "requirements.lock",
    "requirements-test.lock",
    ".ci",
)
STATEMENTS = (
    *("tests/query/test_answers.py", "tests/query/test_expressions.py", "tests/query/test_clauses.py"),
    *("tests/query/test_buckets.py", "tests/query/test_show_and_explain.py"),
)
ROLLUPS = ("tests/query/test_rollups.py", "tests/query/test_reading_rollups.py", "tests/query/test_rolling_up.py")
TESTS_BY_FOLDER = {  # the longest one that a module's path begins with
    "obs/": ("tests/test_times.py", "tests/test_errors.py", "tests/test_config.py", "tests/alerts"),
    "obs/alerts": ("tests/alerts", "tests/dashboard/test_changes_wake_the_sweep.py"),
    "obs/annotations": ("tests/annotations", "tests/alerts/test_incidents.py"),
    "obs/background.py": ("tests/alerts", "tests/heartbeat/test_sweep.py", "tests/heartbeat/test_purge.py"),
    "obs/dashboard": ("tests/dashboard",),
    "obs/heartbeat": ("tests/alerts", *sorted(map(str, Path("tests/heartbeat").glob("test_*.py")))),
    "obs/heartbeat/schedule": ("tests/heartbeat/schedule", "tests/alerts"),
    "obs/heartbeat/store/rollups.py": ("tests/query/test_rollups_of_two_processes.py", *ROLLUPS),
    "obs/ingest": ("tests/ingest", "tests/heartbeat/test_run_ids.py", "tests/heartbeat/test_attribution.py"),
    "obs/query": ("tests/query",),
    "obs/query/language": ("tests/query/test_errors.py", *STATEMENTS),
    "obs/query/language/functions.py": (
        *("tests/query/test_percentiles.py", "tests/query/test_docs.py", "tests/query/test_duckdb.py"),
        *STATEMENTS,
    ),
    "obs/query/sql": ("tests/query/test_duckdb.py", *STATEMENTS),
    "obs/query/sql/cover.py": ROLLUPS,
    "obs/query/sql/rollup.py": ROLLUPS,
    "obs/server": (
        *("tests/test_errors.py", "tests/test_monitoring.py", "tests/strangers"),
        *("tests/test_serving.py", "tests/test_served_requests.py"),
    ),
    "obs/sweep.py": ("tests/alerts", "tests/heartbeat/test_sweep.py", "tests/heartbeat/test_relearning.py"),
    "obs/storage": ("tests/storage", "tests/heartbeat/test_purge.py"),
    "obs/tenancy": ("tests/tenancy", "tests/dashboard/test_sign_in.py", "tests/dashboard/test_rights_and_refusals.py"),
}
ALL_TESTS = ("tests", "--ignore", "tests/test_code.py")
PASSED = "SURVIVED"
NOT_MUTATED = ("demo", "benchmarks")
_SWAPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_SQL = re.compile(r"\b(WHERE|HAVING|CASE WHEN|ON)\b")
_SQL_SWAPPED = {"<=": "<", ">=": ">", "<": "<=", ">": ">=", "AND": "OR", "OR": "AND", "DESC": "ASC", "<>": "="}
_SQL_WORD = re.compile(r"<=|>=|<>|<|>|\bAND\b|\bOR\b|\bDESC\b")

Change = Callable[[], None]


@dataclass(frozen=True)
class Mutant:
    """One change: the file, its line, the code before and after, and the file's text with it."""

    path: Path
    line: int
    before: str
    after: str
    text: str

    @property
    def area(self) -> str:
        parts = self.path.parts
        return parts[1] if len(parts) > 2 else "other"

    @property
    def tests(self) -> tuple[str, ...]:
        """Files and folders of the tests that should notice it."""
        return TESTS_BY_FOLDER[max((one for one in TESTS_BY_FOLDER if str(self.path).startswith(one)), key=len)]


def changes(tree: ast.Module) -> Iterator[tuple[ast.AST, Change]]:
    """All changes that can be made to a module: the node that changes, and what changes it."""
    documentation = {
        id(node.body[0])
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and isinstance(node.body[0], ast.Expr)
    }
    decorators = [decorator for node in ast.walk(tree) for decorator in getattr(node, "decorator_list", ())]
    in_decorators = {id(node) for decorator in decorators for node in ast.walk(decorator)}
    for node in ast.walk(tree):
        if id(node) in in_decorators:  # frozen=True and the like
            continue
        for field in ("body", "orelse", "finalbody"):
            found = getattr(node, field, None)
            statements: list[ast.stmt] = found if isinstance(found, list) else []
            for place, statement in enumerate(statements):
                if id(statement) in documentation:
                    continue
                if isinstance(statement, ast.AugAssign) or (
                    isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)
                ):
                    yield statement, _replaces(statements, place, ast.Pass())
        yield from _changes_of_expression(node)


def _changes_of_expression(node: ast.AST) -> Iterator[tuple[ast.AST, Change]]:
    match node:
        case ast.Compare(ops=[operator]):
            yield node, _sets(node, "ops", [_SWAPPED[type(operator)]()])
        case ast.BoolOp():
            yield node, _sets(node, "op", ast.Or() if isinstance(node.op, ast.And) else ast.And())
        case ast.UnaryOp(op=ast.Not()):
            yield node, _sets(node, "operand", ast.UnaryOp(ast.Not(), node.operand))
        case ast.Return(value=ast.expr() as value) if not (isinstance(value, ast.Constant) and value.value is None):
            yield node, _sets(node, "value", ast.Constant(None))
        case ast.Constant(value=bool() as value):
            yield node, _sets(node, "value", not value)
        case ast.Constant(value=int() as value):
            yield node, _sets(node, "value", value + 1)
        case ast.BinOp(op=ast.Add() | ast.Sub()):
            yield node, _sets(node, "op", ast.Sub() if isinstance(node.op, ast.Add) else ast.Add())
        case ast.Constant(value=str() as text) if _SQL.search(text):
            for found in _SQL_WORD.finditer(text):
                changed = text[: found.start()] + _SQL_SWAPPED[found[0]] + text[found.end() :]
                yield node, _sets(node, "value", changed)


def _sets(node: ast.AST, field: str, value: object) -> Change:
    return lambda: setattr(node, field, value)


def _replaces(statements: list[ast.stmt], place: int, statement: ast.stmt) -> Change:
    def change() -> None:
        statements[place] = ast.copy_location(statement, statements[place])

    return change


def mutants_of(path: Path) -> int:
    """How many mutants there are of a file."""
    return sum(1 for _ in changes(ast.parse((ROOT / path).read_text())))


def make_mutant(path: Path, number: int) -> Mutant:
    """The mutant of that number of a file."""
    tree = ast.parse((ROOT / path).read_text())
    node, change = list(changes(tree))[number]
    before, line = ast.unparse(node), getattr(node, "lineno", 0)
    unchanged = ast.unparse(tree).splitlines()
    change()
    text = ast.unparse(ast.fix_missing_locations(tree))
    after = [new for old, new in zip(unchanged, text.splitlines(), strict=False) if old != new][:1]
    return Mutant(path, line, before, after[0].strip() if after else "(removed)", text + "\n")


def choose(count: int, seed: int, areas: list[str]) -> list[Mutant]:
    """Mutants at random, each file in proportion to what there is to change in it."""
    files = sorted(path.relative_to(ROOT) for path in (ROOT / "obs").rglob("*.py"))
    all_of_them = [
        (path, number)
        for path in files
        if not set(path.parts) & set(NOT_MUTATED)
        for number in range(mutants_of(path))
        if not areas or Mutant(path, 0, "", "", "").area in areas
    ]
    chosen = random.Random(seed).sample(all_of_them, min(count, len(all_of_them)))
    return [make_mutant(path, number) for path, number in chosen]


def outcome_of(mutant: Mutant, folder: Path, seconds: float) -> str:
    """What the tests say with the mutant in the copy of the project in `folder`."""
    unchanged = (folder / mutant.path).read_text()
    (folder / mutant.path).write_text(mutant.text)
    try:
        outcome = run_tests(mutant.tests, folder, seconds)
        return outcome if outcome != PASSED else run_tests(ALL_TESTS, folder, 4 * seconds)
    finally:
        (folder / mutant.path).write_text(unchanged)


def run_tests(tests: tuple[str, ...], folder: Path, seconds: float) -> str:
    """The outcome of `tests` in the copy of the project in `folder`."""
    options = ["-x", "-q", "-n", "0", "-p", "no:cacheprovider", "-m", "not slow and not browser"]
    if tests is ALL_TESTS:
        options = [*options[:-1], "not slow and not browser and not crash"]
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", *options, *tests],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "OBS_QUERY_EXAMPLES": "200"},
    )
    try:
        return PASSED if process.wait(seconds) == 0 else "noticed"
    except subprocess.TimeoutExpired:
        return "timed out"
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--mutants", type=int, default=200)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--area", action="append", default=[], metavar="FOLDER")
    arguments.add_argument("--seconds", type=float, default=300)
    options = arguments.parse_args()
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for name in COPIED:
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            copy(ROOT / name, folder / name)
        chosen = choose(options.mutants, options.seed, options.area)
        for tests in sorted({mutant.tests for mutant in chosen}):
            if run_tests(tests, folder, 4 * options.seconds) != PASSED:
                raise SystemExit(f"These tests fail without a change: {' '.join(tests)}")
        for mutant in chosen:
            begun = time.monotonic()
            outcome = outcome_of(mutant, folder, options.seconds)
            counts[mutant.area][outcome] += 1
            print(
                f"{outcome:9} {time.monotonic() - begun:4.0f} s {mutant.path}:{mutant.line}:"
                f" {mutant.before[:100]!r} -> {mutant.after[:100]!r}",
                flush=True,
            )
    for area, outcomes in sorted(counts.items()):
        print(f"{area:12} {dict(outcomes)}")
    print(f"{'all':12} {dict(sum(counts.values(), Counter[str]()))}")


if __name__ == "__main__":
    main()
