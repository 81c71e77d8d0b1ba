"""The query page without a browser: results, errors, limits, downloads."""

import csv
import html
import io
import re
from collections.abc import Callable
from urllib.parse import quote

import pytest
from flask import Flask

from obs.services import services
from tests.conftest import Clock, KeyClient
from tests.dashboard.conftest import Visitor


@pytest.fixture(autouse=True)
def _runs(client: KeyClient) -> None:
    for name in ("alpha", "beta", "beta"):
        client.post(f"/api/v1/heartbeat/{name}/end?duration_ms=61000")


def ask(visitor: Visitor, statement: str, more: str = "") -> tuple[int, str]:
    answer = visitor.get(f"/query?q={quote(statement)}{more}")
    return answer.status_code, answer.text


def test_a_number_is_shown_large(reader: Visitor) -> None:
    status, text = ask(reader, "SELECT count(*) FROM runs LAST 1d")
    assert status == 200
    assert '<p class="single"><b>3</b> count' in text


def test_durations_are_written_out_once_and_so_are_those_that_are_compared(
    reader: Visitor, client: KeyClient, clock: Clock
) -> None:
    client.post("/api/v1/annotations", json={"name": "deploy/web", "title": "Shop 4.0"})
    clock.advance(minutes=5)
    client.post("/api/v1/heartbeat/slow/end?duration_ms=61000")
    clock.advance(minutes=1)
    single = ask(reader, "SELECT max(duration_ms) FROM runs LAST 1d")[1]
    assert '<p class="single"><b><span title="61,000 ms">1 min 1 s</span></b> max_duration_ms</p>' in single
    cell = '<td class="number"><span title="61,000 ms">1 min 1 s</span></td>'
    around = ask(reader, "SELECT max(duration_ms) FROM runs AROUND 'deploy/' WITHIN 1h LAST 1d")[1]
    clock.advance(hours=1)
    compared = ask(reader, "SELECT max(duration_ms) FROM runs COMPARE WITH 1h AGO LAST 1h")[1]
    assert (around.count(cell), compared.count(cell)) == (2, 1)


@pytest.mark.parametrize("written", ["max(time) - 36525d", "any('2026-02-30T10:00:00.000Z')"])
def test_what_is_no_time_of_the_service_is_shown_as_text(reader: Visitor, clock: Clock, written: str) -> None:
    clock.advance(seconds=1)
    status, text = ask(reader, f"SELECT {written} AS x FROM runs LAST 1d")
    assert status == 200
    assert re.search(r'<p class="single"><b>(1926-06-21T09:58:59|2026-02-30T10:00:00).000Z</b>', text)


def test_the_name_of_a_job_leads_to_its_page_and_that_of_an_alert_does_not(
    admin: Visitor, new_client: Callable[..., KeyClient], clock: Clock, app: Flask
) -> None:
    alert = {"name": "many", "query": "SELECT count(*) FROM runs LAST 1h", "operator": ">", "threshold": 1}
    assert new_client("acme", "admin").post("/api/v1/alerts", json=alert).status_code == 201
    new_client("acme").post("/api/v1/heartbeat/alpha/end?status=fail")
    for name in ("sweep", "alerts on queries"):
        clock.advance(seconds=1)
        services(app).background.tasks[name].run()
    clock.advance(seconds=1)
    text = ask(admin, "SELECT job, kind FROM incidents LAST 1h")[1]
    assert re.search(r'<td><a href="/job\?name=alpha">alpha</a></td><td>failing</td>', text)
    assert "<td>many</td><td>alert</td>" in text


def test_an_error_is_shown_with_its_position(reader: Visitor) -> None:
    status, text = ask(reader, "SELECT count(*) FROM runs WHERE durationms > 5 LAST 1d")
    assert status == 400
    assert 'data-offset="32" data-length="10"' in text
    assert "Did you mean duration_ms?" in text
    assert "^^^^^^^^^^" in text


def test_an_error_says_each_thing_once(reader: Visitor) -> None:
    _, text = ask(reader, "SELECT count(*) FORM runs LAST 1d")
    assert text.count("Did you mean FROM?") == 1
    assert text.count("Expected one of") == 1


def test_an_exceeded_limit_is_shown_with_a_hint(reader: Visitor) -> None:
    status, text = ask(reader, "SELECT count(*) FROM runs EVERY 1s LAST 30d")
    assert status == 422
    assert "Raise EVERY" in text


def test_the_page_and_the_api_share_one_rate(
    make_app: Callable[..., Flask], new_client: Callable[..., KeyClient]
) -> None:
    app = make_app(QUERY_RATE_PER_MINUTE=2)
    client = new_client("acme", app=app)
    visitor = Visitor(app)
    visitor.sign_in(str(client.key))
    statement = "SELECT count(*) FROM runs LAST 1d"
    assert ask(visitor, statement)[0] == 200
    assert client.post("/api/v1/dsl", json={"query": statement}).status_code == 200
    assert ask(visitor, statement)[0] == 429


def test_a_refusal_says_when_to_try_again(make_app: Callable[..., Flask], new_client: Callable[..., KeyClient]) -> None:
    app = make_app(QUERY_RATE_PER_MINUTE=1)
    visitor = Visitor(app)
    visitor.sign_in(str(new_client("acme", app=app).key))
    statement = quote("SELECT count(*) FROM runs LAST 1d")
    assert visitor.get(f"/query?q={statement}").status_code == 200
    for path in ("/query", "/query/answer.csv"):
        refused = visitor.get(f"{path}?q={statement}")
        assert (refused.status_code, refused.mimetype) == (429, "text/html")
        assert int(refused.headers["Retry-After"]) > 0


def test_groups_without_numbers_are_a_table_without_a_chart(reader: Visitor) -> None:
    status, text = ask(reader, "SELECT max(time) FROM runs BY job LAST 1d")
    assert status == 200
    assert "2 rows" in text
    assert "data-chart" not in text


def test_the_result_can_be_downloaded(reader: Visitor, client: KeyClient) -> None:
    statement = "SELECT count(*) FROM runs BY job LAST 1d"
    answer = reader.get(f"/query/answer.csv?q={quote(statement)}")
    assert answer.text.splitlines() == ["job,count", "alpha,1", "beta,2"]
    assert reader.get(f"/query/answer.json?q={quote(statement)}").json == (
        client.post("/api/v1/dsl", json={"query": statement}).json
    )


FORMULAS = ("=HYPERLINK(0)", "+1+1", "-2+3", "@SUM(1)", "＝1+1", "＋1", "－1", "＠x")  # noqa: RUF001
PLAIN = ("a=1", "'quoted", "2026-06-21")


def _rows_of_csv(visitor: Visitor, statement: str) -> list[list[str]]:
    return list(
        csv.reader(io.StringIO(visitor.get("/query/answer.csv", query_string={"q": statement}).text, newline=""))
    )


def test_text_in_csv_is_no_formula_in_a_spreadsheet(reader: Visitor, client: KeyClient, clock: Clock) -> None:
    for name in (*FORMULAS, *PLAIN):
        assert client.post("/api/v1/heartbeat/ping", json={"name": name}).status_code == 200
    for message in ("\t=1", "\r=1", "\n=1", "plain\n=1"):
        client.post("/api/v1/heartbeat/messages/log", data=message.encode())
    clock.advance(seconds=1)
    names = {row[1] for row in _rows_of_csv(reader, "SELECT time, job FROM runs LIMIT 99 LAST 1d")}
    assert {f"'{name}" for name in FORMULAS} | set(PLAIN) <= names
    assert not names & set(FORMULAS)
    messages = {row[1] for row in _rows_of_csv(reader, "SELECT time, message FROM logs LAST 1d")}
    assert messages >= {"'\t=1", "'\r=1", "'\n=1", "plain\n=1"}


def test_numbers_in_csv_stay_numbers_and_titles_are_no_formulas(reader: Visitor) -> None:
    rows = _rows_of_csv(reader, 'SELECT -5 AS "=1", -0.5 AS half, count(*) FROM runs LAST 1d')
    assert rows == [["'=1", "half", "count"], ["-5", "-0.5", "3"]]


def test_annotations_of_a_prefix_are_an_overlay_of_a_timeseries(reader: Visitor, client: KeyClient) -> None:
    client.post("/api/v1/annotations", json={"name": "deploy/web", "title": "Web is out"})
    client.post("/api/v1/annotations", json={"name": "incident/db", "title": "Database is slow"})
    statement = "SELECT count(*) FROM runs EVERY 1h SINCE NOW - 2h UNTIL '2026-06-21T12:00:00Z'"
    assert "Web is out" not in ask(reader, statement)[1]
    drawn = ask(reader, statement, "&overlay=deploy/")[1]
    assert "Web is out" in drawn
    assert "Database is slow" not in drawn


def test_nobody_queries_another_organization(stranger: Visitor) -> None:
    assert '<p class="single"><b>0</b> count' in ask(stranger, "SELECT count(*) FROM runs LAST 1d")[1]


def fields(page: str) -> dict[str, str]:
    """The fields of parameters and their values."""
    return dict(re.findall(r'<input name="(:\w+)" value="([^"]*)"', page))


def test_a_parameter_gets_a_field_and_its_value_is_kept_in_the_url(reader: Visitor, client: KeyClient) -> None:
    client.post("/api/v1/heartbeat/backup/end?duration_ms=2000")
    client.post("/api/v1/heartbeat/123/end?duration_ms=9000")
    statement = "SELECT job FROM runs WHERE job = :job AND duration_ms > :least LAST 1d"
    asked = reader.get("/query", query_string={"q": statement})
    assert asked.status_code == 400
    assert "The parameter job has no value. Enter it below." in asked.text
    assert fields(asked.text) == {":job": ""}
    asked = reader.get("/query", query_string={"q": statement, ":job": "backup", ":least": ""})
    assert "The parameter least has no value. Enter it below." in asked.text
    assert fields(asked.text) == {":job": "backup", ":least": ""}
    for job, least, rows in (("backup", "1500", 1), ("backup", "2500", 0), ('"123"', "1e3", 1)):
        shown = reader.get("/query", query_string={"q": statement, ":job": job, ":least": least})
        assert f"{rows} row" in shown.text
        assert fields(shown.text) == {":job": job.replace('"', "&#34;"), ":least": least}
        download = re.search(r'href="(/query/answer.csv[^"]+)"', shown.text)
        assert download is not None
        assert len(reader.get(html.unescape(download[1])).text.splitlines()) == 1 + rows
        assert "Alert me on this" not in shown.text
    wrong = reader.get("/query", query_string={"q": statement, ":job": "123", ":least": "1"})
    assert (wrong.status_code, "The parameter has to be" in wrong.text or "text" in wrong.text) == (400, True)


def test_a_parameter_that_is_nested_too_deeply_for_json_is_text(reader: Visitor) -> None:
    status, text = ask(reader, "SELECT count(*) FROM runs WHERE job != :a LAST 1d", f"&:a={'[' * 5_000}")
    assert status == 200
    assert '<p class="single"><b>3</b> count' in text
