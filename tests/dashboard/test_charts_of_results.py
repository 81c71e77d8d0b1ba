"""A chart of a result shows the numbers of the result."""

import json
import re
from html import unescape
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


def _numbers(page: str) -> list[float]:
    """All numbers of the lines or bars of a page's chart, in their order."""
    (chart,) = re.findall(r'<script type="application/json">(.*?)</script>', page, re.DOTALL)
    layers = json.loads(unescape(chart))["layer"]
    return [value["y"] for layer in layers for value in layer["data"]["values"] if value.get("y") is not None]


@pytest.mark.parametrize(
    ("statement", "numbers"),
    [
        ("SELECT count(*) FROM runs BY job ORDER BY job LAST 3h", [6, 2]),
        ("SELECT 100 * count(*) AS x FROM runs BY job ORDER BY job LAST 3h", [600, 200]),
        ("SELECT count(*) FROM runs EVERY 1h BETWEEN '2026-06-21T10:00:00Z' AND '2026-06-21T12:00:00Z'", [4, 4]),
    ],
)
def test_a_chart_shows_the_numbers_of_the_result(reader: Visitor, statement: str, numbers: list[int]) -> None:
    page = reader.get(f"/query?q={quote(statement)}")
    assert page.status_code == 200
    assert _numbers(page.text) == numbers
