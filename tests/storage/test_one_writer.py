"""Only the server writes to files that are in use, and only it checkpoints them. Commands prepare files of their own.

Every process of this test writes all SQL of all its connections to a log, with the hooks of ``sys.addaudithook``.
"""

import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.crash.served import Service, running_service
from tests.test_house import MODULES, _path

AUDIT = """
import itertools, json, os, sqlite3, sys, threading
log = os.open(os.environ["SQL_LOG"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
opened, numbers, connect = threading.local(), itertools.count(), sqlite3.connect

def note(number, name, sql):
    os.write(log, (json.dumps([os.getpid(), number, name, sql]) + "\\n").encode())

def hook(event, arguments):
    if event == "sqlite3.connect":
        opened.last = next(numbers), str(arguments[0])
        note(*opened.last, "open")

def traced(*arguments, **options):
    connection = connect(*arguments, **options)
    last = opened.last
    connection.set_trace_callback(lambda sql: note(*last, sql))
    return connection

sys.addaudithook(hook)
sqlite3.connect = traced
"""
SHORT_DEMO = "import obs.demo; obs.demo.DAYS = 1; from obs.cli import main; main()"
WRITES = re.compile(r"\s*(INSERT|UPDATE|DELETE|REPLACE|CREATE|DROP|ALTER|REINDEX|VACUUM|COMMIT)", re.I)
STATEMENT = "SELECT count(*) FROM runs LAST 1h"
NO_CHECKPOINTS = "PRAGMA wal_autocheckpoint = 0"


class Connection(NamedTuple):
    process: int
    path: Path
    is_read_only: bool
    statements: list[str]


class Audited:
    """A running server and commands beside it, all with their SQL logged."""

    def __init__(self, folder: Path, service: Service) -> None:
        self.log = folder / "sql.log"
        self.service = service

    def connections(self) -> list[Connection]:
        found: dict[tuple[int, int, str], list[str]] = defaultdict(list)
        for line in self.log.read_text().splitlines():
            process, number, name, sql = json.loads(line)
            found[process, number, name].append(sql)
        return [
            Connection(process, Path(name.removeprefix("file://").partition("?")[0]), "mode=ro" in name, statements)
            for (process, _, name), statements in found.items()
            if name != ":memory:" and len(statements) > 1  # not those that could not be opened
        ]

    def run(self, *command: str) -> list[Connection]:
        """The connections of a command to files that were in use before it began."""
        used = set(self.service.instance.rglob("*.db"))
        environment = {**os.environ, **self.service.environment, "OBS_INSTANCE": str(self.service.instance)}
        with subprocess.Popen([sys.executable, *command], env=environment, stdout=subprocess.PIPE) as process:
            process.communicate()
        assert process.returncode == 0, command
        return [each for each in self.connections() if each.process == process.pid and each.path in used]


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Audited]:
    folder = tmp_path_factory.mktemp("audited")
    (folder / "audit").mkdir()
    (folder / "audit" / "sitecustomize.py").write_text(AUDIT)
    environment = {"PYTHONPATH": str(folder / "audit"), "SQL_LOG": str(folder / "sql.log")}
    with running_service(folder, environment) as service:
        audited = Audited(folder, service)
        service.ask("POST", "/api/v1/heartbeat/nightly/ping")
        assert service.ask("POST", "/api/v1/dsl", body={"query": STATEMENT})[0] == 200
        yield audited


COMMANDS = {
    "org list": "org list",
    "org create": "org create second",
    "demo": "demo --org fourth",
    "org set-limit": "org set-limit crash query_max_rows 100",
    "key create": "key create crash --label x",
    "key list": "key list crash",
    "sign-in": "sign-in crash",
    "backup": "backup {folder}",
    "backup of one organization": "backup --org crash {folder}/one.db",
    "check": "check",
    "export": "export crash {folder}/exported",
    "import export": "import export {folder}/exported --org third",
    "restore of one organization": "restore {folder}/one.db --org crash",
    "org delete": "org delete third --yes",
}


@pytest.mark.slow
def test_commands_do_not_write_to_files_of_organizations_and_do_not_checkpoint(
    audited: Audited, tmp_path: Path
) -> None:
    for name, line in COMMANDS.items():
        arguments = line.format(folder=tmp_path).split()
        how = ("-c", SHORT_DEMO) if arguments[0] == "demo" else ("-m", "obs")
        connections = audited.run(*how, *arguments)
        assert connections, name
        for connection in connections:
            if not connection.is_read_only:
                assert NO_CHECKPOINTS in connection.statements, (name, connection)
            if connection.path.name != "control.db":
                written = [sql for sql in connection.statements if WRITES.match(sql)]
                if any("INSERT INTO audit " in sql for sql in written):  # an entry for a change in the control file
                    written = [sql for sql in written if "INSERT INTO audit " not in sql and sql != "COMMIT"]
                assert not written, (name, connection.path, written)
        assert audited.service.ask("POST", "/api/v1/heartbeat/nightly/ping")[0] == 200


def test_one_process_of_the_server_writes_and_checkpoints(audited: Audited) -> None:
    assert audited.service.ask("POST", "/api/v1/heartbeat/nightly/ping")[0] == 200
    path = audited.service.instance / "tenants" / "crash.1.db"
    connections = [each for each in audited.connections() if each.path == path]
    writers = {each.process for each in connections if any("INSERT INTO events" in sql for sql in each.statements)}
    assert len(writers) == 1
    for each in connections:
        assert each.is_read_only or each.process in writers or NO_CHECKPOINTS in each.statements, each
    assert {each.process for each in connections if each.is_read_only} - writers  # the query processes among them


@pytest.mark.parametrize("module", MODULES)
def test_files_are_opened_in_one_place(module: str) -> None:
    if module != "obs.storage.connection":
        assert "sqlite3.connect(" not in _path(module).read_text()
