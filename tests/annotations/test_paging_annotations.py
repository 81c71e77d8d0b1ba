"""Going through a long list page by page."""

from typing import Any

from flask import Flask
from hypothesis import HealthCheck, given, settings, strategies as st

from obs.services import services
from obs.times import format_ms
from tests.conftest import ACME, KeyClient

PATH = "/api/v1/annotations"


def _pages(client: KeyClient, **query: Any) -> list[list[int]]:
    """The ids on every page, followed to the end."""
    pages: list[list[int]] = []
    cursor = None
    while cursor is not None or not pages:
        answer = client.get(PATH, query_string={**query, **({"cursor": cursor} if cursor else {})}).json
        pages.append([annotation["id"] for annotation in answer["annotations"]])
        cursor = answer["next_cursor"]
    return pages


def test_a_page_holds_a_hundred_unless_asked_otherwise(client: KeyClient) -> None:
    for number in range(101):
        client.post(PATH, json={"name": "a", "title": str(number)})
    assert [len(page) for page in _pages(client)] == [100, 1]
    assert [len(page) for page in _pages(client, limit=1000)] == [101]
    assert [len(page) for page in _pages(client, limit=101)] == [101]


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    spans=st.lists(st.tuples(st.integers(0, 6), st.none() | st.integers(0, 6)), max_size=12),
    limit=st.integers(1, 5),
    bounds=st.tuples(st.none() | st.integers(0, 6), st.none() | st.integers(0, 6)),
)
def test_the_pages_hold_each_annotation_of_the_range_exactly_once_and_in_order(
    app: Flask,
    client: KeyClient,
    clock: Any,
    spans: list[tuple[int, int | None]],
    limit: int,
    bounds: tuple[int | None, int | None],
) -> None:
    services(app).tenancy.databases.write(ACME, lambda db: db.execute("DELETE FROM annotations"))
    placed = []
    for offset, length in spans:
        start = clock.now_ms + offset
        end = None if length is None else start + length
        body = {"name": "a", "title": "t", "start_time": format_ms(start), "end_time": end and format_ms(end)}
        placed.append((start, client.post(PATH, json=body).json["id"], start if end is None else end))
    low, high = (None if bound is None else clock.now_ms + bound for bound in bounds)
    if low is not None and high is not None and high < low:
        low, high = high, low
    query: dict[str, Any] = {"limit": limit}
    if low is not None:
        query["start"] = format_ms(low)
    if high is not None:
        query["end"] = format_ms(high)

    pages = _pages(client, **query)

    expected = [
        number
        for start, number, last in sorted(placed, reverse=True)
        if (low is None or last >= low) and (high is None or start <= high)
    ]
    assert [number for page in pages for number in page] == expected
    assert all(len(page) == limit for page in pages[:-1])
    assert 0 < len(pages[-1]) <= limit or expected == []


def test_what_is_posted_between_two_pages_shifts_nothing(client: KeyClient) -> None:
    for number in range(6):
        client.post(PATH, json={"name": "a", "title": str(number), "start_time": f"2026-06-20T10:0{number // 2}:00Z"})
    first = client.get(PATH, query_string={"limit": 3}).json
    for start in ("2026-06-20T12:00:00Z", "2026-06-20T10:01:00Z"):
        client.post(PATH, json={"name": "a", "title": "new", "start_time": start})
    client.delete(f"{PATH}/{first['annotations'][-1]['id']}")
    second = client.get(PATH, query_string={"limit": 3, "cursor": first["next_cursor"]}).json
    titles = [annotation["title"] for page in (first, second) for annotation in page["annotations"]]
    assert titles == ["5", "4", "3", "2", "1", "0"]
    assert second["next_cursor"] is None


def test_a_cursor_does_not_reach_past_the_end_of_the_range(client: KeyClient) -> None:
    for hour in ("08", "09", "10", "11"):
        client.post(PATH, json={"name": "a", "title": hour, "start_time": f"2026-06-20T{hour}:00:00Z"})
    cursor = client.get(PATH, query_string={"limit": 1}).json["next_cursor"]
    answer = client.get(PATH, query_string={"cursor": cursor, "end": "2026-06-20T09:00:00Z"}).json
    assert [annotation["title"] for annotation in answer["annotations"]] == ["09", "08"]


NO_CURSORS = ["", "x", "!!!", "WzFd", "WzEsMiwzXQ", "WyJhIiwxXQ", "W251bGwsMV0", "e30", "ä", "\0", "9" * 5000]


def test_a_cursor_that_is_none_is_refused(client: KeyClient) -> None:
    for cursor in NO_CURSORS:
        answer = client.get(PATH, query_string={"cursor": cursor})
        assert (answer.status_code, list(answer.json["errors"]["query"])) == (422, ["cursor"]), cursor


def test_the_last_page_has_no_cursor(client: KeyClient) -> None:
    assert client.get(PATH).json == {"annotations": [], "next_cursor": None}
    for title in ("one", "two"):
        client.post(PATH, json={"name": "a", "title": title})
    assert client.get(PATH, query_string={"limit": 2}).json["next_cursor"] is None
    assert client.get(PATH, query_string={"limit": 1}).json["next_cursor"] is not None
