"""``obs export`` and ``obs import export``."""

import json
import time
from pathlib import Path

import pytest
from flask import Flask

from obs.backup.transfer import LEFT_OUT
from obs.services import services
from tests.backup.conftest import file_of, stored
from tests.conftest import Clock, KeyClient
from tests.dashboard.conftest import Visitor
from tests.tenancy.conftest import Obs

EXPORTED = {
    "alerts",
    "annotations",
    "attributions",
    "events",
    "incidents",
    "jobs",
    "maintenance_windows",
    "ping_urls",
    "runs",
}


@pytest.fixture
def exported(obs: Obs, instance: Path, tmp_path: Path) -> Path:
    done = obs("export", "acme", str(tmp_path / "exported"))
    assert (done.exit_code, done.output) == (0, "")
    return tmp_path / "exported"


def test_every_table_is_exported_or_left_out(exported: Path, instance: Path) -> None:
    assert {path.stem for path in exported.iterdir()} == EXPORTED
    # A new table is exported, unless its name begins like one that is derived. Think of it here.
    assert {name for name in stored(file_of(instance, "acme")) if not name.startswith(LEFT_OUT)} == EXPORTED
    rows = [json.loads(line) for line in (exported / "annotations.ndjson").read_text().splitlines()]
    assert [row["title"] for row in rows] == ["Release \x00 \N{SNOWMAN}"]


def test_an_import_has_the_same_rows(obs: Obs, exported: Path, instance: Path) -> None:
    done = obs("import", "export", str(exported), "--org", "copy")
    assert (done.exit_code, done.output) == (0, "")
    here, there = stored(file_of(instance, "acme")), stored(file_of(instance, "copy"))
    for table in EXPORTED - {"jobs"}:
        assert there[table] == here[table], table
    assert obs("check").exit_code == 0


def test_an_export_of_a_version_without_a_table_can_be_imported(obs: Obs, exported: Path, instance: Path) -> None:
    (exported / "alerts.ndjson").unlink()
    done = obs("import", "export", str(exported), "--org", "copy")
    assert (done.exit_code, done.output) == (0, "")
    here, there = stored(file_of(instance, "acme")), stored(file_of(instance, "copy"))
    assert (there["alerts"], there["runs"]) == ([], here["runs"])


def test_a_folder_that_is_not_an_export_is_refused(obs: Obs, instance: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    done = obs("import", "export", str(tmp_path / "empty"), "--org", "copy")
    assert (done.exit_code, done.stderr) == (1, f"Error: {tmp_path / 'empty'} is not an export.\n")
    assert "copy" not in obs("org", "list").stdout


def test_an_imported_job_goes_on(
    obs: Obs, app: Flask, exported: Path, client: KeyClient, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: clock() * 1_000_000)  # of the commands
    obs("org", "create", "copy")
    key = obs("key", "create", "copy", "--label", "x", "--scope", "admin").stdout.strip()
    assert obs("import", "export", str(exported), "--org", "copy").exit_code == 0
    services(app).tenancy.keyring.reload()
    copy = KeyClient(app)
    copy.key = key
    services(app).background.sweeper.run()
    copied, job = (each.get("/api/v1/jobs/nightly").json for each in (copy, client))
    assert copied.pop("ping_url") != job.pop("ping_url")
    assert copied == job
    assert copy.post("/api/v1/heartbeat/nightly/ping").status_code == 200
    assert copy.get("/api/v1/jobs/nightly").json["run_count"] == 4


def test_a_copied_job_gets_a_ping_url_of_its_own(
    obs: Obs, app: Flask, instance: Path, tmp_path: Path, client: KeyClient
) -> None:
    original = client.get("/api/v1/jobs/nightly").json["ping_url"]
    obs("export", "acme", str(tmp_path / "exported"))
    assert obs("import", "export", str(tmp_path / "exported"), "--org", "copy").exit_code == 0
    copy, visitor = KeyClient(app), Visitor(app)
    copy.key = obs("key", "create", "copy", "--label", "x", "--scope", "admin").stdout.strip()
    services(app).tenancy.keyring.reload()
    visitor.sign_in(copy.key)
    page = visitor.get("/job?name=nightly").text  # an admin's, which shows no ping URL of another organization
    assert ("Create ping URL" in page, original in page) == (True, False)
    urls = {copy.get("/api/v1/jobs/nightly").json["ping_url"] for _ in range(2)}
    assert len(urls - {original}) == 1
    assert urls.pop() in visitor.get("/job?name=nightly").text


def test_an_organization_with_data_is_not_changed(obs: Obs, exported: Path, instance: Path) -> None:
    before = stored(file_of(instance, "globex"))
    done = obs("import", "export", str(exported), "--org", "globex")
    assert (done.exit_code, done.stderr) == (1, "Error: globex has data already; choose another with --org.\n")
    assert stored(file_of(instance, "globex")) == before


@pytest.mark.parametrize(
    ("table", "line", "problem"),
    [
        ("runs", '{"id": 99, "job_id": 1', "runs.ndjson: Line 4 is not a JSON object."),
        ("runs", "5", "runs.ndjson: Line 4 is not a JSON object."),
        ("runs", "[" * 100_000, "runs.ndjson: Line 4 is not a JSON object."),
        ("runs", '{"id": 99, "secret": 1}', "no column named secret"),
        ("runs", '{"id": 99, "job_id": "x", "status": 1, "started_at": 1, "heartbeat_at": 1}', "cannot store TEXT"),
        ("runs", '{"id": 99, "job_id": 1e400, "status": 1, "started_at": 1, "heartbeat_at": 1}', "cannot store REAL"),
        ("runs", '{"id": 99999999999999999999}', "too large"),
        ("events", '{"id": 99, "job_id": 55, "kind": 3, "received_at": 1, "time": 1}', "a missing row of jobs"),
        ("runs", "[]", ""),
    ],
)
def test_nothing_is_imported_from_a_file_that_is_wrong(
    obs: Obs, exported: Path, instance: Path, table: str, line: str, problem: str
) -> None:
    with (exported / f"{table}.ndjson").open("a") as file:
        file.write(line + "\n")
    done = obs("import", "export", str(exported), "--org", "copy")
    assert done.exit_code == 1
    assert problem in done.stderr
    assert str(exported) in done.stderr
    assert "copy" not in obs("org", "list").stdout
    assert not list((instance / "tenants").glob("copy.*"))


def test_a_folder_that_exists_is_not_exported_to(obs: Obs, instance: Path, tmp_path: Path) -> None:
    done = obs("export", "acme", str(tmp_path))
    assert (done.exit_code, done.stderr) == (1, f"Error: {tmp_path} exists already.\n")
