"""Access in a browser: signing in and out, keys, and the separation of organizations."""

import re
from collections.abc import Callable

import pytest
from flask import Flask
from playwright.sync_api import Browser, BrowserContext, Page, expect

from obs.services import services
from obs.tenancy import service, store
from obs.tenancy.auth import Tenancy
from tests.conftest import ACME, Clock, KeyClient
from tests.dashboard.chromium.conftest import sign_in


@pytest.fixture
def tenancy(app: Flask) -> Tenancy:
    return services(app).tenancy


def test_a_link_signs_in_once(window: BrowserContext, address: str, client: KeyClient, tenancy: Tenancy) -> None:
    link = f"{address}/sign-in/{service.create_sign_in_link(tenancy, 'acme')}"
    page = window.new_page()
    page.goto(link)
    page.get_by_role("button", name="Sign in to acme").click()
    expect(page.get_by_role("button", name="Create a key and insert it")).to_be_visible()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    page.goto(link)
    expect(page.get_by_role("heading")).to_contain_text("has expired or was already used")
    page.goto(address)
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


def test_a_wrong_key_is_refused_and_the_right_one_leads_to_the_requested_page(
    window: BrowserContext, address: str, client: KeyClient
) -> None:
    client.post("/api/v1/heartbeat/alpha/ping")
    page = window.new_page()
    page.goto(f"{address}/job?name=alpha")
    page.get_by_text("Sign in with an API key").click()
    page.fill("#key", "obs_acme_wrong")
    page.press("#key", "Enter")
    expect(page.get_by_role("alert")).to_contain_text("Invalid key")
    page.fill("#key", str(client.key))
    page.press("#key", "Enter")
    expect(page.locator("h1")).to_contain_text("alpha")


def test_the_live_page_notices_that_its_session_expired(
    window: BrowserContext, address: str, client: KeyClient, tenancy: Tenancy, clock: Clock
) -> None:
    client.post("/api/v1/heartbeat/alpha/ping")
    expires_at = clock.now_ms + 60_000
    added = tenancy.control.write(
        lambda db: store.add_key(db, ACME, "short", ("query:read",), expires_at, clock.now_ms)
    )
    assert added is not None
    tenancy.keyring.reload()
    page = sign_in(window.new_page(), address, added.key)
    expect(page.get_by_role("link", name="alpha")).to_be_visible()
    clock.advance(minutes=2)
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


def test_a_key_is_created_used_and_revoked(page: Page, address: str, app: Flask) -> None:
    page.goto(f"{address}/settings")
    page.get_by_label("Label").fill("cron box")
    page.get_by_role("button", name="Create key").click()
    key = page.locator(".notice code").inner_text()
    beat = {"headers": {"X-API-Key": key}}
    assert app.test_client().post("/api/v1/heartbeat/x/ping", **beat).status_code == 200
    expect(page.locator(".snippet", has_text=f"X-API-Key: {key}").first).to_be_visible()
    page.goto(f"{address}/settings")
    assert key not in page.content()
    page.get_by_role("row", name="cron box").get_by_role("button", name="Revoke").click()
    expect(page.get_by_role("status")).to_have_text("Key revoked.")
    expect(page.get_by_role("row", name="cron box")).to_have_count(0)
    assert app.test_client().post("/api/v1/heartbeat/x/ping", **beat).status_code == 401


def test_the_label_of_a_key_is_not_broken_by_its_scopes(page: Page, address: str) -> None:
    page.goto(f"{address}/settings")
    page.get_by_label("Label").fill("backups")
    for scope in page.locator("[name=scopes]:not([value=ping])").all():
        scope.check()
    page.get_by_role("button", name="Create key").click()
    label = page.get_by_role("rowheader", name="backups", exact=True)
    lines = """(one) => {
      const text = document.createRange();
      text.selectNodeContents(one);
      return text.getClientRects().length;
    }"""
    assert label.evaluate(lines) == 1


def test_a_copy_button_copies_its_snippet(page: Page, address: str) -> None:
    page.goto(f"{address}/settings")
    snippet = page.locator(".snippet", has_text="ExecStopPost")
    snippet.get_by_role("button").click()
    expect(snippet.get_by_role("button")).to_have_text("Copied systemd unit")
    assert page.evaluate("navigator.clipboard.readText()") == snippet.locator("code").inner_text()


@pytest.mark.parametrize(
    "path",
    ["/", "/job?name=alpha", "/job/run/1", "/annotations", "/annotations/1", "/incidents", "/settings", "/query"],
)
def test_a_read_key_sees_everything_and_changes_nothing(
    window: BrowserContext, address: str, client: KeyClient, path: str
) -> None:
    client.post("/api/v1/heartbeat/alpha/ping")
    client.post("/api/v1/annotations", json={"name": "deploy/web", "title": "out"})
    page = sign_in(window.new_page(), address, str(client.key))
    page.goto(address + path)
    expect(page.get_by_text("read-only", exact=True)).to_be_visible()
    # The only forms are the one to sign out and, among the settings, the one that ends this session.
    ends = [re.compile("End this session")] if path == "/settings" else []
    expect(page.locator("form[method=post] button")).to_have_text(["Sign out", *ends])
    token = page.locator("[name=csrf_token]").first.input_value()
    for target in ("/job/delete?name=alpha", "/annotations/1/delete", "/job/pause?name=alpha"):
        answer = page.request.post(address + target, form={"csrf_token": token})
        assert answer.status == 403, target
    assert [job["name"] for job in client.get("/api/v1/jobs").json["jobs"]] == ["alpha"]


def test_two_organizations_do_not_see_each_other(
    page: Page, browser: Browser, address: str, client: KeyClient, other_client: KeyClient
) -> None:
    client.post("/api/v1/heartbeat/alpha/ping", headers={"X-Platform-Project": "shop"})
    other_client.post("/api/v1/heartbeat/beta/ping", headers={"X-Platform-Project": "home"})
    other_client.post("/api/v1/annotations", json={"name": "deploy/beta", "title": "beta is out"})
    theirs = browser.new_context()
    their_page = sign_in(theirs.new_page(), address, str(other_client.key))
    expect(their_page.locator("#jobs tbody th")).to_have_text("betahome")
    page.goto(address)
    expect(page.locator("#jobs tbody th")).to_have_text("alphashop")
    for path in ("/projects", "/annotations", "/incidents", "/query?q=SELECT+*+FROM+runs+LAST+1d", "/settings"):
        page.goto(address + path)
        assert "beta" not in page.content(), path
        assert "globex" not in page.content(), path
    assert page.request.get(f"{address}/job?name=beta").status == 404
    assert page.request.get(f"{address}/annotations/1").status == 404
    theirs.close()


def test_signing_out_in_one_tab_ends_the_others(
    page: Page, window: BrowserContext, address: str, new_client: Callable[..., KeyClient]
) -> None:
    """And what was typed in them can be submitted after signing in again."""
    other_tab = window.new_page()
    other_tab.goto(f"{address}/settings")
    expect(other_tab.get_by_role("heading", name="Settings - acme")).to_be_visible()
    page.goto(address)
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    other_tab.get_by_label("Label").fill("late")
    other_tab.get_by_role("button", name="Create key").click()
    expect(other_tab.locator("h1")).to_contain_text("not signed in")
    with window.expect_page() as opened:
        other_tab.get_by_role("link", name="Sign in").click()
    sign_in(opened.value, address, str(new_client("acme", "admin").key))
    other_tab.go_back()
    expect(other_tab.get_by_label("Label")).to_have_value("late")
    other_tab.get_by_role("button", name="Create key").click()
    expect(other_tab.get_by_role("rowheader", name="late")).to_be_visible()


@pytest.mark.parametrize("width", [390, 1280])
def test_why_a_form_was_refused_is_in_view(page: Page, address: str, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 700})
    page.goto(f"{address}/settings")
    form = page.locator("form", has=page.get_by_role("button", name="Add user"))
    for _ in range(2):
        form.get_by_label("Name").fill("ana")
        form.get_by_label("Password").fill("correct horse")
        form.get_by_role("button").click()
        page.wait_for_url("**/settings**")
    problem = form.get_by_text("The name ana is taken.")
    expect(problem).to_be_focused()
    expect(problem).to_be_in_viewport()
    page.goto(f"{address}/alerts?form=slack")
    page.get_by_label("Name", exact=True).fill("phone")
    page.get_by_label("Webhook URL").fill("https://example.com/elsewhere")
    page.get_by_role("button", name="Create channel").click()
    expect(page.locator("#url-problem")).to_be_in_viewport()


def test_a_user_is_added_signs_in_with_the_keyboard_and_is_signed_out(
    page: Page, browser: Browser, address: str, app: Flask
) -> None:
    page.goto(f"{address}/settings")
    form = page.locator("form", has=page.get_by_role("button", name="Add user"))
    form.get_by_label("Name").fill("ana")
    form.get_by_label("Password").fill("correct horse")
    form.get_by_role("button").click()
    expect(page.get_by_role("status").filter(has_text="User ana added.")).to_be_visible()
    hers = browser.new_context(viewport={"width": 390, "height": 800}, java_script_enabled=False)
    ana = hers.new_page()
    ana.goto(f"{address}/incidents")
    expect(ana.get_by_label("Name")).to_be_focused()
    ana.keyboard.type("ana")
    ana.keyboard.press("Tab")
    ana.keyboard.type("correct horse")
    ana.keyboard.press("Enter")
    expect(ana.get_by_role("heading", name="Incidents")).to_be_visible()
    ana.goto(f"{address}/settings")
    expect(ana.get_by_role("heading", name="Your password")).to_be_visible()
    assert ana.locator("html").evaluate("one => one.scrollWidth") == 390
    page.reload()
    page.locator("#sessions + table").get_by_role("row", name="ana").get_by_role("button", name="End").click()
    expect(page.get_by_role("status").filter(has_text="Session ended.")).to_be_visible()
    ana.reload()
    expect(ana.get_by_role("heading", name="Sign in")).to_be_visible()
    hers.close()
