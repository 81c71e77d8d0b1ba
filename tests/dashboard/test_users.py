"""An admin adds, changes and deletes users, on a page or with commands; users change their own password."""

import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from flask import Flask

from obs.cli import main
from obs.services import services
from obs.tenancy import service, store
from obs.tenancy.audit import Action
from tests.conftest import ACME, KeyClient
from tests.dashboard.conftest import PASSWORD, NewClient, Visitor, add_user, entries, signed_in


def test_a_reader_changes_nothing_and_an_admin_does(
    app: Flask, add: Callable[..., None], enter: Callable[..., Visitor], client: KeyClient
) -> None:
    client.post("/api/v1/heartbeat/backup/ping")
    add("rita")
    add("ana", "admin")
    assert enter("rita").post("/job/pause?name=backup", until="").status_code == 403
    assert enter("ana").post("/job/pause?name=backup", until="").status_code == 302


def test_an_audit_entry_names_a_new_password_beside_the_role(app: Flask, add: Callable[..., None]) -> None:
    add("ana")
    tenancy, new = services(app).tenancy, "another horse"
    service.change_user(tenancy, ACME, Action.CHANGE_USER, "ana", role="admin", password=new)
    assert entries(app)[0] == ("change user", "command line", "ana: admin, password")


def test_an_admin_manages_users_on_the_settings_page(app: Flask, admin: Visitor, enter: Callable[..., Visitor]) -> None:
    added = admin.post("/settings/users/add", name="ana", role="reader", password=PASSWORD)
    assert added.location == "/settings#users"
    ana, page = enter("ana"), admin.get("/settings").text
    assert '<th scope="row">ana</th>' in page
    assert PASSWORD not in page
    assert ana.get("/settings/audit").status_code == 403
    assert admin.post("/settings/users/change", name="ana", role="admin").status_code == 302
    assert ana.get("/settings/audit").status_code == 200  # at once
    assert admin.post("/settings/users/change", name="ana", password="another horse").status_code == 302
    assert ana.get("/settings").status_code == 302  # and with a new password, her sessions are over
    ana = enter("ana", "another horse")
    assert admin.post("/settings/users/delete", name="ana").status_code == 302
    assert ana.get("/settings").status_code == 302
    assert admin.post("/settings/users/delete", name="ana").status_code == 404
    changes = [(action, subject) for action, actor, subject in entries(app) if actor == "session of key 1 (test)"]
    assert changes == [
        ("delete user", "ana"),
        ("change user", "ana: password"),
        ("change user", "ana: admin"),
        ("add user", "ana: reader"),
    ]


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"name": "ana"}, "The name ana is taken."),
        ({"name": "Ana"}, "The name Ana is taken."),
        ({"name": "gina"}, "The name gina is taken."),  # by another organization
        ({"name": "an a"}, "Use a-z, 0-9 and ._@+-"),
        ({"name": "bob\n"}, "Use a-z, 0-9 and ._@+-"),
        ({"name": "x" * 101}, "Use a-z, 0-9 and ._@+-"),
        ({"name": ""}, "Use a-z, 0-9 and ._@+-"),
        ({"password": "7 signs"}, "Enter 8 to 1000 characters."),
        ({"password": "x" * 1001}, "Enter 8 to 1000 characters."),
        ({"role": "root"}, "Must be one of: reader, admin"),
    ],
)
def test_a_user_that_cannot_be_added_is_refused_with_the_reason(
    app: Flask, admin: Visitor, add: Callable[..., None], new_client: NewClient, fields: dict[str, str], problem: str
) -> None:
    add("ana")
    new_client("globex")
    globex = service.find_organization(services(app).tenancy, "globex")
    service.change_user(services(app).tenancy, globex, Action.ADD_USER, "gina", role="admin", password=PASSWORD)
    answer = admin.post("/settings/users/add", **{"name": "bob", "role": "reader", "password": PASSWORD, **fields})
    assert answer.status_code in (409, 422)
    assert problem in answer.text
    assert PASSWORD not in answer.text
    assert '<th scope="row">bob</th>' not in admin.get("/settings").text
    assert "gina</th>" not in admin.get("/settings").text


def test_a_form_without_its_fields_adds_nobody(admin: Visitor) -> None:
    assert admin.post("/settings/users/add").status_code == 422
    assert admin.post("/settings/users/add", name="ana").status_code == 422
    assert admin.post("/settings/users/change").status_code == 422
    assert admin.post("/settings/users/else", name="ana").status_code == 404


def test_an_admin_cannot_change_users_of_another_organization(
    add: Callable[..., None], stranger: Visitor, enter: Callable[..., Visitor]
) -> None:
    add("ana", "admin")
    for verb in ("change", "delete"):
        assert stranger.post(f"/settings/users/{verb}", name="ana", role="reader").status_code == 404
    ana = enter("ana")
    assert ana.get("/settings/audit").status_code == 200
    assert "ana" not in stranger.get("/settings").text
    number = re.search(r"/settings/sessions/(\d+)/end", ana.get("/settings").text)
    assert number is not None
    assert stranger.post(f"/settings/sessions/{number[1]}/end").status_code == 403
    assert ana.get("/settings").status_code == 200


def test_a_reader_changes_only_their_own_password(add: Callable[..., None], enter: Callable[..., Visitor]) -> None:
    add("rita")
    add("bob")
    rita = enter("rita")
    assert "bob" not in rita.get("/settings").text
    assert "Your key" not in rita.get("/settings").text  # a user has none
    for fields in ({"name": "bob", "password": "another horse"}, {"name": "rita", "role": "admin"},
                   {"name": "rita", "role": "admin", "password": "another horse"}):  # fmt: skip
        assert rita.post("/settings/users/change", **fields).status_code == 403
    assert rita.post("/settings/users/delete", name="rita").status_code == 403
    assert rita.post("/settings/users/change", name="rita", password="short").status_code == 422
    for typed in ({}, {"current": ""}, {"current": "another horse"}):
        refused = rita.post("/settings/users/change", name="rita", password="another horse", **typed)
        assert refused.status_code == 422
        assert 'id="current-problem">This is not your current password.' in refused.text
    changed = {"name": "rita", "password": "another horse", "current": PASSWORD}
    assert rita.post("/settings/users/change", **changed).status_code == 302
    assert rita.get("/").location == "/sign-in"
    enter("rita", "another horse")


def test_an_admin_gives_the_current_password_for_their_own_only(
    app: Flask, add: Callable[..., None], enter: Callable[..., Visitor]
) -> None:
    add("ana", "admin")
    add("bob")
    ana = enter("ana")
    for name in ("ana", "ANA"):
        refused = ana.post("/settings/users/change", name=name, password="another horse")
        assert refused.status_code == 422
        assert 'value="heartbeat:write" checked' in refused.text  # the form of a new key is as it was
    assert ana.post("/settings/users/change", name="bob", password="another horse").status_code == 302
    enter("ana")
    enter("bob", "another horse")
    assert ("failed sign in", "wrong password of ana", "dashboard") in entries(app)


def test_the_current_password_is_guessed_a_few_times_a_minute(
    make_app: Callable[..., Flask], new_client: NewClient
) -> None:
    app = make_app(WRONG_KEYS_PER_MINUTE=3)
    new_client("acme", app=app)
    add_user(app, "ana", "admin")
    ana = signed_in(app, "ana")
    changed = {"name": "ana", "password": "another horse"}
    statuses = [ana.post("/settings/users/change", **changed, current=f"guess {n}").status_code for n in range(3)]
    assert statuses == [422, 422, 429]
    assert ana.post("/settings/users/change", **changed, current=PASSWORD).status_code == 429


def obs(app: Flask, *arguments: str, typed: str = "") -> Any:
    return CliRunner().invoke(main, [*arguments, "--instance", str(Path(app.instance_path))], input=typed)


def test_users_are_added_on_the_command_line(app: Flask, client: KeyClient, enter: Callable[..., Visitor]) -> None:
    added = obs(app, "user", "add", "acme", "ana", "--role", "admin", typed=f"{PASSWORD}\r\n")
    assert (added.exit_code, added.stdout) == (0, "")
    assert obs(app, "user", "add", "acme", "bob", typed=PASSWORD).exit_code == 0
    assert "Add user" in enter("ana").get("/settings").text
    assert "Add user" not in enter("bob").get("/settings").text
    assert ("add user", "command line", "bob: reader") in entries(app)


@pytest.mark.parametrize(
    ("arguments", "typed", "problem"),
    [
        (("add", "acme", "ana"), PASSWORD, "The name ana is taken."),
        (("add", "nobody", "bob"), PASSWORD, "There is no organization 'nobody'."),
        (("add", "acme", "bob"), "short\n", "password: Length must be between 8 and 1000."),
        (("add", "acme", "bob"), "", "password: Length must be between 8 and 1000."),
        (("add", "acme", "b b"), PASSWORD, "name: Use a-z, 0-9 and ._@+-"),
    ],
)
def test_the_command_line_says_what_is_wrong(
    app: Flask, add: Callable[..., None], arguments: tuple[str, ...], typed: str, problem: str
) -> None:
    add("ana")
    done = obs(app, "user", *arguments, typed=typed)
    assert done.exit_code == 1
    assert problem in done.stderr
    with services(app).tenancy.control.read() as db:
        assert [one.name for one in store.users(db, ACME)] == ["ana"]


def test_backups_contain_users_and_a_restored_organization_keeps_them(
    app: Flask, add: Callable[..., None], enter: Callable[..., Visitor], tmp_path: Path
) -> None:
    add("ana", "admin")
    (tmp_path / "backups").mkdir()
    assert obs(app, "backup", str(tmp_path / "backups")).exit_code == 0
    (written,) = (tmp_path / "backups").iterdir()
    assert obs(app, "restore", str(written), "--org", "acme").exit_code == 0
    services(app).tenancy.keyring.reload()
    assert enter("ana").get("/settings/audit").status_code == 200
    assert obs(app, "check").exit_code == 0
    with closing(sqlite3.connect(written / "control.db")) as db:
        assert db.execute("SELECT name, role FROM users").fetchall() == [("ana", "admin")]
