"""The lists of a job's page: its runs page by page, and the latest messages that belong to no run."""

import re
from html import unescape

import pytest

from tests.conftest import Clock, KeyClient
from tests.dashboard.conftest import Visitor

END = "/api/v1/heartbeat/backup/end"
A_PAGE = 25
_EARLIER = re.compile(r'href="(/job\?[^"]*\bcursor=[^"]*)"')
_RUN = re.compile(r'href="/job/run/(\d+)"')


@pytest.mark.parametrize("pages", [1, 2, 3])
def test_every_run_is_on_a_page_newest_first(client: KeyClient, reader: Visitor, clock: Clock, pages: int) -> None:
    for _ in range(pages * A_PAGE):
        clock.advance(minutes=1)
        assert client.post(END).status_code == 200
    shown: list[int] = []
    path: str | None = "/job?name=backup"
    for _ in range(pages):
        assert path is not None
        text = reader.get(path).text
        runs = list(dict.fromkeys(int(number) for number in _RUN.findall(text)))
        assert len(runs) == A_PAGE
        shown += runs
        earlier = _EARLIER.search(text)
        path = unescape(earlier[1]) if earlier else None
    assert path is None
    assert shown == list(range(pages * A_PAGE, 0, -1))


def test_one_run_more_than_a_page_holds_is_on_the_next(client: KeyClient, reader: Visitor, clock: Clock) -> None:
    for _ in range(A_PAGE + 1):
        clock.advance(minutes=1)
        client.post(END)
    earlier = _EARLIER.search(reader.get("/job?name=backup").text)
    assert earlier is not None
    assert set(_RUN.findall(reader.get(unescape(earlier[1])).text)) == {"1"}


def test_messages_outside_of_runs_are_the_latest(client: KeyClient, reader: Visitor, clock: Clock) -> None:
    for number in range(30):
        clock.advance(minutes=1)
        assert client.post(f"/api/v1/heartbeat/backup/log?message=message-{number:02}-").status_code == 200
    shown = list(dict.fromkeys(re.findall(r"message-(\d\d)-", reader.get("/job?name=backup").text)))
    assert shown == [f"{number:02}" for number in range(29, 9, -1)]
