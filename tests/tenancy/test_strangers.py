"""Clients without a valid key: how often they may try, and by which address they are known."""

from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask

from obs.config import ConfigError
from obs.server.middleware import client_address, client_network, trust_proxies
from obs.services import services
from obs.tenancy import quotas, service
from tests.conftest import ApiResponse, Clock, KeyClient
from tests.dashboard.conftest import Visitor

PING = "/api/v1/heartbeat/backup/ping"
WRONG = "obs_acme_" + "0" * 32


def _ask(app: Flask, path: str = "/api/v1/jobs", key: str = WRONG, address: str = "192.0.2.1", **headers: str) -> Any:
    asking = app.test_client()
    assert isinstance(asking, KeyClient)
    return asking.get(
        path,
        headers={"X-API-Key": key, **{name.replace("_", "-"): value for name, value in headers.items()}},
        environ_base={"REMOTE_ADDR": address},
    )


def _is_refused_for_its_rate(answer: ApiResponse) -> bool:
    assert answer.status_code in (401, 429)
    if answer.status_code == 401:
        return False
    assert answer.json["error"] == "rate_limited"
    assert 1 <= int(answer.headers["Retry-After"]) <= 60
    return True


@pytest.mark.parametrize("path", ["/api/v1/jobs", PING])
def test_the_21st_wrong_key_in_a_minute_gets_429(app: Flask, client: KeyClient, clock: Clock, path: str) -> None:
    answers = [_is_refused_for_its_rate(_ask(app, path)) for _ in range(25)]
    assert answers == [False] * 20 + [True] * 5
    clock.advance(seconds=59)
    assert _is_refused_for_its_rate(_ask(app, path))
    clock.advance(seconds=1)
    assert not _is_refused_for_its_rate(_ask(app, path))


def test_a_valid_key_from_the_same_address_still_works(app: Flask, client: KeyClient) -> None:
    for _ in range(21):
        refused = _ask(app)
    assert refused.status_code == 429
    assert _ask(app, key=str(client.key)).status_code == 200
    assert _ask(app, PING, key=str(client.key)).status_code == 200
    visitor = Visitor(app)
    visitor.client.environ_base["REMOTE_ADDR"] = "192.0.2.1"
    assert visitor.sign_in(WRONG).status_code == 429
    assert visitor.sign_in(str(client.key)).status_code == 302
    assert visitor.use_link(service.create_sign_in_link(services(app).tenancy, "acme")).status_code == 302


def test_other_addresses_are_not_limited(app: Flask, client: KeyClient) -> None:
    for _ in range(21):
        _ask(app)
    assert _ask(app).status_code == 429
    assert _ask(app, address="192.0.2.2").status_code == 401


def test_a_client_has_one_limit_for_keys_the_form_and_links(make_app: Callable[..., Flask], new_client: Any) -> None:
    app = make_app(WRONG_KEYS_PER_MINUTE=4)
    new_client("acme", app=app)
    visitor = Visitor(app)
    visitor.client.environ_base["REMOTE_ADDR"] = "192.0.2.1"
    assert visitor.sign_in(WRONG).status_code == 401
    assert visitor.get("/sign-in/unknown").status_code == 401
    assert visitor.post("/sign-in/unknown").status_code == 401
    assert _ask(app).status_code == 401
    refused = visitor.sign_in(WRONG)
    assert (refused.status_code, refused.mimetype, refused.headers["Retry-After"]) == (429, "text/html", "60")
    assert visitor.get("/sign-in/unknown").status_code == 429
    assert visitor.post("/sign-in/unknown").status_code == 429
    assert _ask(app).status_code == 429


def test_requests_without_a_key_are_not_counted(app: Flask, client: KeyClient) -> None:
    assert {app.test_client().get("/api/v1/jobs").status_code for _ in range(30)} == {401}
    assert app.test_client().get("/api/v1/jobs", headers={"X-API-Key": WRONG}).status_code == 401


def test_a_clock_that_is_set_back_limits_nobody_for_longer(app: Flask, client: KeyClient, clock: Clock) -> None:
    for _ in range(21):
        _ask(app)
    clock.advance(days=-3)
    assert _ask(app).status_code == 401


def test_a_network_of_ipv6_is_one_client(app: Flask, client: KeyClient) -> None:
    for number in range(21):
        _ask(app, address=f"2001:db8:0:1::{number:x}")
    assert _ask(app, address="2001:db8:0:1:ffff::1").status_code == 429
    assert _ask(app, address="2001:db8:0:2::1").status_code == 401


def test_the_memory_for_addresses_is_limited(app: Flask, client: KeyClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quotas, "_MOST_SUBJECTS", 3)
    limit = quotas.PerMinute()
    for subject in ("a", "a", "b", "c", "a", "d"):
        limit.count(subject, 10, 0, "requests")
    assert [limit.used(subject, 0) for subject in ("a", "c", "d")] == [3, 1, 1]
    assert limit.used("b", 0) == 0  # it was idle for longest


FORWARDED = "HTTP_X_FORWARDED_"
PROXY, INNER, CLIENT = "10.0.0.1", "10.0.0.2", "198.51.100.7"


def _seen(trusted: str, environ: dict[str, Any]) -> dict[str, Any]:
    """The WSGI environment as the application sees it, with what the client sent in `environ`."""
    seen: dict[str, Any] = {}

    def app(environ: dict[str, Any], _: Any) -> list[bytes]:
        seen.update(environ)
        return []

    layer = trust_proxies(trusted, "Remote-User" if trusted else "")
    layer(app, {"wsgi.url_scheme": "http", "HTTP_HOST": "inside", **environ}, None)
    return seen


@pytest.mark.parametrize(
    ("trusted", "peer", "header", "client"),
    [
        ("", PROXY, CLIENT, PROXY),
        (PROXY, PROXY, CLIENT, CLIENT),
        (PROXY, INNER, CLIENT, INNER),  # another machine claims to be a proxy
        (PROXY, PROXY, f"1.1.1.1, {CLIENT}", CLIENT),  # the client claims an address
        (PROXY, PROXY, f"{CLIENT}, {INNER}", INNER),  # a proxy that is not trusted
        (f"{PROXY} {INNER}", PROXY, f"{CLIENT}, {INNER}", CLIENT),
        ("10.0.0.0/8", PROXY, f"1.1.1.1,{CLIENT},{INNER}", CLIENT),
        ("10.0.0.0/8, 192.0.2.0/24", PROXY, f"{INNER}", INNER),
        (PROXY, PROXY, "", PROXY),
        (PROXY, PROXY, "unknown", PROXY),
        (PROXY, PROXY, f"{CLIENT}, unknown", PROXY),
        (PROXY, f"::ffff:{PROXY}", f"::ffff:{CLIENT}", CLIENT),
        ("2001:db8::/32", "2001:db8::1", "2001:DB9:0:1::5", "2001:db9:0:1::5"),
        (PROXY, PROXY, f"{CLIENT}:5678", CLIENT),  # as Azure and IIS send it
        (PROXY, PROXY, "[2001:db9::5]:443", "2001:db9::5"),
        (PROXY, PROXY, "[2001:db9::5]", "2001:db9::5"),
        (PROXY, PROXY, "2001:db9::5:443", "2001:db9::5:443"),
        (f"{PROXY} 2001:db8::/32", PROXY, f"1.1.1.1, {CLIENT}:1, [2001:db8::1]:443", CLIENT),
        (PROXY, PROXY, f"{CLIENT}:", PROXY),
        (PROXY, PROXY, f"[{CLIENT}]:port", PROXY),
        (PROXY, "", CLIENT, ""),
    ],
)
def test_the_client_of_a_request(trusted: str, peer: str, header: str, client: str) -> None:
    assert client_address(_seen(trusted, {"REMOTE_ADDR": peer, f"{FORWARDED}FOR": header})) == client


def test_only_a_trusted_proxy_says_the_scheme_and_the_host() -> None:
    headers = {f"{FORWARDED}PROTO": "https", f"{FORWARDED}HOST": "evil.example, obs.example.com"}
    trusted = _seen(PROXY, {"REMOTE_ADDR": PROXY, **headers})
    assert (trusted["wsgi.url_scheme"], trusted["HTTP_HOST"]) == ("https", "obs.example.com")
    for untrusted in (_seen(PROXY, {"REMOTE_ADDR": CLIENT, **headers}), _seen("", {"REMOTE_ADDR": PROXY, **headers})):
        assert (untrusted["wsgi.url_scheme"], untrusted["HTTP_HOST"]) == ("http", "inside")
    unchanged = _seen(PROXY, {"REMOTE_ADDR": PROXY, f"{FORWARDED}PROTO": "gopher"})
    assert (unchanged["wsgi.url_scheme"], unchanged["HTTP_HOST"]) == ("http", "inside")


def test_clients_behind_a_trusted_proxy_are_told_apart(make_app: Callable[..., Flask], new_client: Any) -> None:
    app = make_app(TRUSTED_PROXIES=PROXY)
    new_client("acme", app=app)
    for _ in range(21):
        _ask(app, address=PROXY, X_Forwarded_For=CLIENT)
    assert _ask(app, address=PROXY, X_Forwarded_For=CLIENT).status_code == 429
    assert _ask(app, address=PROXY, X_Forwarded_For="198.51.100.8").status_code == 401
    assert _ask(app, address="192.0.2.9", X_Forwarded_For=CLIENT).status_code == 401


def test_forms_work_behind_a_proxy_that_says_https(make_app: Callable[..., Flask], new_client: Any) -> None:
    app = make_app(TRUSTED_PROXIES=PROXY, BASE_URL="https://obs.example.com")
    key = new_client("acme", "admin", app=app).key
    visitor = Visitor(app)
    visitor.client.environ_base |= {"REMOTE_ADDR": PROXY, f"{FORWARDED}PROTO": "https", f"{FORWARDED}FOR": CLIENT}
    assert visitor.sign_in(key).status_code == 302
    assert visitor.get("/settings").status_code == 200
    assert visitor.post("/settings/keys", label="x", scopes="query:read", expires="").status_code == 302


def test_an_organization_is_recognized_by_the_host_that_a_trusted_proxy_reports(
    make_app: Callable[..., Flask], new_client: Any
) -> None:
    app = make_app(TRUSTED_PROXIES=PROXY, INGEST_URL_TEMPLATE="https://{org}.in.example.com")
    key = new_client("acme", app=app).key
    new_client("globex", app=app)
    for org, status in (("acme", 200), ("globex", 403)):
        host = f"{org}.in.example.com"
        assert _ask(app, PING, key, PROXY, X_Forwarded_Host=host).status_code == status
        assert _ask(app, PING, key, CLIENT, X_Forwarded_Host=host).status_code == 200  # ignored


@pytest.mark.parametrize("setting", ["proxy.example.com", "10.0.0.0/33", "10.0.0.1/8"])
def test_an_invalid_proxy_stops_the_start(make_app: Callable[..., Flask], setting: str) -> None:
    with pytest.raises(ConfigError, match="TRUSTED_PROXIES"):
        make_app(TRUSTED_PROXIES=setting)


def test_a_client_without_an_address_is_one_client() -> None:
    assert client_network({}) == client_network({"REMOTE_ADDR": "nonsense"})


@pytest.mark.parametrize("path", ["/api/docs", "/api/docs/"])
def test_the_docs_name_no_scheme_and_no_host(app: Flask, path: str) -> None:
    answer = app.test_client().get(path, headers={"Host": "evil.example", "X-Forwarded-Host": "evil.example"})
    assert (answer.status_code, answer.headers.get("Location")) == (200, None)
    assert "evil.example" not in answer.text
    assert "http://" not in answer.text
