# ruff: noqa: RUF001 - statements are easier to read unbroken, and are written as people write them
"""Statements as users of SQL, NRQL, PromQL, LogQL and newcomers write them: the result, or the advice that they get."""

from collections.abc import Callable
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
    ("SELECT 'job' FROM runs LAST 1h", [["job"], ["job"]]),
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
    ("SELECT count(*) FROM runs BY job ORDER BY count DESC LIMIT 1 OFFSET 1 LAST 1d", [["mail", 2]]),
    ("SELECT count(*) FROM runs BY job TOP 2 OFFSET 1 LAST 1d", [["mail", 2]]),
    ("SELECT\u00a0count(*)\u2003FROM runs\u200b LAST 1d", [[6]]),
]

# a statement, the error code, the advice: the hint, or the message if there is no hint
ADVISED = [
    ("SELECT count(*) FORM runs LAST 1d", "oql_syntax", "Did you mean FROM?"),
    ("SELECT count(*) FROM runs WERE status = 'failed' LAST 1d", "oql_syntax", "Did you mean WHERE?"),
    ("SELECT count(*) FROM runs FACET job LAST 1d", "oql_syntax", "Write BY."),
    (
        "SELECT count(*) FROM runs TIMESERIES LAST 1d",
        "oql_syntax",
        "Write EVERY 1h or EVERY 1d: it makes one row for each bucket of time.",
    ),
    (
        "SELECT count(*) FROM runs WHERE job ~ 'x' LAST 1d",
        "oql_syntax",
        "Write =~ 'regex', !~ 'regex' or LIKE 'pattern%'.",
    ),
    (
        "SELECT count(*) FROM runs WHERE job RLIKE 'x' LAST 1d",
        "oql_syntax",
        "Write =~ 'regex', !~ 'regex' or LIKE 'pattern%'.",
    ),
    ("SELECT count(*) FROM runs r WHERE r.job = 'x' LAST 1d", "oql_syntax", "A source needs no other name."),
    (
        "SELECT r.job FROM runs LAST 1d",
        "oql_syntax",
        "Write the column without the name of its source: a statement reads one source.",
    ),
    (
        "SELECT count(*) FROM runs JOIN jobs ON 1=1 LAST 1d",
        "oql_syntax",
        "A statement reads one source. Ask two statements, or use a source that has both columns.",
    ),
    (
        "SELECT count(*) FROM (SELECT * FROM runs) LAST 1d",
        "oql_syntax",
        "A statement reads one source: there are no subqueries. SHOW SOURCES lists the sources.",
    ),
    (
        "SELECT count(*) FROM runs LAST 1d UNION SELECT 1",
        "oql_syntax",
        "A statement reads one source. Ask two statements, or use a source that has both columns.",
    ),
    ("SELECT count(*) FROM runs WHERE status = ‘failed’ LAST 1d", "oql_syntax", "Use straight quotes: 'text'."),
    (
        "SELECT count(*) FROM runs WHERE time > now() - INTERVAL '1 day' LAST 1d",
        "oql_syntax",
        "Write the duration alone: 1d, 90s or 5 minutes.",
    ),
    (
        "SELECT date_trunc('hour', time), count(*) FROM runs GROUP BY 1 LAST 1d",
        "oql_unknown_function",
        "Write EVERY 1h or EVERY 1d: it makes one row for each bucket of time.",
    ),
    ("SELECT mean(duration_ms) FROM runs LAST 1d", "oql_unknown_function", "Write avg(x)."),
    ("SELECT uniq(job) FROM runs LAST 1d", "oql_unknown_function", "Write count(DISTINCT x)."),
    ("SELECT count() FROM runs LAST 1d", "oql_type_mismatch", "Write count(*)."),
    ("SELECT job status FROM runs LAST 1d", "oql_syntax", "Did you mean STARTS?"),
    (
        'count_over_time({job="x"} |= "error" [1h])',
        "oql_syntax",
        "A statement begins with SELECT: SELECT count(*) FROM runs WHERE status = 'failed' LAST 1d.",
    ),
    (
        "rate(runs[5m])",
        "oql_syntax",
        "A statement begins with SELECT: SELECT count(*) FROM runs WHERE status = 'failed' LAST 1d.",
    ),
    (
        "FROM runs SELECT count(*) SINCE 1 day ago",
        "oql_syntax",
        "A statement begins with SELECT: SELECT count(*) FROM runs WHERE status = 'failed' LAST 1d.",
    ),
    (
        "SELECT percentage(count(*), WHERE status = 'failed') FROM runs LAST 1d",
        "oql_syntax",
        "Write count(*) FILTER (WHERE condition).",
    ),
    ("SELECT count(*) FROM runs LAST hour", "oql_syntax", "Write a number and a unit: 1 hour, 1 day."),
    ("UPDATE runs SET status = 'x'", "oql_syntax", "OQL reads data and cannot change it."),
    ("SELECT count(*) WHERE status = 'failed' LAST 1d", "oql_syntax", "Write FROM and a source before it."),
    ("SELECT count(* FROM runs LAST 1d", "oql_syntax", "Unexpected 'FROM'. Expected ')'."),
    (
        "SELECT count(*) FROM runs WHERE status IN 'failed' LAST 1d",
        "oql_syntax",
        "Write the values in parentheses: IN ('failed', 'lost').",
    ),
    ("SELECT count(*), FROM runs LAST 1d", "oql_syntax", "Remove the comma, or write what follows it."),
    ("SELECT * FROM runs WHERE duration_ms > '1h' LAST 1d", "oql_type_mismatch", "Remove the quotes: 1h."),
    ("SELECT * FROM runs WHERE exit_code = '1' LAST 1d", "oql_type_mismatch", "Remove the quotes: 1."),
    (
        'SELECT * FROM runs WHERE status = "failed" LAST 1d',
        "oql_unknown_column",
        "Double quotes are for names. Use single quotes for text: 'failed'.",
    ),
    (
        "SELECT count(status = 'failed') FROM runs LAST 1d",
        "oql_type_mismatch",
        "Use FILTER: count(*) FILTER (WHERE condition).",
    ),
    ("SELECT percentile(duration_ms, 0.95) FROM runs LAST 1d", "oql_type_mismatch", "Did you mean 95?"),
    ("SELECT * FROM runs WHERE status = 'running' LAST 1d", "oql_type_mismatch", "Use 'open'."),
    ("SELECT count(*) FROM runs LAST 1M", "oql_bad_duration", "Write 1m for a minute, 1mo for a month."),
    ("SELECT TOP 10 job FROM runs LAST 1d", "oql_syntax", "Write LIMIT 10 at the end, or BY job TOP 10."),
    ("SELECT count(*) FROM runs ORDER BY 'job' LAST 1d", "oql_type_mismatch", "Remove the quotes: job."),
    ("SELECT count(*) FROM runs", "oql_no_time_window", "Add a window, such as LAST 1h."),
    (
        "SELECT count(*) FROM runs WHERE status IS 'failed' LAST 1d",
        "oql_syntax",
        "IS takes NULL or NOT NULL. Write = or != to compare values.",
    ),
    ("SELECT count(*) FROM runs SINCE 2026-06-01", "oql_bad_duration", "Write a time in single quotes: '2026-06-01'."),
    (
        "SELECT count(*) FROM runs LAST 7 days LIMIT 10, 20",
        "oql_syntax",
        "Unexpected ','. Expected one of: a clause, the end.",
    ),
    (
        "SELECT sum(status = 'failed') FROM runs LAST 1d",
        "oql_type_mismatch",
        "Use FILTER: count(*) FILTER (WHERE condition).",
    ),
    ("SELECT duration FROM runs LAST 1d", "oql_unknown_column", "Did you mean duration_ms?"),
    ("SELECT count(*) FROM run LAST 1d", "oql_unknown_source", "Did you mean runs?"),
    (
        "SELECT count(*) FROM runs WHERE exit_code IS NOT 0 LAST 1d",
        "oql_syntax",
        "IS takes NULL or NOT NULL. Write = or != to compare values.",
    ),
    ("SELECT count(*) FROM runs WHERE exit_code = NULL LAST 1d", "oql_type_mismatch", "Write IS NULL or IS NOT NULL."),
    ("SELECT count(*) /* all */ FROM runs --x", "oql_no_time_window", "Add a window, such as LAST 1h."),
    ("select COUNT(*) from runs where STATUS = 'failed' last 1d", "oql_unknown_column", "Did you mean status?"),
    ("SELECT count(*) FROM Runs LAST 1d", "oql_unknown_source", "Did you mean runs?"),
    (
        "SELECT count(*) FROM runs GROUP BY job, ORDER BY 1 LAST 1d",
        "oql_syntax",
        "Remove the comma, or write what follows it.",
    ),
    ("SELECT average(duration_ms) FROM runs SINCE 1 day ago", "oql_unknown_function", "Write avg(x)."),
    ("SELECT uniqueCount(job) FROM runs SINCE 1 day ago", "oql_unknown_function", "Write count(DISTINCT x)."),
    ("SELECT latest(status) FROM runs FACET job SINCE 1 day ago", "oql_syntax", "Write BY."),
    (
        "SELECT filter(count(*), WHERE status = 'failed') FROM runs SINCE 1 day ago",
        "oql_syntax",
        "Write count(*) FILTER (WHERE condition).",
    ),
    (
        "SELECT count(*) FROM runs SINCE 1 day ago UNTIL 1 hour ago TIMESERIES 1 hour",
        "oql_syntax",
        "Write EVERY 1h or EVERY 1d: it makes one row for each bucket of time.",
    ),
    (
        "sum by (job) (rate(runs[5m]))",
        "oql_syntax",
        "A statement begins with SELECT: SELECT count(*) FROM runs WHERE status = 'failed' LAST 1d.",
    ),
    (
        '{job="backup"} |= "error"',
        "oql_syntax",
        "A statement begins with SELECT: SELECT count(*) FROM runs WHERE status = 'failed' LAST 1d.",
    ),
    (
        'SELECT * FROM logs WHERE message CONTAINS "disk" LAST 1d',
        "oql_unknown_column",
        "Double quotes are for names. Use single quotes for text: 'disk'.",
    ),
    (
        'SELECT message FROM logs WHERE message =~ "disk" LAST 1d',
        "oql_unknown_column",
        "Double quotes are for names. Use single quotes for text: 'disk'.",
    ),
    ("SELECT * FROM runs WHERE exit_code <> '0' LAST 1d", "oql_type_mismatch", "Remove the quotes: 0."),
    ("SELECT * FROM runs WHERE status = 'FAILED' LAST 1d", "oql_type_mismatch", "Did you mean 'failed'?"),
    ("SELECT * FROM runs WHERE status = 'error' LAST 1d", "oql_type_mismatch", "Use 'failed'."),
    ("SELECT * FROM runs WHERE state = 'failed' LAST 1d", "oql_unknown_column", "Did you mean status?"),
    ("SELECT jobs FROM runs LAST 1d", "oql_unknown_column", "Did you mean job?"),
    ("SELECT * FROM run LAST 1d", "oql_unknown_source", "Did you mean runs?"),
    (
        "SELECT * FROM logs WHERE level = 'error' LAST 1d",
        "oql_unknown_column",
        "Text is written in single quotes: 'level'.",
    ),
    (
        "SELECT id FROM jobs WHERE overdue = true LAST 1d",
        "oql_unknown_column",
        "Text is written in single quotes: 'id'.",
    ),
    (
        "SELECT job FROM jobs WHERE overdue IS TRUE LAST 1d",
        "oql_syntax",
        "IS takes NULL or NOT NULL. Write = or != to compare values.",
    ),
    ("SELECT job FROM runs WHERE host = NULL LAST 1d", "oql_type_mismatch", "Write IS NULL or IS NOT NULL."),
    (
        "SELECT job FROM runs WHERE host IS 'db1' LAST 1d",
        "oql_syntax",
        "IS takes NULL or NOT NULL. Write = or != to compare values.",
    ),
    ("SELECT job, count(*) FROM runs LAST 1d", "oql_not_grouped", "Add BY job, or write any(job)."),
    (
        "SELECT job, max(duration_ms) FROM runs GROUP BY host LAST 1d",
        "oql_not_grouped",
        "Add BY job, or write any(job).",
    ),
    (
        "SELECT count(*) AS n FROM runs WHERE n > 1 GROUP BY job LAST 1d",
        "oql_syntax",
        "This is an aggregate. WHERE selects rows. Use HAVING to select groups.",
    ),
    (
        "SELECT count(*) FROM runs WHERE count(*) > 1 LAST 1d",
        "oql_syntax",
        "count is an aggregate. WHERE selects rows. Use HAVING to select groups.",
    ),
    ("SELECT * FROM runs LIMIT 1", "oql_no_time_window", "Add a window, such as LAST 1h."),
    ("SELECT date_format(time, '%Y') FROM runs LAST 1d", "oql_unknown_function", "Write date(time)."),
    (
        "SELECT lag(time) FROM runs LAST 1d",
        "oql_unknown_function",
        "Read gap_ms of runs: the time since the run before.",
    ),
    (
        "SELECT extract(hour FROM time) FROM runs LAST 1d",
        "oql_syntax",
        "Unexpected 'FROM'. Expected one of: an operator, ',', ')'.",
    ),
    (
        "SELECT count(*) FROM runs GROUP BY time_bucket('1 hour', time) LAST 1d",
        "oql_unknown_function",
        "Write EVERY 1h or EVERY 1d: it makes one row for each bucket of time.",
    ),
    ("SELECT count(*) FROM runs EVERY hour LAST 1d", "oql_syntax", "Write a number and a unit: 1 hour, 1 day."),
    ("SELECT count(*) FROM runs EVERY 1h LAST day", "oql_syntax", "Write a number and a unit: 1 hour, 1 day."),
    ("SELECT p95(duration) FROM runs LAST 1d", "oql_unknown_column", "Did you mean duration_ms?"),
    ("SELECT quantile(0.95, duration_ms) FROM runs LAST 1d", "oql_unknown_function", "Write percentile(x, 95)."),
    ("SELECT percentile(duration_ms, 0.5) FROM runs LAST 1d", "oql_type_mismatch", "Did you mean 50?"),
    (
        "SELECT percentile_cont(0.95) WITHIN GROUP (ORDER BY duration_ms) FROM runs LAST 1d",
        "oql_syntax",
        "Write a comma before a column, or AS before a name: AS WITHIN.",
    ),
    ("SELECT stdev(duration_ms) FROM runs LAST 1d", "oql_unknown_function", "Write stddev(x)."),
    (
        "SELECT count_if(status = 'failed') FROM runs LAST 1d",
        "oql_unknown_function",
        "Write count(*) FILTER (WHERE condition).",
    ),
    (
        "SELECT ifnull(host, 'none') AS h, count(*) FROM runs GROUP BY h LAST 1d",
        "oql_unknown_function",
        "Write coalesce(x, y), or x IS NULL.",
    ),
    (
        "SELECT cast(exit_code AS text) FROM runs LAST 1d",
        "oql_syntax",
        "Columns have types. SHOW COLUMNS FROM runs lists them.",
    ),
    ("SELECT job || '/' || status FROM runs LAST 1d", "oql_type_mismatch", "Write concat(a, b)."),
    ("SELECT top 5 job FROM runs LAST 1d", "oql_syntax", "Write LIMIT 10 at the end, or BY job TOP 10."),
    (
        "SELECT first 5 job FROM runs LAST 1d",
        "oql_syntax",
        "Unexpected '5'. Expected one of: an operator, AS, ',', FROM.",
    ),
    ("SELECT count(*) n FROM runs LAST 1d", "oql_syntax", "Did you mean IN?"),
    ("SELECT count(*) as 'n' FROM runs LAST 1d", "oql_syntax", "A name needs no quotes, or double quotes: AS n."),
    ("SELECT `job` FROM runs LAST 1d", "oql_syntax", "Write names without quotes, or in double quotes."),
    (
        "SELECT * FROM runs WHERE job = backup LAST 1d",
        "oql_unknown_column",
        "Text is written in single quotes: 'backup'.",
    ),
    ("SELECT * FROM runs WHERE job = 'back LAST 1d", "oql_syntax", "The text that starts here is never closed."),
    (
        "SELECT * FROM runs WHERE (status = 'failed' LAST 1d",
        "oql_syntax",
        "Unexpected 'LAST'. Expected one of: an operator, ')'.",
    ),
    (
        "SELECT * FROM runs WHERE status = 'failed') LAST 1d",
        "oql_syntax",
        "Unexpected ')'. Expected one of: an operator, a clause, the end.",
    ),
    ("SELECT * FROM runs WHERE status = 'failed' AND LAST 1d", "oql_syntax", "Unexpected 'LAST'. Expected a value."),
    ("SELECT * FROM runs WHERE LAST 1d", "oql_syntax", "Unexpected 'LAST'. Expected a value."),
    ("SELECT FROM runs LAST 1d", "oql_syntax", "Unexpected 'FROM'. Expected one of: DISTINCT, '*', a value."),
    ("SELECT * runs LAST 1d", "oql_syntax", "Unexpected 'runs'. Expected one of: ',', FROM."),
    (
        "SELECT * FROM LAST 1d",
        "oql_syntax",
        "A statement reads one source: there are no subqueries. SHOW SOURCES lists the sources.",
    ),
    (
        "* FROM runs LAST 1d",
        "oql_syntax",
        "A statement begins with SELECT: SELECT count(*) FROM runs WHERE status = 'failed' LAST 1d.",
    ),
    ("show tables", "oql_syntax", "Unexpected 'tables'. Expected one of: SOURCES, COLUMNS."),
    ("SHOW COLUMNS FROM run", "oql_unknown_source", "Did you mean runs?"),
    (
        "describe runs",
        "oql_syntax",
        "A statement begins with SELECT: SELECT count(*) FROM runs WHERE status = 'failed' LAST 1d.",
    ),
    ("INSERT INTO runs VALUES (1)", "oql_syntax", "OQL reads data and cannot change it."),
    ("DELETE FROM runs", "oql_syntax", "OQL reads data and cannot change it."),
    ("DROP TABLE runs", "oql_syntax", "OQL reads data and cannot change it."),
    ("SELECT * FROM runs; DROP TABLE runs", "oql_syntax", "Send one statement at a time."),
    (
        "SELECT * FROM runs WHERE id = 1 UNION ALL SELECT * FROM jobs LAST 1d",
        "oql_syntax",
        "A statement reads one source. Ask two statements, or use a source that has both columns.",
    ),
    ("SELECT * FROM sqlite_master LAST 1d", "oql_unknown_source", "There is no source sqlite_master."),
    ("SELECT load_extension('x') FROM runs LAST 1d", "oql_unknown_function", "There is no function load_extension."),
    (
        "SELECT count(*) FROM runs LAST 2 fortnights",
        "oql_bad_duration",
        "Write a whole number and one of ms, s, m, h, d, w, mo: 90s, 5m, 24h, 7d.",
    ),
    (
        "SELECT count(*) FROM runs LAST 1.5h",
        "oql_bad_duration",
        "Write a whole number and one of ms, s, m, h, d, w, mo: 90s, 5m, 24h, 7d.",
    ),
    ("SELECT count(*) FROM runs LAST '1h'", "oql_syntax", "Remove the quotes: 1h."),
    ("SELECT count(*) FROM runs LAST -1h", "oql_syntax", "Unexpected '-'. Expected a duration."),
    (
        "SELECT count(*) FROM runs BETWEEN '2026-06-22' AND '2026-06-21'",
        "oql_bad_time",
        "Write the earlier time first.",
    ),
    ("SELECT count(*) FROM runs SINCE '21.06.2026'", "oql_bad_time", "Write a time as '2026-06-21T10:00:00Z'."),
    ("SELECT count(*) FROM runs EVERY 1d TIMEZONE 'CEST' LAST 1d", "oql_bad_timezone", "Did you mean EST?"),
    (
        "SELECT count(*) FROM runs EVERY 1d TIMEZONE 'Europe/Berln' LAST 1d",
        "oql_bad_timezone",
        "Did you mean Europe/Berlin?",
    ),
    ("SELECT count(*) FROM runs EVERY 1d TZ 'Europe/Berlin' LAST 1d", "oql_syntax", "Write TIMEZONE 'Europe/Berlin'."),
    ("SELECT count(*) FROM runs LAST 1d LAST 2d", "oql_duplicate_clause", "The time window is specified twice."),
    (
        "SELECT count(*) FROM runs WHERE job = 'backup' WHERE status = 'failed' LAST 1d",
        "oql_duplicate_clause",
        "WHERE is specified twice.",
    ),
    ("SELECT count(*) FROM runs GROUP BY job BY status LAST 1d", "oql_duplicate_clause", "BY is specified twice."),
    ("SELECT rate(1m) FROM runs LAST 1d", "oql_type_mismatch", "rate takes 2 arguments, not 1."),
    ("SELECT rate(count(*), 60) FROM runs LAST 1d", "oql_type_mismatch", "rate takes a duration here, not an integer."),
    ("SELECT count(*) FROM runs WITH TIMEZONE 'UTC' LAST 1d", "oql_syntax", "Write TIMEZONE 'Europe/Berlin'."),
    (
        "SELECT count(*) FROM runs WHERE job REGEXP '^b' LAST 1d",
        "oql_syntax",
        "Write =~ 'regex', !~ 'regex' or LIKE 'pattern%'.",
    ),
    (
        "SELECT row_number() OVER (ORDER BY time) FROM runs LAST 1d",
        "oql_syntax",
        "OQL has no window functions. BY and EVERY group rows.",
    ),
    ("EXPLAIN ANALYZE SELECT count(*) FROM runs LAST 1d", "oql_syntax", "Unexpected 'ANALYZE'. Expected SELECT."),
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
