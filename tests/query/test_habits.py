"""Statements as users of SQL, NRQL, PromQL, LogQL and newcomers write them: the result, or the advice that they get."""

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Ask = Callable[..., dict[str, Any]]
pytestmark = pytest.mark.usefixtures("shop")

# a statement, the rows of its result
ANSWERED: list[tuple[str, list[list[Any]]]] = [
    ("SELECT count(*) FROM runs LAST 1d OFFSET 5", []),
    ("SELECT count(*) FROM runs LAST 1 hour", [[2]]),
    ("SELECT count(*) FROM runs WHERE status == 'failed' && exit_code = 1 LAST 1d;", [[0]]),
    ("SELECT count(*) FROM runs SINCE yesterday", [[6]]),
    (
        "SELECT job, count(*) FROM runs GROUP BY 1 ORDER BY 2 DESC LAST 1d",
        [["backup", 3], ["mail", 2], ["report/weekly", 1]],
    ),
    ("SELECT count(*) FROM runs BY job ORDER BY 2 DESC LAST 1d", [["backup", 3], ["mail", 2], ["report/weekly", 1]]),
    ("SELECT DISTINCT job FROM runs LAST 1d", [["backup"], ["mail"], ["report/weekly"]]),
    ("SELECT DISTINCT(job) FROM runs LAST 1d", [["backup"], ["mail"], ["report/weekly"]]),
    (
        "SELECT DISTINCT job, status FROM runs ORDER BY job DESC LAST 1d",
        [["report/weekly", "lost"], ["mail", "open"], ["mail", "success"], ["backup", "failed"], ["backup", "success"]],
    ),
    ("SELECT count(*) FROM runs BY host AS h LAST 1d", [[None, 1], ["db1", 3], ["web1", 2]]),
    ("SELECT count(*) FROM runs SINCE 1 hour ago", [[2]]),
    ("SELECT count(*) FROM runs SINCE 3 hours ago UNTIL 1 hour ago", [[3]]),
    ("SELECT count(*) FROM runs WHERE time > now() - 1h AND status = 'open'", [[1]]),
    ("SELECT count(*) FROM runs WHERE time >= '2026-06-21' and time < '2026-06-22'", [[5]]),
    ("SELECT count(*) FROM runs WHERE time BETWEEN '2026-06-21' AND NOW() GROUP BY job", [["backup", 3], ["mail", 2]]),
    ("SELECT count(*) FROM runs WHERE '2026-06-21' <= time", [[5]]),
    ("SELECT count(*) FROM runs SINCE TODAY", [[5]]),
    ("SELECT count(*) FROM runs SINCE yesterday UNTIL today TIMEZONE 'Europe/Berlin'", [[0]]),
    ("SELECT count(*) FROM runs BETWEEN 2h AGO AND NOW()", [[4]]),
    ("SELECT count(*) FROM runs WHERE time > now() - 1 day", [[6]]),
    ("SELECT count(*) FROM runs SINCE NOW() - 1h", [[2]]),
    ("SELECT id FROM runs WHERE status = 'failed' || status = 'lost' LAST 1d", [[6], [2]]),
    ("SELECT count(*) FROM runs SINCE now() - 1h", [[2]]),
    (
        'SELECT job, avg(duration_ms) AS "mean ms" FROM runs GROUP BY job LAST 1d',
        [["backup", 11333.333333333334], ["mail", None], ["report/weekly", None]],
    ),
    ("SELECT id FROM runs WHERE job LIKE 'back%' ORDER BY time DESC LIMIT 1 OFFSET 1 LAST 1d", [[2]]),
    ("SELECT job FROM runs ORDER BY time DESC LIMIT 2 OFFSET 1 LAST 1d", [["backup"], ["mail"]]),
    ("SELECT count(*) FROM runs SINCE 1 week ago COMPARE WITH 1 week ago", [[6, 0]]),
    ("SELECT message FROM logs WHERE message LIKE '%disk%' LAST 1d", [["disk 100% full"]]),
    ("SELECT count(*) FROM runs WHERE status != 'success' AND NOT job = 'mail' LAST 1 day;", [[2]]),
    ("SELECT count(*) FROM runs WHERE status <> 'success' LAST 24 hours", [[3]]),
    ("SELECT count(1) FROM runs LAST 1d", [[6]]),
    ("SELECT count(CASE WHEN status = 'failed' THEN 1 END) FROM runs LAST 1d", [[1]]),
    ("SELECT count(DISTINCT if(status = 'failed', 'a', 'b')) FROM runs LAST 1d", [[2]]),
    ("SELECT count(*) FROM runs WHERE ended_at - time > 0 LAST 1d", [[3]]),
    ("SELECT count(*) FROM runs WHERE status LIKE 'fail%' OR status =~ '^\\w*st$' LAST 1d", [[2]]),
    ("SELECT count(*) FROM runs WHERE status =~ '^.{4}$' OR status =~ '[[:upper:]]?' LAST 1d", [[6]]),
    ("SELECT count(*) FROM runs WHERE status LIKE 'fxailed' ESCAPE 'x' AND status ILIKE 'F%' LAST 1d", [[1]]),
    ("SELECT COUNT(DISTINCT job) FROM runs LAST 1d", [[3]]),
    ("SELECT count(distinct(job)) FROM runs LAST 1d", [[3]]),
    ("SELECT max(duration_ms)/1000 AS s FROM runs LAST 1d", [[30.0]]),
    ("SELECT id FROM runs WHERE duration_ms > 10s LAST 1d", [[2]]),
    ("SELECT job FROM runs WHERE duration_ms > 10 seconds LAST 1d", [["backup"]]),
    ("SELECT id FROM runs WHERE exit_code IS NOT NULL AND exit_code NOT IN (0) LAST 1d", [[2]]),
    ("SELECT job FROM jobs WHERE overdue LAST 1d", [["mail"]]),
    ("SELECT id FROM runs WHERE host IS NULL LAST 1d", [[6]]),
    ("SELECT count(*) AS n FROM runs GROUP BY job HAVING n > 1 ORDER BY n DESC LAST 1d", [["backup", 3], ["mail", 2]]),
    ("SELECT id FROM runs WHERE time > '2026-06-21' LIMIT 1", [[1]]),
    ("SELECT job FROM runs WHERE time > '2026-06-21 08:15' AND time <= '2026-06-21 09:00'", [["mail"], ["backup"]]),
    (
        "SELECT job FROM runs WHERE time BETWEEN '2026-06-21T08:00:00Z' AND '2026-06-21T08:30:00Z'",
        [["backup"], ["mail"]],
    ),
    ("SELECT count(*) FROM runs WHERE date(time) = '2026-06-21' LAST 7d", [[5]]),
    ("SELECT date(time), count(*) FROM runs GROUP BY date(time) LAST 7d", [["2026-06-20", 1], ["2026-06-21", 5]]),
    ("SELECT hour(time) AS h, count(*) FROM runs GROUP BY h ORDER BY h LAST 7d", [[7, 1], [8, 2], [9, 2], [23, 1]]),
    (
        "SELECT count(*) FROM runs EVERY 1 hour LAST 3 hours",
        [["2026-06-21T07:00:00.000Z", 1], ["2026-06-21T08:00:00.000Z", 2], ["2026-06-21T09:00:00.000Z", 2]],
    ),
    ("SELECT percentile(duration_ms, 95) FROM runs LAST 1d", [[27299.999999999996]]),
    ("SELECT sum(if(status = 'failed', 1, 0)) FROM runs LAST 1d", [[1]]),
    ("SELECT sum(CASE WHEN status = 'failed' THEN 1 ELSE 0 END) FROM runs LAST 1d", [[1]]),
    (
        "SELECT coalesce(host, 'none') AS h, count(*) FROM runs GROUP BY h LAST 1d",
        [["db1", 3], ["none", 1], ["web1", 2]],
    ),
    ("SELECT now() FROM runs LAST 1d LIMIT 1", [["2026-06-21T10:00:00.000Z"]]),
    ('SELECT count(*) as "n" FROM runs LAST 1d', [[6]]),
    ('SELECT "job" FROM runs LAST 1h', [["backup"], ["mail"]]),
    ("SELECT 'a job' FROM runs LAST 1h", [["a job"], ["a job"]]),
    ("SELECT 'job' AS kind FROM runs LAST 1h", [["job"], ["job"]]),
    ("SELECT count(*) FROM runs WHERE hour(time) BETWEEN 0 AND 24 LAST 1d", [[6]]),
    ("SELECT count(*) FROM runs WHERE job LIKE '* * * * *' OR job CONTAINS '*** job ***' LAST 1d", [[0]]),
    ("SELECT count(*) FROM runs WHERE duration_ms > 1 mins LAST 2 hrs", [[0]]),
    ("SELECT id FROM runs WHERE 1=1 OR 'a'='a' LAST 1d; --", [[6], [1], [2], [4], [3], [5]]),
    ("SELECT count(*) FROM runs SINCE '2026-06-21T08:00:00+02:00'", [[5]]),
    ("SELECT job FROM runs WHERE job NOT LIKE '%a%' LAST 1d", [["report/weekly"]]),
    ("SELECT job FROM runs WHERE job not in ('backup', 'mail') LAST 1d", [["report/weekly"]]),
    ("SELECT lower(job) = 'mail' FROM runs LAST 1h", [[False], [True]]),
    ("SELECT (1 + 2) * 3 FROM runs LIMIT 1 LAST 1d", [[9]]),
    ("SELECT 7 / 2, 7 % 2 FROM runs LIMIT 1 LAST 1d", [[3.5, 1]]),
    (
        "SELECT duration_ms / 60000 AS minutes FROM runs WHERE duration_ms / 1000 > 2 ORDER BY minutes DESC LAST 1d",
        [[0.5], [0.05]],
    ),
    ("SELECT count(*) FROM runs WHERE job ILIKE 'BACK%' LAST 1d", [[3]]),
    ("SELECT count(*) FROM runs WHERE exit_code BETWEEN 1 AND 5 LAST 1d", [[1]]),
    ("SELECT count(*) FROM runs HAVING count > 100 LAST 1d", []),
    ("SELECT duration_ms / 1000 AS s, s * 2 AS d FROM runs WHERE s > 2 LAST 1d", [[30.0, 60.0], [3.0, 6.0]]),
    ("SELECT count(*) AS n, n * 100 AS pct FROM runs LAST 1d", [[6, 600]]),
    ("SELECT job AS j, count(*) FROM runs WHERE j = 'mail' BY j LAST 1d", [["mail", 2]]),
    (
        "SELECT count(*) FROM runs BY status AS s, job AS j ORDER BY s, j LIMIT 2 LAST 1d",
        [["failed", "backup", 1], ["lost", "report/weekly", 1]],
    ),
    *(
        (f"SELECT {columns} FROM runs GROUP BY {groups} ORDER BY s, job LIMIT 2 LAST 1d", rows)
        for rows in ([["failed", "backup", 1], ["lost", "report/weekly", 1]],)
        for columns, groups in (("count(*)", "status AS s, job"), ("job, count(*)", "status AS s, 1"))
    ),
    ("SELECT count(*) FROM runs BY job ORDER BY count DESC LIMIT 1 OFFSET 1 LAST 1d", [["mail", 2]]),
    ("SELECT count(*) FROM runs BY job TOP 2 OFFSET 1 LAST 1d", [["mail", 2]]),
    ("SELECT\u00a0count(*)\u2003FROM runs\u200b LAST 1d", [[6]]),
]

# a statement, the error code, the advice
ADVISED = [
    (statement, error, advice)
    for error, advised in tomllib.loads(Path(__file__).with_name("habits.toml").read_text("utf-8")).items()
    for advice, statements in advised.items()
    for statement in statements
]


@pytest.mark.parametrize(("statement", "rows"), ANSWERED)
def test_a_habit_that_is_understood(ask: Ask, statement: str, rows: list[list[Any]]) -> None:
    assert ask(statement)["rows"] == rows


@pytest.mark.parametrize(("statement", "error", "advice"), ADVISED)
def test_a_habit_that_gets_advice(ask: Ask, statement: str, error: str, advice: str) -> None:
    answer = ask(statement, 400)
    assert answer["error"] == error
    assert (answer.get("hint") or answer["message"].partition(": ")[2]) == advice


def test_there_are_a_hundred_and_fifty() -> None:
    statements = [each[0] for each in (*ANSWERED, *ADVISED)]
    assert len(statements) == len(set(statements)) >= 150
