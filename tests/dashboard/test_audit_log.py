"""The audit log: what is in it, who may read it, and that it is one transaction with the change."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask

from obs.cli import main
from obs.services import services
from obs.tenancy import audit, service, store
from tests.conftest import ACME, Clock, KeyClient
from tests.dashboard.conftest import Visitor, wait_for_failed_sign_ins

Entries = list[list[str]]
STATEMENT = {"query": "SELECT action, actor, object, address FROM audit ORDER BY time, action LAST 1d"}


@pytest.fixture
def root(new_client: Callable[..., KeyClient]) -> KeyClient:
    return new_client("acme", "admin")


@pytest.fixture
def entries(root: KeyClient, clock: Clock) -> Callable[[], Entries]:
    """The entries since the last call, as OQL returns them."""
    seen = 0

    def read() -> Entries:
        nonlocal seen
        wait_for_failed_sign_ins()
        clock.advance(ms=1)  # a window ends before now
        rows: Entries = root.post("/api/v1/dsl", json=STATEMENT).json["rows"]
        new, seen = rows[seen:], len(rows)
        return new

    return read


def test_changes_of_keys_over_the_api(root: KeyClient, entries: Callable[[], Entries]) -> None:
    created = root.post("/api/v1/keys", json={"label": "backup server"}).json
    assert entries() == [["create key", "key 1 (test)", "key 2 (backup server): heartbeat:write", "127.0.0.1"]]
    assert root.delete(f"/api/v1/keys/{created['id']}").status_code == 204
    assert entries() == [["revoke key", "key 1 (test)", "key 2 (backup server)", "127.0.0.1"]]
    assert root.delete(f"/api/v1/keys/{created['id']}").status_code == 404
    assert entries() == []


def test_who_pauses_and_schedules_a_job(root: KeyClient, entries: Callable[[], Entries]) -> None:
    root.post("/api/v1/heartbeat/backup/ping")
    hourly = {"pin": {"interval_seconds": 3600}}
    for changes in ({"paused": True}, {"paused": True}, {"paused": False}, hourly, hourly, {"pin": None}):
        assert root.patch("/api/v1/jobs/backup", json=changes).status_code == 200
    words = ("paused", "pin", "pin removed", "resumed")
    assert sorted(entries()) == [["change job", "key 1 (test)", f"backup: {each}", "127.0.0.1"] for each in words]
    assert root.put("/api/v1/jobs/backup", json={"host": "nas"}).status_code == 200
    assert entries() == [["change job", "key 1 (test)", "backup: host", "127.0.0.1"]]


def test_signing_in_and_out(
    app: Flask, root: KeyClient, client: KeyClient, clock: Clock, entries: Callable[[], Entries]
) -> None:
    visitor = Visitor(app)
    visitor.sign_in(str(client.key))
    assert entries() == [["sign in", "key 2 (test)", "dashboard", "127.0.0.1"]]
    visitor.get("/settings")
    visitor.post("/sign-out")
    assert entries() == [["sign out", "session of key 2 (test)", "dashboard", "127.0.0.1"]]
    token = service.create_sign_in_link(services(app).tenancy, "acme")
    visitor.use_link(token)
    assert entries() == [["sign in", "sign-in link", "dashboard", "127.0.0.1"]]


def test_a_failed_sign_in_with_a_key_does_not_wait_for_the_file_of_the_organization(
    app: Flask, entries: Callable[[], Entries], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time would tell which organizations exist."""
    noted, is_answered = audit.note, threading.Event()

    def note(*arguments: Any) -> None:
        assert is_answered.wait(10)
        noted(*arguments)

    monkeypatch.setattr(audit, "note", note)
    assert Visitor(app).sign_in("obs_acme_wrong").status_code == 401
    is_answered.set()
    assert entries() == [["failed sign in", "unknown key", "dashboard", "127.0.0.1"]]


def test_failed_sign_ins(
    app: Flask, new_client: Callable[..., KeyClient], root: KeyClient, entries: Callable[[], Entries]
) -> None:
    visitor = Visitor(app)
    assert visitor.sign_in("obs_acme_wrong").status_code == 401
    assert entries() == [["failed sign in", "unknown key", "dashboard", "127.0.0.1"]]
    assert visitor.sign_in(str(new_client("acme", "heartbeat:write").key)).status_code == 401
    assert entries() == [["failed sign in", "key 2 (test)", "dashboard", "127.0.0.1"]]
    for nobody in ("obs_nobody_x", "x", "", "obs_"):
        assert visitor.sign_in(nobody).status_code == 401
    assert entries() == []


def test_deletions_of_data(root: KeyClient, entries: Callable[[], Entries]) -> None:
    root.post("/api/v1/heartbeat/nas/backup/ping")
    number = root.post("/api/v1/annotations", json={"name": "deploy/web", "title": "x"}).json["id"]
    assert entries() == []
    for path in ("jobs/nas/backup", f"annotations/{number}"):
        assert root.delete(f"/api/v1/{path}").status_code == 204
        assert root.delete(f"/api/v1/{path}").status_code == 404
    assert sorted(entry[:1] + entry[2:3] for entry in entries()) == [
        ["delete annotation", f"annotation {number} (deploy/web)"],
        ["delete job", "nas/backup"],
    ]


def test_maintenance_windows(root: KeyClient, entries: Callable[[], Entries]) -> None:
    times = {"start_time": "2026-06-21T10:00:00Z", "end_time": "2026-06-21T12:00:00Z"}
    number = root.post("/api/v1/maintenance", json={"title": "New disks", **times}).json["id"]
    assert [entry[:1] + entry[2:3] for entry in entries()] == [["add maintenance window", "New disks"]]
    assert root.delete(f"/api/v1/maintenance/{number}").status_code == 204
    assert root.delete(f"/api/v1/maintenance/{number}").status_code == 404
    assert [entry[:1] + entry[2:3] for entry in entries()] == [["delete maintenance window", "New disks"]]


def test_a_change_without_its_entry_is_not_made(app: Flask, root: KeyClient) -> None:
    """They are one transaction."""
    root.post("/api/v1/heartbeat/backup/ping")
    databases = services(app).tenancy.databases
    databases.write(ACME, lambda db: db.execute("ALTER TABLE audit RENAME TO elsewhere"))
    assert root.delete("/api/v1/jobs/backup").status_code == 500
    databases.write(ACME, lambda db: db.execute("ALTER TABLE elsewhere RENAME TO audit"))
    assert root.get("/api/v1/jobs/backup").status_code == 200


def test_a_key_can_be_revoked_when_the_file_cannot_be_written(
    app: Flask, root: KeyClient, caplog: pytest.LogCaptureFixture
) -> None:
    tenancy = services(app).tenancy
    tenancy.databases.path(ACME).rename(tenancy.databases.path(ACME).with_suffix(".away"))
    assert root.delete("/api/v1/keys/1").status_code == 204
    assert "audit log of acme: key 1 (test) 127.0.0.1: revoke key: key 1 (test)" in caplog.text


def test_changes_on_the_command_line(app: Flask, root: KeyClient) -> None:
    runner = app.test_cli_runner()
    for command in (
        ["key", "create", "acme", "--label", "ci"],
        ["key", "revoke", "2"],
        ["org", "set-limit", "acme", "query_max_rows", "7"],
        ["org", "create", "initech"],
        ["org", "delete", "initech", "--yes"],
    ):
        assert runner.invoke(main, [*command, "--instance", app.instance_path]).exit_code == 0
    tenancy = services(app).tenancy
    with tenancy.databases.read(ACME) as db:
        found = [
            (each["action"], each["actor"], each["object"], each["address"]) for each in store.audit_entries(db, 9)
        ]
    assert found == [
        ("set limit", "command line", "query_max_rows to 7", ""),
        ("revoke key", "command line", "key 2 (ci)", ""),
        ("create key", "command line", "key 2 (ci): heartbeat:write", ""),
    ]
    with tenancy.control.read() as db:
        assert [row["slug"] for row in db.execute("SELECT slug FROM deleted_organizations")] == ["initech"]


def test_only_admins_may_read_it(root: KeyClient, client: KeyClient, admin: Visitor, reader: Visitor) -> None:
    for asking in (STATEMENT, {"query": "EXPLAIN SELECT * FROM audit LAST 1d"}):
        refused = client.post("/api/v1/dsl", json=asking)
        assert (refused.status_code, refused.json["error"]) == (403, "missing_scope")
        assert root.post("/api/v1/dsl", json=asking).status_code == 200
    assert reader.get("/settings/audit").status_code == 403
    assert reader.get("/query", query_string={"q": STATEMENT["query"]}).status_code == 403
    assert admin.get("/query", query_string={"q": STATEMENT["query"]}).status_code == 200
    assert "/settings/audit" not in reader.get("/settings").text
    assert "/settings/audit" in admin.get("/settings").text


def test_the_page_shows_the_newest_entries(admin: Visitor, root: KeyClient, clock: Clock) -> None:
    for number in range(201):
        clock.advance(seconds=1)
        root.post("/api/v1/keys", json={"label": f"<b>{number}</b>"})
    page = admin.get("/settings/audit").text
    assert page.index("&lt;b&gt;200&lt;/b&gt;") < page.index("&lt;b&gt;1&lt;/b&gt;")
    assert "&lt;b&gt;0&lt;/b&gt;" not in page
    assert "127.0.0.1" in page


def test_entries_are_kept_as_long_as_runs(
    make_app: Callable[..., Flask], new_client: Callable[..., KeyClient], clock: Clock
) -> None:
    app = make_app(RUN_RETENTION_DAYS=30)
    root = new_client("acme", "admin", app=app)
    root.post("/api/v1/keys", json={"label": "old"})
    clock.advance(days=1)
    root.post("/api/v1/keys", json={"label": "new"})
    clock.advance(days=29, seconds=1)
    services(app).background.tasks["purge"].run()
    statement = {"query": "SELECT object FROM audit LAST 90d"}
    assert root.post("/api/v1/dsl", json=statement).json["rows"] == [["key 3 (new): heartbeat:write"]]


def test_an_organization_sees_only_its_own_entries(
    root: KeyClient, new_client: Callable[..., KeyClient], entries: Callable[[], Entries]
) -> None:
    new_client("globex", "admin").post("/api/v1/keys", json={"label": "theirs"})
    assert entries() == []
