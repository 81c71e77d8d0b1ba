"""Signing in with keys and links, and when sessions end."""

import re
from collections.abc import Callable

import pytest
from flask import Flask

from obs.errors import ServiceError
from obs.services import services
from obs.tenancy import keys, service, store
from obs.tenancy.auth import Tenancy
from tests.conftest import ACME, Clock, KeyClient
from tests.dashboard.conftest import Visitor

PAGES = (
    "/",
    "/projects",
    "/query",
    "/annotations",
    "/incidents",
    "/settings",
    "/job?name=x",
    "/jobs/changes",
    "/settings/backup",
)


@pytest.mark.parametrize("path", PAGES)
def test_pages_require_a_session(app: Flask, path: str) -> None:
    answer = Visitor(app).get(path)
    assert answer.status_code == 302
    assert answer.location.startswith("/sign-in")


def test_signing_in_leads_to_the_requested_page(app: Flask, client: KeyClient) -> None:
    visitor = Visitor(app)
    visitor.get(visitor.get("/job?name=a%26b").location)
    assert visitor.sign_in(str(client.key), next="/job?name=a%26b").location == "/job?name=a%26b"


@pytest.mark.parametrize("elsewhere", ["//evil.example", "https://evil.example", "/\\evil.example", "/\t/evil.example"])
def test_signing_in_leads_to_no_other_host(app: Flask, client: KeyClient, elsewhere: str) -> None:
    assert Visitor(app).sign_in(str(client.key), next=elsewhere).location == "/"


def test_a_key_without_query_read_does_not_sign_in(app: Flask, new_client: Callable[..., KeyClient]) -> None:
    visitor = Visitor(app)
    answer = visitor.sign_in(str(new_client("acme", "heartbeat:write").key))
    assert answer.status_code == 401
    assert "This key cannot sign in: it lacks the scope query:read." in answer.text
    assert "Invalid key" in visitor.sign_in("obs_acme_wrong").text
    assert visitor.get("/").status_code == 302


def test_a_key_created_without_choosing_scopes_cannot_sign_in_or_read(
    app: Flask, new_client: Callable[..., KeyClient], admin: Visitor
) -> None:
    """From the API, and in the form of the page, whose other scopes are not checked."""
    by_api = new_client("acme", "admin").post("/api/v1/keys", json={"label": "cron"}).json["key"]
    page = admin.get("/settings").text
    assert re.findall(r'name="scopes" value="([a-z:]+)" checked', page) == ["heartbeat:write"]
    visitor = Visitor(app)
    assert visitor.sign_in(by_api).status_code == 401
    assert visitor.get("/").status_code == 302
    client, headers = app.test_client(), {"X-API-Key": by_api}
    assert client.post("/api/v1/heartbeat/backup/ping", headers=headers).status_code == 200
    assert client.get("/api/v1/jobs", headers=headers).status_code == 403


def test_the_session_ends_when_its_key_is_revoked(app: Flask, reader: Visitor, admin: Visitor) -> None:
    assert reader.get("/").status_code == 200
    tenancy: Tenancy = services(app).tenancy
    with tenancy.control.read() as db:
        read_key = next(key for key in store.keys_of(db, ACME) if "admin" not in key.scopes)
    assert admin.post(f"/settings/keys/{read_key.id}/revoke").status_code == 302
    assert reader.get("/").status_code == 302


def test_the_session_ends_when_its_key_expires(app: Flask, clock: Clock, client: KeyClient) -> None:
    tenancy: Tenancy = services(app).tenancy
    expires_at = clock.now_ms + 60_000
    added = tenancy.control.write(
        lambda db: store.add_key(db, ACME, "short", ("query:read",), expires_at, clock.now_ms)
    )
    assert added is not None
    tenancy.keyring.reload()
    visitor = Visitor(app)
    visitor.sign_in(added.key)
    assert visitor.get("/").status_code == 200
    clock.advance(minutes=1)
    assert visitor.get("/").status_code == 302


def test_a_link_signs_in_an_admin_once_and_ends_with_the_organization(app: Flask, client: KeyClient) -> None:
    tenancy: Tenancy = services(app).tenancy
    token = service.create_sign_in_link(tenancy, "acme")
    visitor = Visitor(app)
    for fetch in (visitor.client.head, visitor.client.get, Visitor(app).client.get):  # as the preview of a chat does
        assert fetch(f"/sign-in/{token}").status_code == 200
    assert Visitor(app).client.post(f"/sign-in/{token}").status_code == 400  # without the page's form
    assert "Sign in to acme" in visitor.get(f"/sign-in/{token}").text
    assert visitor.use_link(token).location == "/"
    assert "New API key" in visitor.get("/settings").text
    assert Visitor(app).get(f"/sign-in/{token}").status_code == 401
    assert visitor.post(f"/sign-in/{token}").status_code == 401
    # An organization that is created later under the same name is another one.
    tenancy.control.write(lambda db: store.delete_organization(db, ACME.id))
    tenancy.control.write(lambda db: store.add_organization(db, "acme", tenancy.clock()))
    tenancy.keyring.reload()
    assert visitor.get("/settings").status_code == 302


def test_links_that_have_expired_are_deleted(app: Flask, client: KeyClient, clock: Clock) -> None:
    tenancy: Tenancy = services(app).tenancy
    unused = service.create_sign_in_link(tenancy, "acme")
    clock.advance(hours=24)
    assert Visitor(app).get(f"/sign-in/{unused}").status_code == 401
    service.create_sign_in_link(tenancy, "acme")
    clock.advance(hours=23)
    fresh = service.create_sign_in_link(tenancy, "acme")
    with tenancy.control.read() as db:
        assert db.execute("SELECT count(*) FROM sign_in_links").fetchone()[0] == 2
    assert Visitor(app).use_link(fresh).location == "/"


def test_signing_out_ends_the_session(app: Flask, admin: Visitor) -> None:
    cookie = admin.client.get_cookie("obs_session")
    assert cookie is not None
    replay = Visitor(app)
    replay.client.set_cookie("obs_session", cookie.value)
    assert replay.get("/").status_code == 200
    assert admin.post("/sign-out").status_code == 302
    assert admin.get("/").status_code == 302
    replay.client.set_cookie("obs_session", cookie.value)
    assert replay.get("/").status_code == 302


def test_signing_out_ends_no_other_session(app: Flask, client: KeyClient) -> None:
    here, there = Visitor(app), Visitor(app)
    here.sign_in(str(client.key))
    there.sign_in(str(client.key))
    here.get("/settings")
    here.post("/sign-out")
    assert there.get("/").status_code == 200


def test_a_session_ends_14_days_after_its_last_use(app: Flask, reader: Visitor, clock: Clock) -> None:
    for _ in range(3):
        clock.advance(days=13)
        assert reader.get("/").status_code == 200
    clock.advance(days=14)
    assert reader.get("/").status_code == 302


def test_the_last_use_of_a_session_is_stored_at_most_once_an_hour(app: Flask, reader: Visitor, clock: Clock) -> None:
    def changes() -> int:
        with services(app).tenancy.control.read() as db:
            changed: int = db.execute("SELECT last_seen_at FROM sessions").fetchone()[0]
            return changed

    begun = changes()
    clock.advance(minutes=59)
    reader.get("/")
    assert changes() == begun
    clock.advance(minutes=1)
    reader.get("/")
    assert changes() == clock.now_ms


def test_pages_are_shown_while_the_last_use_of_a_session_cannot_be_stored(
    reader: Visitor, clock: Clock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object) -> None:
        raise ServiceError("storage_full")

    monkeypatch.setattr(store, "extend_session", full)
    clock.advance(hours=2)
    assert reader.get("/").status_code == 200
    assert "cannot store when a session was last used" in caplog.text


def test_a_session_is_stored_with_the_digest_of_its_token(app: Flask, client: KeyClient, clock: Clock) -> None:
    visitor = Visitor(app)
    visitor.sign_in(str(client.key))
    with visitor.client.session_transaction() as cookie, services(app).tenancy.control.read() as db:
        stored = dict(db.execute("SELECT * FROM sessions").fetchone())
        assert stored["sha256"] == keys.digest(cookie["token"])
        assert len(cookie["token"]) >= 43
    assert (stored["created_at"], stored["last_seen_at"]) == (clock.now_ms, clock.now_ms)
    clock.advance(days=14)
    services(app).background.tasks["sweep"].run()
    Visitor(app).sign_in(str(client.key))
    with services(app).tenancy.control.read() as db:  # sessions that have expired are deleted
        assert [row["id"] for row in db.execute("SELECT id FROM sessions")] != [stored["id"]]


@pytest.mark.parametrize("is_noticed", [True, False])
def test_a_clock_that_was_far_ahead_ends_no_session(
    make_app: Callable[..., Flask], new_client: Callable[..., KeyClient], clock: Clock, is_noticed: bool
) -> None:
    lead_days = 0
    app = make_app(BOOT_CLOCK=lambda: clock() / 1000 - lead_days * 86400)
    here, key, sweep = Visitor(app), str(new_client("acme", app=app).key), services(app).background.tasks["sweep"].run
    here.sign_in(key)
    sweep()
    lead_days = 60
    clock.advance(days=lead_days)
    if is_noticed:
        sweep()
    Visitor(app).sign_in(key)
    assert here.get("/").status_code == 302
    clock.advance(days=-lead_days)
    assert here.get("/").status_code == 200


def test_a_stranger_who_knows_the_signing_key_cannot_sign_in(app: Flask, reader: Visitor) -> None:
    forger = Visitor(app)
    with forger.client.session_transaction() as cookie:
        cookie.update(org="acme", org_id=1, key_id=None, token="x" * 43, _permanent=True)
    assert forger.get("/").status_code == 302


def test_scripts_and_other_sites_cannot_use_the_cookie(app: Flask, client: KeyClient) -> None:
    cookie = Visitor(app).sign_in(str(client.key)).headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie
    assert "Secure" not in cookie


def test_the_cookie_is_secure_behind_https(make_app: Callable[..., Flask]) -> None:
    visitor = Visitor(make_app(BASE_URL="https://obs.example.com"))
    answer = visitor.client.get("/sign-in", base_url="https://obs.example.com")
    assert "Secure" in answer.headers["Set-Cookie"]
