"""Users sign in with a name and a password, and an admin manages them and their sessions."""

import gc
import re
import sqlite3
import threading
import tracemalloc
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from flask import Flask

from obs.cli import main
from obs.config import ConfigError
from obs.services import services
from obs.tenancy import service, store
from obs.tenancy.audit import Action
from tests.conftest import ACME, Clock, KeyClient
from tests.dashboard.conftest import FIRST_KEY, NewClient, Visitor

PASSWORD = "correct horse"
PROXY = "10.0.0.1"


def add_user(app: Flask, name: str, role: str = "reader") -> None:
    service.change_user(services(app).tenancy, ACME, Action.ADD_USER, name, role=role, password=PASSWORD)


def signed_in(app: Flask, name: str, password: str = PASSWORD) -> Visitor:
    visitor = Visitor(app)
    visitor.get("/sign-in")
    assert visitor.post("/sign-in", name=name, password=password).status_code == 302
    visitor.get("/settings")
    return visitor


def guess(visitor: Visitor, address: int, name: str, password: str) -> int:
    """The status of an attempt to sign in from one of many addresses."""
    visitor.get("/sign-in")
    data = {"csrf_token": visitor.token, "name": name, "password": password}
    at = {"REMOTE_ADDR": f"192.0.2.{address}"}
    return visitor.client.post("/sign-in", data=data, environ_overrides=at).status_code


@pytest.fixture
def add(app: Flask, client: KeyClient) -> Callable[..., None]:
    """Adds a user of ``acme``: ``add("ana", "admin")``."""
    return partial(add_user, app)


@pytest.fixture
def enter(app: Flask) -> Callable[..., Visitor]:
    """A visitor who has signed in with a password: ``enter("ana")``."""
    return partial(signed_in, app)


def entries(app: Flask) -> list[tuple[str, str, str]]:
    """The audit log, newest first: action, actor, object."""
    for thread in threading.enumerate():
        if thread.name == "failed-sign-in":
            thread.join()
    with services(app).tenancy.databases.read(ACME) as db:
        return [(one["action"], one["actor"], one["object"]) for one in store.audit_entries(db, 100)]


def test_a_user_signs_in_and_out_under_their_name(
    app: Flask, add: Callable[..., None], enter: Callable[..., Visitor]
) -> None:
    add("ana", "admin")
    ana = enter("ANA")
    assert ana.post("/settings/keys", **FIRST_KEY).status_code == 302
    assert ana.post("/sign-out").status_code == 302
    assert ana.get("/").status_code == 302
    assert [(action, actor) for action, actor, _ in entries(app)][:3] == [
        ("sign out", "ana"),
        ("create key", "ana"),
        ("sign in", "ana"),
    ]


def test_signing_in_with_a_password_leads_to_the_requested_page(app: Flask, add: Callable[..., None]) -> None:
    add("ana")
    visitor = Visitor(app)
    assert 'value="/alerts"' in visitor.get("/sign-in?next=/alerts").text
    assert visitor.post("/sign-in", name="ana", password=PASSWORD, next="/alerts").location == "/alerts"


def test_a_reader_changes_nothing_and_an_admin_does(
    app: Flask, add: Callable[..., None], enter: Callable[..., Visitor], client: KeyClient
) -> None:
    client.post("/api/v1/heartbeat/backup/ping")
    add("rita")
    add("ana", "admin")
    assert enter("rita").post("/job/pause?name=backup", until="").status_code == 403
    assert enter("ana").post("/job/pause?name=backup", until="").status_code == 302


@pytest.mark.parametrize(("name", "password"), [("ana", "wrong horse"), ("nobody", PASSWORD), ("", ""), ("ana", "")])
def test_a_wrong_name_and_a_wrong_password_are_refused_alike(
    app: Flask, add: Callable[..., None], name: str, password: str
) -> None:
    add("ana")
    visitor = Visitor(app)
    visitor.get("/sign-in")
    answer = visitor.post("/sign-in", name=name, password=password)
    assert answer.status_code == 401
    assert "Wrong name or password." in answer.text
    assert visitor.get("/").status_code == 302
    known = name == "ana"
    assert entries(app)[: int(known)] == [("failed sign in", "wrong password of ana", "dashboard")] * known


def test_an_unknown_name_is_checked_as_a_known_one(
    app: Flask, add: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same work, so that the time does not tell which names exist: a hash with the same parameters."""
    add("ana")
    hashes: list[str] = []

    def note(hashed: str, _: str) -> bool:
        hashes.append(hashed)
        return False

    monkeypatch.setattr(service, "check_password_hash", note)
    visitor = Visitor(app)
    visitor.get("/sign-in")
    for name in ("ana", "nobody"):
        visitor.post("/sign-in", name=name, password=PASSWORD)
    known, unknown = ([len(part) for part in (method, digest)] + [method] for method, _, digest in
                      (hashed.split("$") for hashed in hashes))  # fmt: skip
    assert known == unknown


def test_passwords_are_guessed_a_few_times_a_minute_even_right_ones(
    make_app: Callable[..., Flask], new_client: NewClient, clock: Clock
) -> None:
    app = make_app(WRONG_KEYS_PER_MINUTE=3)
    key = new_client("acme", app=app).key
    add_user(app, "ana", "admin")
    visitor = Visitor(app)
    visitor.get("/sign-in")
    for _ in range(3):
        assert visitor.post("/sign-in", name="ana", password="wrong horse").status_code == 401
    refused = visitor.post("/sign-in", name="ana", password=PASSWORD)
    assert refused.status_code == 429
    assert int(refused.headers["Retry-After"]) > 0
    assert re.search(r'role="alert"[^>]*>The limit is 3 attempts to sign in .* Try again in \d+ s\.<', refused.text)
    assert 'value="ana"' in refused.text  # what was typed stays, but for the password
    assert PASSWORD not in refused.text
    assert Visitor(app).sign_in(str(key)).status_code == 302  # machines and keys are counted apart
    clock.advance(minutes=1)
    assert visitor.post("/sign-in", name="ana", password=PASSWORD).status_code == 302


def test_a_sign_in_with_a_password_that_changes_meanwhile_is_refused(
    app: Flask, add: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    add("ana")
    checked = service.has_password

    def changed_meanwhile(user: store.User | None, password: str) -> bool:
        is_right = checked(user, password)
        service.change_user(services(app).tenancy, ACME, Action.CHANGE_USER, "ana", password="another horse")
        return is_right

    monkeypatch.setattr(service, "has_password", changed_meanwhile)
    visitor = Visitor(app)
    visitor.get("/sign-in")
    assert visitor.post("/sign-in", name="ana", password=PASSWORD).status_code == 401
    assert visitor.get("/settings").status_code == 302


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


def test_an_ingest_address_has_no_pages(app: Flask, behind_proxy: Flask) -> None:
    for path in ("/in/acme/sign-in", "/in/acme/settings", "/in/acme/"):
        assert app.test_client().get(path).status_code == 404
        at = {"environ_overrides": {"REMOTE_ADDR": PROXY}, "headers": {"Remote-User": "ana"}}
        assert behind_proxy.test_client().get(path, **at).status_code == 404


def test_an_audit_entry_names_a_new_password_beside_the_role(app: Flask, add: Callable[..., None]) -> None:
    add("ana")
    tenancy, new = services(app).tenancy, "another horse"
    service.change_user(tenancy, ACME, Action.CHANGE_USER, "ana", role="admin", password=new)
    assert entries(app)[0] == ("change user", "command line", "ana: admin, password")


def test_when_many_sign_in_at_once_others_wait_and_too_many_are_refused(
    app: Flask, add: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    add("ana")
    begun, may_end = threading.Semaphore(0), threading.Event()

    def check(*_: str) -> bool:
        begun.release()
        return may_end.wait(30)

    monkeypatch.setattr(service, "check_password_hash", check)
    monkeypatch.setattr(service, "_queue", threading.BoundedSemaphore(2))
    visitors = [Visitor(app) for _ in range(3)]
    for visitor in visitors:
        visitor.get("/sign-in")
    others = [
        threading.Thread(target=one.post, args=("/sign-in",), kwargs={"name": "ana", "password": "x"})
        for one in visitors[:2]
    ]
    for thread in others:
        thread.start()
        assert begun.acquire(timeout=30)
    refused = visitors[2].post("/sign-in", name="ana", password="x")
    assert (refused.status_code, "Others are signing in. Try again." in refused.text) == (429, True)
    may_end.set()
    for thread in others:
        thread.join()
    assert visitors[2].post("/sign-in", name="ana", password="x").status_code == 302


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


def test_guesses_from_many_addresses_are_limited_and_keep_nobody_out_of_their_own_browser(
    make_app: Callable[..., Flask], new_client: NewClient, clock: Clock
) -> None:
    app = make_app(WRONG_KEYS_PER_MINUTE=2)
    new_client("acme", app=app)
    for name in ("ana", "bob"):
        add_user(app, name, "admin")
    guesser, own = Visitor(app), signed_in(app, "ana")
    assert own.post("/sign-out").status_code == 302
    clock.advance(minutes=1)

    assert [guess(guesser, number, "ana", "wrong horse") for number in range(10)] == [401] * 10
    assert guess(guesser, 10, "ANA", PASSWORD) == 429
    assert guess(guesser, 10, "bob", PASSWORD) == 302
    assert guess(own, 11, "ana", PASSWORD) == 302
    clock.advance(minutes=1)
    assert guess(Visitor(app), 12, "ana", PASSWORD) == 302


def test_a_browser_that_was_signed_in_before_is_no_way_around_the_limit_of_its_user(
    make_app: Callable[..., Flask], new_client: NewClient
) -> None:
    app = make_app(WRONG_KEYS_PER_MINUTE=2)
    new_client("acme", app=app)
    add_user(app, "ana", "admin")
    thief = signed_in(app, "ana")
    service.change_user(services(app).tenancy, ACME, Action.CHANGE_USER, "ana", password="another horse")
    statuses = [guess(thief, number, "ana", "wrong horse") for number in range(11)]
    assert statuses == [401] * 10 + [429]
    assert guess(Visitor(app), 12, "ana", "another horse") == 302


def test_attempts_with_long_names_take_little_memory(app: Flask) -> None:
    visitor, before = Visitor(app), 0
    visitor.get("/sign-in")
    tracemalloc.start()
    try:
        for number in range(5):
            assert visitor.post("/sign-in", name=f"{number}" + "x" * 400_000, password="x").status_code == 401
            gc.collect()
            before = before or tracemalloc.get_traced_memory()[0]
        assert tracemalloc.get_traced_memory()[0] - before < 800_000
    finally:
        tracemalloc.stop()


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


def from_proxy(app: Flask, name: str, address: str = PROXY, **kwargs: Any) -> Any:
    visitor = app.test_client()
    headers = {"Remote-User": name, **kwargs.pop("headers", {})}
    return visitor.get("/settings", headers=headers, environ_overrides={"REMOTE_ADDR": address}, **kwargs)


@pytest.fixture
def behind_proxy(make_app: Callable[..., Flask], new_client: NewClient) -> Flask:
    app = make_app(TRUSTED_PROXIES=PROXY, TRUSTED_AUTH_HEADER="Remote-User")
    new_client("acme", app=app)
    add_user(app, "ana", "admin")
    return app


def test_a_trusted_proxy_signs_users_in(behind_proxy: Flask) -> None:
    shown = from_proxy(behind_proxy, "Ana")
    assert shown.status_code == 200
    assert 'title="ana: admin access"' in shown.text
    assert "Sign out" not in shown.text  # the proxy does that


def test_the_header_of_anybody_else_is_ignored(
    behind_proxy: Flask, make_app: Callable[..., Flask], clock: Clock
) -> None:
    assert from_proxy(behind_proxy, "ana", "10.0.0.2").status_code == 302
    claimed = {"X-Forwarded-For": PROXY, "Forwarded": f"for={PROXY}"}
    assert from_proxy(behind_proxy, "ana", "10.0.0.2", headers=claimed).status_code == 302
    assert from_proxy(make_app(TRUSTED_PROXIES=PROXY), "ana").status_code == 302  # the setting is empty


def test_a_header_without_addresses_of_proxies_stops_the_start(make_app: Callable[..., Flask]) -> None:
    with pytest.raises(ConfigError, match="TRUSTED_AUTH_HEADER needs the addresses"):
        make_app(TRUSTED_AUTH_HEADER="Remote-User")


def test_a_proxy_that_names_an_unknown_user_gets_a_page_that_says_so(behind_proxy: Flask) -> None:
    for name in ("eve", "<b>"):
        answer = from_proxy(behind_proxy, name)
        assert (answer.status_code, answer.mimetype) == (403, "text/html")
        assert f"There is no user {name.replace('<', '&lt;').replace('>', '&gt;')}." in answer.text
    assert "obs user add ORG eve" in from_proxy(behind_proxy, "eve").text
    at = {"environ_overrides": {"REMOTE_ADDR": PROXY}, "headers": {"Remote-User": "eve"}}
    assert behind_proxy.test_client().get("/nope", **at).status_code == 404
    assert behind_proxy.test_client().post("/sign-in", **at).status_code == 400  # without the token of the form


def test_changes_of_a_user_whom_a_proxy_signed_in_need_the_token_of_the_form(behind_proxy: Flask) -> None:
    client, headers = behind_proxy.test_client(), {"Remote-User": "ana"}
    at = {"environ_overrides": {"REMOTE_ADDR": PROXY}, "headers": headers}
    key = {"label": "cron", "scopes": "heartbeat:write", "expires": ""}
    assert client.post("/settings/keys", data=key, **at).status_code == 400
    token = re.search(r'name="csrf_token" value="([^"]+)"', client.get("/settings", **at).text)
    assert token is not None
    assert client.post("/settings/keys", data={**key, "csrf_token": token[1]}, **at).status_code == 302
    assert "Copy your new key now" in client.get("/settings", **at).text
    assert entries(behind_proxy)[0][:2] == ("create key", "ana")


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


def test_passwords_are_stored_as_scrypt_hashes_with_salt(app: Flask, add: Callable[..., None]) -> None:
    add("ana")
    add("bob")
    with services(app).tenancy.control.read() as db:
        ana, bob = store.users(db, ACME)
    assert ana.password.startswith("scrypt:32768:8:1$")
    assert ana.password != bob.password
    assert PASSWORD.encode() not in (Path(app.instance_path) / "control.db").read_bytes()


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
