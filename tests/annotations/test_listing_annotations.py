"""Which annotations a list holds: by time, by prefix, by text; and the prefixes there are."""

from typing import Any

from flask import Flask
from hypothesis import HealthCheck, example, given, settings, strategies as st

from obs.services import services
from tests.conftest import ACME, KeyClient

PATH = "/api/v1/annotations"
DAY = "2026-06-20T"


def _post(client: KeyClient, title: str, start: str, end: str | None = None, name: str = "a") -> None:
    times = {"start_time": f"{DAY}{start}Z", "end_time": end and f"{DAY}{end}Z"}
    assert client.post(PATH, json={"name": name, "title": title, **times}).status_code == 201


def _titles(client: KeyClient, **query: Any) -> list[str]:
    answer = client.get(PATH, query_string=query)
    assert answer.status_code == 200, answer.json
    return [annotation["title"] for annotation in answer.json["annotations"]]


def test_the_newest_start_comes_first_and_then_the_latest_posted(client: KeyClient) -> None:
    _post(client, "noon", "12:00")
    _post(client, "morning", "08:00", "23:00")
    _post(client, "evening", "20:00")
    _post(client, "noon again", "12:00")
    assert _titles(client) == ["evening", "noon again", "noon", "morning"]


FROM_10_TO_12 = [
    ("09:00", None, False),
    ("09:59:59.999", None, False),
    ("10:00", None, True),
    ("11:00", None, True),
    ("12:00", None, True),
    ("12:00:00.001", None, False),
    ("09:00", "09:30", False),
    ("09:00", "10:00", True),
    ("09:00", "11:00", True),
    ("09:00", "13:00", True),
    ("10:30", "11:30", True),
    ("11:00", "13:00", True),
    ("12:00", "13:00", True),
    ("12:30", "13:00", False),
]


def test_a_band_belongs_to_a_range_that_it_overlaps_and_an_open_one_is_a_point(client: KeyClient) -> None:
    for start, end, _ in FROM_10_TO_12:
        _post(client, f"{start} to {end}", start, end)
    titles = _titles(client, start=f"{DAY}10:00Z", end=f"{DAY}12:00Z")
    assert set(titles) == {f"{start} to {end}" for start, end, belongs in FROM_10_TO_12 if belongs}


def test_a_range_may_be_open_on_either_side(client: KeyClient) -> None:
    for title, hour in (("early", "08:00"), ("late", "16:00")):
        _post(client, title, hour)
    assert _titles(client, start=f"{DAY}12:00Z") == ["late"]
    assert _titles(client, end=f"{DAY}12:00Z") == ["early"]


def test_a_range_may_be_relative_to_now(client: KeyClient) -> None:
    _post(client, "yesterday", "10:00:00")
    _post(client, "the day before it", "09:59:59")
    client.post(PATH, json={"name": "a", "title": "now"})
    client.post(PATH, json={"name": "a", "title": "planned", "start_time": "2026-07-01T00:00:00Z"})
    assert _titles(client, start="-24h", end="now") == ["now", "yesterday"]
    assert _titles(client, start="now") == ["planned", "now"]


REFUSED = [
    ({"start": "yesterday"}, "start"),
    ({"end": ""}, "end"),
    ({"start": "now", "end": "-1h"}, "end"),
    ({"start": "-999999999w"}, "start"),
    ({"limit": "0"}, "limit"),
    ({"limit": "1001"}, "limit"),
    ({"limit": "ten"}, "limit"),
    ({"limit": "9" * 5000}, "limit"),
    ({"name_prefix": "x" * 201}, "name_prefix"),
    ({"q": "x" * 501}, "q"),
    ({"since": "-1h"}, "since"),
    ({"start": ["-1h", "-2h"]}, "start"),
]


def test_a_parameter_that_cannot_be_is_refused_by_its_name(client: KeyClient) -> None:
    for query, field in REFUSED:
        answer = client.get(PATH, query_string=query)
        assert (answer.status_code, list(answer.json["errors"]["query"])) == (422, [field]), query


def test_start_and_end_may_be_the_same(client: KeyClient) -> None:
    _post(client, "it", "10:00")
    assert _titles(client, start=f"{DAY}10:00Z", end=f"{DAY}10:00Z") == ["it"]


SELECTED = [
    ("deploy/", ["deploy/api", "deploy/web"]),
    ("deploy/w", ["deploy/web"]),
    ("deploy", ["deploy/api", "deploy/web", "deployment"]),
    ("Deploy", ["Deploy/web"]),
    ("%", ["%/x"]),
    ("_", []),
    ("*", ["*"]),
    ("d_ploy", []),
    ("", ["deploy/api", "deploy/web", "deployment", "Deploy/web", "%/x", "*"]),
    ("zzz", []),
]


def test_a_prefix_is_taken_to_the_letter(client: KeyClient) -> None:
    for name in ("deploy/api", "deploy/web", "deployment", "Deploy/web", "%/x", "*"):
        _post(client, name, "10:00", name=name)
    for prefix, names in SELECTED:
        assert sorted(_titles(client, name_prefix=prefix)) == sorted(names), prefix


# Few characters, so that prefixes often fit; among them the wildcards of LIKE and GLOB and the edges of Unicode.
_TEXT = st.text(st.sampled_from("aA%_*[\\'\0/é\ud7ff\ue000\uffff\U00010000\U0010ffff"), min_size=1, max_size=4)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=st.lists(_TEXT, min_size=1, max_size=8), prefix=_TEXT)
@example(names=["\U0010ffff", "\U0010ffff\U0010ffffa", "a"], prefix="\U0010ffff")
@example(names=["\ud7ffa", "\ue000", "\ud7ff"], prefix="\ud7ff")
def test_a_prefix_selects_what_begins_with_it(app: Flask, client: KeyClient, names: list[str], prefix: str) -> None:
    services(app).tenancy.databases.write(ACME, lambda db: db.execute("DELETE FROM annotations"))
    for name in names:
        assert client.post(PATH, json={"name": name, "title": "t"}).status_code == 201
    answer = client.get(PATH, query_string={"name_prefix": prefix})
    listed = [annotation["name"] for annotation in answer.json["annotations"]]
    assert sorted(listed) == sorted(name for name in names if name.startswith(prefix))


FOUND = [
    ("checkout", ["Checkout is down"]),
    ("OUT IS", ["Checkout is down"]),
    ("über", ["ÜBER 100% voll"]),
    ("100%", ["ÜBER 100% voll"]),
    ("1_0", []),
    ("strasse", ["Straße gesperrt"]),
    ("STRAẞE", ["Straße gesperrt"]),
    ("café", ["Cafe\N{COMBINING ACUTE ACCENT} offline"]),
    ("after", ["nul\0after"]),
    ("incident/", []),
]


def test_text_is_found_in_titles_whatever_its_case(client: KeyClient) -> None:
    for title in (
        "Checkout is down",
        "ÜBER 100% voll",
        "Straße gesperrt",
        "Cafe\N{COMBINING ACUTE ACCENT} offline",
        "nul\0after",
    ):
        _post(client, title, "10:00", name="incident/a")
    for text, titles in FOUND:
        assert _titles(client, q=text) == titles, text


def test_the_filters_narrow_together(client: KeyClient) -> None:
    _post(client, "web down", "10:00", name="incident/web")
    _post(client, "web up", "10:00", name="incident/web")
    _post(client, "web down", "10:00", name="app/web")
    _post(client, "web down early", "08:00", name="incident/web")
    _post(client, "web down all day", "01:00", "23:00", name="incident/web")
    query = {"start": f"{DAY}09:00Z", "end": f"{DAY}11:00Z", "name_prefix": "incident/", "q": "DOWN"}
    assert _titles(client, **query) == ["web down", "web down all day"]


def test_prefixes_are_counted_and_sorted(client: KeyClient) -> None:
    for name in ("deploy/web", "deploy/api", "deploy/eu/web", "deploy", "release", "release", "/x", "Zoo/a", "a\0b/c"):
        _post(client, "t", "10:00", name=name)
    assert client.get(f"{PATH}/prefixes").json == {
        "prefixes": [
            {"prefix": "/", "count": 1},
            {"prefix": "Zoo/", "count": 1},
            {"prefix": "a\0b/", "count": 1},
            {"prefix": "deploy", "count": 1},
            {"prefix": "deploy/", "count": 3},
            {"prefix": "release", "count": 2},
        ]
    }


def test_pages_of_much_do_not_read_much(app: Flask, client: KeyClient) -> None:
    """The statement stays in indexes that hold what it asks about, so that a rare prefix reads few rows."""
    with services(app).tenancy.databases.read(ACME) as db:
        statements: list[str] = []
        db.set_trace_callback(statements.append)
    client.get(PATH, query_string={"name_prefix": "deploy/", "start": "-24h"})
    with services(app).tenancy.databases.read(ACME) as db:
        db.set_trace_callback(None)
        [statement] = [each for each in statements if "UNION ALL" in each]
        plan = [row["detail"] for row in db.execute(f"EXPLAIN QUERY PLAN {statement}")]
    assert any("USING INDEX annotations_start (start_time>? AND start_time<?)" in step for step in plan)
    assert any("USING INDEX annotations_bands (start_time<?)" in step for step in plan)
    assert not any("SCAN" in step or "TEMP B-TREE" in step for step in plan)
