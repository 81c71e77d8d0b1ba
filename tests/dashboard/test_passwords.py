"""Users sign in with a name and a password, which can be guessed only a few times."""

import gc
import re
import threading
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from flask import Flask

from obs.services import services
from obs.tenancy import service, store
from obs.tenancy.audit import Action
from tests.conftest import ACME, Clock
from tests.dashboard.conftest import FIRST_KEY, PASSWORD, NewClient, Visitor, add_user, entries, signed_in


def guess(visitor: Visitor, address: int, name: str, password: str) -> int:
    """The status of an attempt to sign in from one of many addresses."""
    visitor.get("/sign-in")
    data = {"csrf_token": visitor.token, "name": name, "password": password}
    at = {"REMOTE_ADDR": f"192.0.2.{address}"}
    return visitor.client.post("/sign-in", data=data, environ_overrides=at).status_code


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


def test_passwords_are_stored_as_scrypt_hashes_with_salt(app: Flask, add: Callable[..., None]) -> None:
    add("ana")
    add("bob")
    with services(app).tenancy.control.read() as db:
        ana, bob = store.users(db, ACME)
    assert ana.password.startswith("scrypt:32768:8:1$")
    assert ana.password != bob.password
    assert PASSWORD.encode() not in (Path(app.instance_path) / "control.db").read_bytes()
