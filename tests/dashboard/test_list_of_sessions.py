"""Sessions on the settings page: who sees and ends which, and what else ends them."""

import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from flask import Flask

from obs.services import services
from obs.tenancy import service
from tests.conftest import ACME
from tests.dashboard.conftest import Visitor, entries


def sessions(visitor: Visitor) -> list[tuple[str, str]]:
    """The sessions that the page shows: who, and the path that ends each."""
    page = visitor.get("/settings").text.partition('id="sessions"')[2]
    return re.findall(r'<th scope="row">([^<]*).*?action="(/settings/sessions/\d+/end)"', page, flags=re.DOTALL)


def test_an_admin_sees_and_ends_the_sessions_of_the_organization(
    app: Flask, admin: Visitor, stranger: Visitor, add: Callable[..., None], enter: Callable[..., Visitor]
) -> None:
    add("ana")
    ana = enter("ana")
    assert {who.strip() for who, _ in sessions(admin)} == {"ana", "session of key 1 (test)"}
    assert "127.0.0.1" in admin.get("/settings").text.partition('id="sessions"')[2]
    (end,) = [path for who, path in sessions(admin) if who == "ana"]
    assert admin.post(end).status_code == 302
    assert ana.get("/settings").status_code == 302
    assert entries(app)[0] == ("end session", "session of key 1 (test)", "ana")
    assert admin.post(end).status_code == 403  # it has ended


def test_others_see_and_end_only_their_own_sessions(
    reader: Visitor, add: Callable[..., None], enter: Callable[..., Visitor]
) -> None:
    add("ana")
    add("bob")
    first, second, bob = enter("ana"), enter("ana"), enter("bob")
    assert [who.strip() for who, _ in sessions(first)] == ["ana", "ana"]
    assert [who.strip() for who, _ in sessions(reader)] == ["session of key 1 (test)"]
    ((_, of_bob),) = sessions(bob)
    assert first.post(of_bob).status_code == 403
    newest, _ = sessions(first)
    assert first.post(newest[1]).status_code == 302
    assert second.get("/settings").status_code == 302
    assert first.get("/settings").status_code == 200
    assert bob.get("/settings").status_code == 200


def test_users_and_sessions_end_with_their_organization(
    app: Flask, add: Callable[..., None], enter: Callable[..., Visitor]
) -> None:
    add("ana", "admin")
    ana, tenancy = enter("ana"), services(app).tenancy
    service.delete_organization(tenancy, ACME)
    assert ana.get("/settings").status_code == 302
    with tenancy.control.read() as db:
        for table in ("users", "sessions"):
            assert db.execute(f"SELECT count(*) FROM {table}").fetchone()[0] == 0


def test_a_session_whose_user_is_gone_or_has_an_unknown_role_is_no_admin(
    app: Flask, add: Callable[..., None], enter: Callable[..., Visitor]
) -> None:
    add("bob")
    bob = enter("bob")
    path = Path(app.instance_path) / "control.db"
    with closing(sqlite3.connect(path)) as db:  # without foreign keys
        db.execute("DELETE FROM users")
        db.commit()
    assert bob.get("/settings/audit").status_code == 302
