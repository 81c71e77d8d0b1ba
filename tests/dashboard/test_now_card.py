"""A job that needs attention says why on its page and on the overview, whatever the reason."""

import re
from html import unescape

import pytest
from flask import Flask

from obs.services import services
from tests.conftest import Clock, KeyClient
from tests.dashboard.conftest import Visitor

JOB = "/api/v1/heartbeat/backup"
PAGE = "/job?name=backup"


def card(visitor: Visitor) -> str:
    """The words of the card; empty where there is none."""
    part = visitor.get(PAGE).text.partition('<div id="part-now" data-part>')[2].partition('<div class="pair"')[0]
    text = unescape(re.sub(r"<[^>]*>", " ", part))
    return " ".join(text.split())


def fail(client: KeyClient, clock: Clock, output: str = "", exit_code: int = 75) -> None:
    client.post(f"{JOB}/start")
    clock.advance(minutes=1)
    client.post(f"{JOB}/end?exit_code={exit_code}", data=output)
    clock.advance(minutes=9)


def test_a_job_that_is_well_has_no_card(client: KeyClient, reader: Visitor, clock: Clock) -> None:
    fail(client, clock)
    client.post(f"{JOB}/end")
    assert card(reader) == ""


def test_a_failing_job_says_since_when_how_often_and_when_it_was_last_ok(
    client: KeyClient, reader: Visitor, clock: Clock
) -> None:
    fail(client, clock)
    client.post(f"{JOB}/end")
    clock.advance(hours=43)
    for _ in range(3):
        fail(client, clock, "disk full\n")
    words = card(reader)
    assert words.startswith("Failing since 2026-06-23 05:11:00 UTC exit 75 3 in a row last OK 1 d 19 h ago")
    assert "disk full" in words
    assert "/job/run/5" in reader.get(PAGE).text  # the last failure


def test_the_card_ends_with_the_last_twenty_lines_of_the_log(client: KeyClient, reader: Visitor, clock: Clock) -> None:
    client.post(f"{JOB}/start")
    for part in range(3):
        client.post(f"{JOB}/log", data="\n".join(f"line-{part * 10 + line:02}" for line in range(10)))
    client.post(f"{JOB}/end?status=fail", data="the last words")
    assert re.findall(r"line-(\d\d)", card(reader)) == [f"{line:02}" for line in range(11, 30)]
    assert "the last words" in card(reader)


@pytest.mark.parametrize(("hours_before", "shown"), [(1, True), (23, True), (25, False), (-0.1, False)])
def test_what_changed_just_before_is_named(
    client: KeyClient, reader: Visitor, clock: Clock, hours_before: float, shown: bool
) -> None:
    clock.advance(hours=48)
    for title, start in (("Shop 3.9", "2026-06-22T04:00:00Z"), ("Shop 4.0", "2026-06-23T10:00:00Z")):
        sent = {"name": "deploy/shop", "title": title, "start_time": start}
        assert client.post("/api/v1/annotations", json=sent).status_code == 201
    clock.advance(hours=hours_before)
    fail(client, clock)
    assert ("Just before: Shop 4.0" in card(reader)) == shown
    assert "Shop 3.9" not in card(reader)


def test_a_lost_run_is_named(client: KeyClient, reader: Visitor, clock: Clock) -> None:
    client.post(f"{JOB}/start")
    client.post(f"{JOB}/log", data="halfway there")
    clock.advance(minutes=5)
    client.post(f"{JOB}/start")
    words = card(reader)
    assert words.startswith("Lost, no end reported, since 2026-06-21 10:00:00 UTC never OK")
    assert "halfway there" in words


def test_an_overdue_job_shows_its_last_run(app: Flask, client: KeyClient, reader: Visitor, clock: Clock) -> None:
    for _ in range(8):
        client.post(f"{JOB}/end", data="all copied")
        clock.advance(hours=1)
    services(app).background.tasks["sweep"].run()
    clock.advance(days=2)
    words = card(reader)
    assert words.startswith("Overdue since 2026-06-22 10:00:25 UTC last OK 2 d 1 h ago")
    assert "all copied" in words
    assert "in a row" not in words


def test_only_an_admin_is_offered_to_pause_and_the_pause_ends_by_itself(
    client: KeyClient, admin: Visitor, clock: Clock
) -> None:
    fail(client, clock)
    assert "Pause for 1 hour" in card(admin)
    assert admin.post("/job/pause?name=backup", until="+1h").status_code == 302
    assert card(admin) == ""
    clock.advance(minutes=61)
    assert card(admin).startswith("Failing since")


def test_a_reader_cannot_pause(client: KeyClient, reader: Visitor, clock: Clock) -> None:
    fail(client, clock)
    assert "Pause for 1 hour" not in card(reader)


@pytest.mark.parametrize(
    ("output", "line"),
    [
        ("", ""),
        ("\n\n disk full\n", "disk full"),
        ("copying\n\x1b[1;31mERROR: disk full\x1b[0m\ngave up", "ERROR: disk full"),
        ("Traceback (most recent call last):\n  File x\nValueError: no such shop", "ValueError: no such shop"),
        ("\x1b[0m\n", ""),
        ("x" * 9_000, "x" * 200),
        ("<b>failed</b>", "&lt;b&gt;failed&lt;/b&gt;"),
    ],
)
def test_the_overview_has_the_line_that_names_the_error(
    client: KeyClient, reader: Visitor, clock: Clock, output: str, line: str
) -> None:
    fail(client, clock, output)
    text = reader.get("/").text
    assert re.findall(r'<small class="error">(.*?)</small>', text) == ([line] if line else [])
    client.post(f"{JOB}/end", data="error: but it worked")
    assert 'class="error"' not in reader.get("/").text
