"""A page contains the data that its charts are drawn from."""

import json
import re
from typing import Any
from urllib.parse import quote

import pytest

from tests.conftest import Clock, KeyClient
from tests.dashboard.conftest import Visitor


@pytest.fixture(autouse=True)
def runs(client: KeyClient, clock: Clock) -> None:
    """In each of two hours, three runs of one job and one of another."""
    for _ in range(2):
        for job in ("backup", "backup", "backup", "mail"):
            client.post(f"/api/v1/heartbeat/{job}/ping")
        clock.advance(hours=1)


def _charted(page: str) -> dict[str, Any]:
    """The data of the only chart of a page."""
    (chart,) = re.findall(r'<script type="application/json">(.*?)</script>', page, re.DOTALL)
    found: dict[str, Any] = json.loads(chart)
    return found


@pytest.mark.parametrize(
    ("statement", "numbers"),
    [
        ("SELECT count(*) FROM runs BY job ORDER BY job LAST 3h", [6, 2]),
        ("SELECT 100 * count(*) AS x FROM runs BY job ORDER BY job LAST 3h", [600, 200]),
        ("SELECT count(*) FROM runs EVERY 1h BETWEEN '2026-06-21T10:00:00Z' AND '2026-06-21T12:00:00Z'", [4, 4]),
    ],
)
def test_a_chart_has_the_numbers_of_the_result(reader: Visitor, statement: str, numbers: list[int]) -> None:
    page = reader.get(f"/query?q={quote(statement)}")
    assert page.status_code == 200
    assert [row[1] for row in _charted(page.text)["data"]["rows"]] == numbers


@pytest.mark.parametrize(("groups", "bars"), [(50, 50), (51, 50)])
def test_a_chart_has_at_most_50_bars_and_the_page_says_so(
    reader: Visitor, client: KeyClient, clock: Clock, groups: int, bars: int
) -> None:
    for number in range(groups - 2):
        client.post(f"/api/v1/heartbeat/job-{number}/ping")
    clock.advance(hours=1)
    text = reader.get(f"/query?q={quote('SELECT count(*) FROM runs BY job LAST 4h')}").text
    assert len(_charted(text)["data"]["rows"]) == bars
    assert ("Showing the top 50." in text) is (groups > bars)
    assert f"{groups} rows" in text


@pytest.mark.parametrize(
    "path", ["/annotations", "/job?name=mail", "/query?q=SELECT+count(*)+FROM+runs+EVERY+1h+LAST+3h&overlay=all"]
)
def test_a_chart_has_only_what_it_shows_of_an_annotation(reader: Visitor, client: KeyClient, path: str) -> None:
    note = {"name": "deploy/web", "title": "Out", "start_time": "2026-06-21T10:00:00Z", "description": "long"}
    client.post("/api/v1/annotations", json=note, headers={"Idempotency-Key": "k"})
    at = 1_782_036_000_000
    expected = [{"name": "deploy/web", "title": "Out", "start_time": at, "end_time": None}]
    assert _charted(reader.get(path).text)["annotations"] == expected
