"""``/api/annotations``: programs that mark deploys in Grafana mark them here."""

from collections.abc import Callable
from typing import Any

import pytest

from obs.times import DAY_MS, format_ms
from tests.conftest import Clock, KeyClient

URL = "/api/annotations"


@pytest.fixture
def client(new_client: Callable[..., KeyClient]) -> KeyClient:
    return new_client("acme", "annotations:read", "annotations:write")


@pytest.fixture
def add(client: KeyClient) -> Callable[..., dict[str, Any]]:
    """Sends an annotation as Grafana has it, and returns ours."""

    def send(**body: Any) -> dict[str, Any]:
        sent = client.post(URL, json=body)
        assert (sent.status_code, sent.json) == (200, {"message": "Annotation added", "id": sent.json["id"]})
        stored: dict[str, Any] = client.get(f"/api/v1/annotations/{sent.json['id']}").json
        return stored

    return send


def test_the_body_in_the_documentation_of_grafana_is_a_band(
    client: KeyClient, add: Callable[..., dict[str, Any]], clock: Clock
) -> None:
    start, end = clock.now_ms - 60_000, clock.now_ms
    body = {"dashboardUID": "jcIIG-07z", "panelId": 2, "time": start, "timeEnd": end}
    band = add(**body, tags=["tag1", "tag2"], text="Annotation Description")
    assert (band["name"], band["title"], band["description"]) == ("grafana/tag1", "Annotation Description", None)
    assert (band["start_time"], band["end_time"]) == (format_ms(start), format_ms(end))


def test_a_bearer_token_with_the_scope_is_needed(client: KeyClient, new_client: Callable[..., KeyClient]) -> None:
    web = client.application.test_client()
    keys = {str(client.key): 200, str(new_client("acme", "annotations:read").key): 403, "wrong": 401}
    for key, status in keys.items():
        sent = web.post(URL, json={"text": "x"}, headers={"Authorization": f"Bearer {key}"})
        assert sent.status_code == status
        assert sent.json is not None
        assert isinstance(sent.json["message"], str)


@pytest.mark.parametrize(
    ("tags", "name"),
    [
        (None, "grafana"),
        ([], "grafana"),
        (["", " "], "grafana"),
        (["release"], "grafana/release"),
        (["release", "deploy/web"], "deploy/web"),
        (["https://ci.example.com/1"], "grafana/https://ci.example.com/1"),
        (["and/or maybe"], "grafana/and/or maybe"),
        (["env:prod", "ci/web/1", "ci/api"], "ci/web/1"),
    ],
)
def test_the_name_is_the_first_tag_with_a_namespace(
    add: Callable[..., dict[str, Any]], tags: list[str] | None, name: str
) -> None:
    assert add(text="x", tags=tags)["name"] == name


@pytest.mark.parametrize(
    ("text", "title", "description"),
    [
        ("one", "one", None),
        ("one\ntwo\nthree", "one", "two\nthree"),
        ("  one  \r\n\r\n two", "one", "two"),
        ("p99 <200ms and >50% less", "p99 <200ms and >50% less", None),
        ("<b>one</b>\n1 &lt; 2 and a < b", "one", "1 < 2 and a < b"),
        ('<a href="https://ci.example.com/1?a=1&amp;b=2">Build 1</a>', "Build 1", None),
        ("<!-- one -->\n<p>two</p>", "two", None),
        ("é" * 600, "é" * 500, "é" * 100),
        ("one\n" + "x" * 5_000, "one", "x" * 4_000),
    ],
)
def test_the_text_without_its_html_is_title_and_description(
    add: Callable[..., dict[str, Any]], text: str, title: str, description: str | None
) -> None:
    stored = add(text=text)
    assert (stored["title"], stored["description"]) == (title, description)


@pytest.mark.parametrize(
    ("time", "end", "expected"),
    [
        (None, None, (0, None)),
        (0, 0, (0, None)),
        (-60, None, (-60, None)),
        (-60, -60, (-60, None)),
        (-60, -30, (-60, -30)),
        (-30, -60, (-60, -30)),  # Grafana swaps them as well
        (None, -60, (-60, 0)),
    ],
)
def test_times_are_milliseconds(
    add: Callable[..., dict[str, Any]],
    clock: Clock,
    time: int | None,
    end: int | None,
    expected: tuple[int, int | None],
) -> None:
    """0 is the same as not sent; the others are seconds from now."""
    sent = {name: at and clock.now_ms + at * 1000 for name, at in (("time", time), ("timeEnd", end))}
    stored = add(text="x", **sent)
    start_time, end_time = (None if at is None else format_ms(clock.now_ms + at * 1000) for at in expected)
    assert (stored["start_time"], stored["end_time"]) == (start_time, end_time)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"text": ""},
        {"text": "<br>"},
        {"text": 1},
        {"text": "x", "time": "now"},
        {"text": "x", "time": -1},
        {"text": "x", "tags": "deploy"},
        {"text": "x", "tags": ["x" * 200]},
        {"text": "x", "time": 1},
    ],
)
def test_what_is_invalid_gets_400_with_a_message(client: KeyClient, body: dict[str, Any]) -> None:
    refused = client.post(URL, json=body)
    assert refused.status_code == 400
    assert refused.json["message"].startswith(("text: ", "tags: ", "tags.0: ", "time: "))
    assert client.get("/api/v1/annotations").json["annotations"] == []


def test_a_program_ends_what_it_has_begun(client: KeyClient, add: Callable[..., dict[str, Any]], clock: Clock) -> None:
    begun = add(text="Deploy\nof web", tags=["deploy/web"])
    clock.now_ms += 5_000
    done = client.patch(f"{URL}/{begun['id']}", json={"timeEnd": clock.now_ms, "tags": None})
    assert (done.status_code, done.json) == (200, {"message": "Annotation patched"})
    ended = client.get(f"/api/v1/annotations/{begun['id']}").json
    changed = {"end_time": format_ms(clock.now_ms), "updated_at": format_ms(clock.now_ms)}
    assert ended == {**begun, **changed}
    whole = {"time": clock.now_ms - 9_000, "timeEnd": clock.now_ms, "text": "Failed", "tags": ["deploy/api"]}
    assert client.patch(f"{URL}/{begun['id']}", json=whole).status_code == 200
    replaced = client.get(f"/api/v1/annotations/{begun['id']}").json
    assert (replaced["name"], replaced["title"], replaced["description"]) == ("deploy/api", "Failed", None)
    assert replaced["start_time"] == format_ms(clock.now_ms - 9_000)


@pytest.mark.parametrize("changes", [{}, {"panelId": 4}, {"text": "", "tags": [], "time": 0}])
def test_a_change_of_what_obs_does_not_have_is_accepted(
    client: KeyClient, add: Callable[..., dict[str, Any]], changes: dict[str, Any]
) -> None:
    begun = add(text="x", tags=["deploy/web"])
    done = client.patch(f"{URL}/{begun['id']}", json=changes)
    assert (done.status_code, done.json) == (200, {"message": "Annotation patched"})
    assert client.get(f"/api/v1/annotations/{begun['id']}").json == begun


def test_a_change_of_what_is_missing_or_in_the_wrong_order_is_refused(
    client: KeyClient, add: Callable[..., dict[str, Any]], clock: Clock
) -> None:
    begun = add(text="x")
    missing = client.patch(f"{URL}/999", json={"timeEnd": clock.now_ms})
    assert (missing.status_code, missing.json["error"]) == (404, "annotation_not_found")
    refused = client.patch(f"{URL}/{begun['id']}", json={"timeEnd": clock.now_ms - DAY_MS})
    assert (refused.status_code, refused.json["message"]) == (400, "timeEnd: Must not be before time.")
    assert refused.json["errors"] == {"json": {"timeEnd": ["Must not be before time."]}}
    assert client.get(f"/api/v1/annotations/{begun['id']}").json == begun


def test_the_limit_of_a_body_applies(client: KeyClient) -> None:
    assert client.post(URL, json={"text": "x" * (1 << 20)}).status_code == 413
