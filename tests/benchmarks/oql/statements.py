"""What people ask, as OQL and as SQL of DuckDB: the window is ``{90}`` in OQL, and a condition in SQL."""

DAY = "time // 86400000 * 86400000 AS t"
HOUR = "time // 3600000 * 3600000 AS t"

# What analysts ask, mostly of long windows.
QUESTIONS: list[tuple[str, str]] = [
    (
        "SELECT count(*) FROM runs EVERY 1h {90}",
        f"SELECT {HOUR}, count(*) FROM runs WHERE {{90}} GROUP BY t ORDER BY t",
    ),
    ("SELECT count(*) FROM runs EVERY 1h {7}", f"SELECT {HOUR}, count(*) FROM runs WHERE {{7}} GROUP BY t ORDER BY t"),
    (
        "SELECT count(*), avg(duration_ms), max(duration_ms) FROM runs EVERY 1d {90}",
        f"SELECT {DAY}, count(*), avg(duration_ms), max(duration_ms) FROM runs WHERE {{90}} GROUP BY t ORDER BY t",
    ),
    (
        "SELECT count(*) FROM runs WHERE status = 'failed' EVERY 1h {30}",
        f"SELECT {HOUR}, count(*) FROM runs WHERE {{30}} AND status = 'failed' GROUP BY t ORDER BY t",
    ),
    (
        "SELECT avg(duration_ms) FROM runs WHERE job = 'job-042' EVERY 1h {90}",
        f"SELECT {HOUR}, avg(duration_ms) FROM runs WHERE {{90}} AND job = 'job-042' GROUP BY t ORDER BY t",
    ),
    (
        "SELECT count(*), p95(duration_ms) FROM runs WHERE job = 'job-007' EVERY 1d {90}",
        f"SELECT {DAY}, count(*), quantile_cont(duration_ms, 0.95) FROM runs WHERE {{90}} AND job = 'job-007' GROUP BY t ORDER BY t",
    ),
    (
        "SELECT count(*) FROM runs WHERE status = 'failed' BY job TOP 10 {90}",
        "SELECT job, count(*) c FROM runs WHERE {90} AND status = 'failed' GROUP BY 1 ORDER BY c DESC, job LIMIT 10",
    ),
    (
        "SELECT count(*) FROM runs WHERE status = 'failed' BY job TOP 10 {7}",
        "SELECT job, count(*) c FROM runs WHERE {7} AND status = 'failed' GROUP BY 1 ORDER BY c DESC, job LIMIT 10",
    ),
    ("SELECT count(*) FROM runs BY job {90}", "SELECT job, count(*) FROM runs WHERE {90} GROUP BY 1 ORDER BY 1"),
    (
        "SELECT count(*) FROM runs WHERE exit_code = 137 BY job {90}",
        "SELECT job, count(*) FROM runs WHERE {90} AND exit_code = 137 GROUP BY 1 ORDER BY 1",
    ),
    (
        "SELECT last(status), last(exit_code), max(time) AS at FROM runs BY job {30}",
        "SELECT job, arg_max(status, time), arg_max(exit_code, time), max(time) FROM runs WHERE {30} GROUP BY 1 ORDER BY 1",
    ),
    (
        "SELECT job, time, duration_ms FROM runs WHERE duration_ms IS NOT NULL ORDER BY duration_ms DESC LIMIT 20 {90}",
        "SELECT job, time, duration_ms FROM runs WHERE {90} AND duration_ms IS NOT NULL ORDER BY duration_ms DESC LIMIT 20",
    ),
    (
        "SELECT job, time, duration_ms FROM runs WHERE job = 'job-042' ORDER BY duration_ms DESC LIMIT 20 {30}",
        "SELECT job, time, duration_ms FROM runs WHERE {30} AND job = 'job-042' ORDER BY duration_ms DESC NULLS LAST LIMIT 20",
    ),
    (
        "SELECT count(*), avg(duration_ms) FROM runs BY host, status {90}",
        "SELECT host, status, count(*), avg(duration_ms) FROM runs WHERE {90} GROUP BY 1, 2 ORDER BY 1, 2",
    ),
    (
        "SELECT count(*), avg(duration_ms) FROM runs BY host, status {7}",
        "SELECT host, status, count(*), avg(duration_ms) FROM runs WHERE {7} GROUP BY 1, 2 ORDER BY 1, 2",
    ),
    (
        "SELECT 100.0 * count(*) FILTER (WHERE status IN ('failed', 'lost')) / count(*) AS bad FROM runs BY service {90}",
        "SELECT service, 100.0 * count(*) FILTER (WHERE status IN ('failed', 'lost')) / count(*) FROM runs WHERE {90} GROUP BY 1 ORDER BY 1",
    ),
    (
        "SELECT p95(duration_ms) FROM runs WHERE host = 'host-03' AND status = 'success' EVERY 1d {90}",
        f"SELECT {DAY}, quantile_cont(duration_ms, 0.95) FROM runs WHERE {{90}} AND host = 'host-03' AND status = 'success' GROUP BY t ORDER BY t",
    ),
    (
        "SELECT count(*) FROM runs WHERE host = 'host-03' BY hour(time) {30}",
        "SELECT time // 3600000 % 24 h, count(*) FROM runs WHERE {30} AND host = 'host-03' GROUP BY 1 ORDER BY 1",
    ),
    (
        "SELECT count(DISTINCT job) FROM runs EVERY 1d {90}",
        f"SELECT {DAY}, count(DISTINCT job) FROM runs WHERE {{90}} GROUP BY t ORDER BY t",
    ),
    (
        "SELECT count(DISTINCT host) FROM runs EVERY 1d {90}",
        f"SELECT {DAY}, count(DISTINCT host) FROM runs WHERE {{90}} GROUP BY t ORDER BY t",
    ),
    (
        "SELECT CASE WHEN duration_ms < 1m THEN 'quick' WHEN duration_ms < 10m THEN 'usual' ELSE 'slow' END AS pace, count(*) FROM runs WHERE duration_ms IS NOT NULL BY pace {90}",
        "SELECT CASE WHEN duration_ms < 60000 THEN 'quick' WHEN duration_ms < 600000 THEN 'usual' ELSE 'slow' END AS pace, count(*) FROM runs WHERE {90} AND duration_ms IS NOT NULL GROUP BY 1 ORDER BY 1",
    ),
    (
        "SELECT count(*) AS n FROM runs WHERE duration_ms > 3m BY job HAVING n > 1000 {90}",
        "SELECT job, count(*) n FROM runs WHERE {90} AND duration_ms > 180000 GROUP BY 1 HAVING n > 1000 ORDER BY 1",
    ),
    (
        "SELECT count(*), sum(length(message)) FROM logs BY job {90}",
        "SELECT job, count(*), sum(length(message)) FROM logs WHERE {90} GROUP BY 1 ORDER BY 1",
    ),
    ("SELECT count(*) FROM logs EVERY 1h {7}", f"SELECT {HOUR}, count(*) FROM logs WHERE {{7}} GROUP BY t ORDER BY t"),
    (
        "SELECT count(*) FROM runs WHERE exit_code > 0 BY exit_code {30}",
        "SELECT exit_code, count(*) FROM runs WHERE {30} AND exit_code > 0 GROUP BY 1 ORDER BY 1",
    ),
    (
        "SELECT count(*) FROM runs WHERE duration_ms > 5m EVERY 1d {90}",
        f"SELECT {DAY}, count(*) FROM runs WHERE {{90}} AND duration_ms > 300000 GROUP BY t ORDER BY t",
    ),
    (
        "SELECT p95(duration_ms) FROM runs BY job {90}",
        "SELECT job, quantile_cont(duration_ms, 0.95) FROM runs WHERE {90} GROUP BY 1 ORDER BY 1",
    ),
    (
        "SELECT p50(duration_ms), p99(duration_ms) FROM runs BY job {30}",
        "SELECT job, quantile_cont(duration_ms, 0.5), quantile_cont(duration_ms, 0.99) FROM runs WHERE {30} GROUP BY 1 ORDER BY 1",
    ),
    (
        "SELECT p95(duration_ms) FROM runs EVERY 1d {90}",
        f"SELECT {DAY}, quantile_cont(duration_ms, 0.95) FROM runs WHERE {{90}} GROUP BY t ORDER BY t",
    ),
    (
        "SELECT count(*), avg(duration_ms) FROM runs WHERE host = 'host-03' EVERY 1h {90}",
        f"SELECT {HOUR}, count(*), avg(duration_ms) FROM runs WHERE {{90}} AND host = 'host-03' GROUP BY t ORDER BY t",
    ),
    (
        "SELECT avg(duration_ms) FROM runs BY project EVERY 1d {90}",
        f"SELECT {DAY}, project, avg(duration_ms) FROM runs WHERE {{90}} GROUP BY t, project ORDER BY t, project",
    ),
    (
        "SELECT count(*), avg(duration_ms) FROM runs EVERY 5m {7}",
        "SELECT time // 300000 * 300000 AS t, count(*), avg(duration_ms) FROM runs WHERE {7} GROUP BY t ORDER BY t",
    ),
    (
        "SELECT median(late_ms), max(late_ms) FROM runs WHERE late_ms > 0 BY job {7}",
        "SELECT job, median(late_ms), max(late_ms) FROM runs WHERE {7} AND late_ms > 0 GROUP BY 1 ORDER BY 1",
    ),
    (
        "SELECT count(*) FROM runs WHERE status = 'failed' BY host, exit_code EVERY 1d FILL NONE {90}",
        f"SELECT {DAY}, host, exit_code, count(*) FROM runs WHERE {{90}} AND status = 'failed' GROUP BY t, 2, 3 ORDER BY t, 2, 3",
    ),
    (
        "SELECT count(*), avg(duration_ms) FROM runs WHERE duration_ms > 1m BY service {90}",
        "SELECT service, count(*), avg(duration_ms) FROM runs WHERE {90} AND duration_ms > 60000 GROUP BY 1 ORDER BY 1",
    ),
    (
        "SELECT time, job, exit_code FROM runs WHERE status = 'failed' ORDER BY time DESC LIMIT 100 {90}",
        "SELECT time, job, exit_code FROM runs WHERE {90} AND status = 'failed' ORDER BY time DESC LIMIT 100",
    ),
    (
        "SELECT time, job, message FROM logs WHERE message CONTAINS 'needle' {90}",
        "SELECT time, job, message FROM logs WHERE {90} AND contains(message, 'needle') ORDER BY time",
    ),
    (
        "SELECT count(*) FROM runs BY host TOP 3 EVERY 6h {30}",
        "WITH best AS (SELECT host FROM runs WHERE {30} GROUP BY 1 ORDER BY count(*) DESC LIMIT 3) SELECT time // 21600000 * 21600000 AS t, host, count(*) FROM runs WHERE {30} AND host IN (FROM best) GROUP BY t, host ORDER BY t, host",
    ),
    (
        "SELECT count(*) FROM runs BY weekday(time) {90}",
        "SELECT (time // 86400000 + 3) % 7 + 1 d, count(*) FROM runs WHERE {90} GROUP BY 1 ORDER BY 1",
    ),
    (
        "SELECT count(*) FROM runs WHERE project = 'project-1' AND (hour(time) >= 22 OR hour(time) < 6) BY job, status {30}",
        "SELECT job, status, count(*) FROM runs WHERE {30} AND project = 'project-1' AND (time // 3600000 % 24 >= 22 OR time // 3600000 % 24 < 6) GROUP BY 1, 2 ORDER BY 1, 2",
    ),
    (
        "SELECT stddev(duration_ms), p99(duration_ms) FROM runs WHERE job = 'job-007' EVERY 1d {30}",
        f"SELECT {DAY}, stddev(duration_ms), quantile_cont(duration_ms, 0.99) FROM runs WHERE {{30}} AND job = 'job-007' GROUP BY t ORDER BY t",
    ),
    (
        "SELECT max(duration_ms), count(*) FROM runs WHERE service = 'service-2' BY job {14}",
        "SELECT job, max(duration_ms), count(*) FROM runs WHERE {14} AND service = 'service-2' GROUP BY 1 ORDER BY 1",
    ),
]

# What dashboards ask, mostly of the last day and the last week, by job.
RECENT: list[tuple[str, str]] = [
    (
        "SELECT p95(duration_ms) FROM runs BY job {1}",
        "SELECT job, quantile_cont(duration_ms,0.95) FROM runs WHERE {1} GROUP BY 1 ORDER BY 1",
    ),
    (
        "SELECT count(*), avg(duration_ms), p95(duration_ms) FROM runs BY job {1}",
        "SELECT job, count(*), avg(duration_ms), quantile_cont(duration_ms,0.95) FROM runs WHERE {1} GROUP BY 1 ORDER BY 1",
    ),
    (
        "SELECT p95(duration_ms) FROM runs BY job {7}",
        "SELECT job, quantile_cont(duration_ms,0.95) FROM runs WHERE {7} GROUP BY 1 ORDER BY 1",
    ),
    (
        "SELECT count(*), avg(duration_ms), p95(duration_ms) FROM runs BY job {7}",
        "SELECT job, count(*), avg(duration_ms), quantile_cont(duration_ms,0.95) FROM runs WHERE {7} GROUP BY 1 ORDER BY 1",
    ),
    (
        "SELECT p95(duration_ms) FROM runs BY job {30}",
        "SELECT job, quantile_cont(duration_ms,0.95) FROM runs WHERE {30} GROUP BY 1 ORDER BY 1",
    ),
    (
        "SELECT count(*), avg(duration_ms), p95(duration_ms) FROM runs BY job {30}",
        "SELECT job, count(*), avg(duration_ms), quantile_cont(duration_ms,0.95) FROM runs WHERE {30} GROUP BY 1 ORDER BY 1",
    ),
    (
        "SELECT p50(duration_ms), p90(duration_ms), p99(duration_ms) FROM runs WHERE job='job-003' EVERY 1h {7}",
        f"SELECT {HOUR}, quantile_cont(duration_ms,0.5), quantile_cont(duration_ms,0.9), quantile_cont(duration_ms,0.99) FROM runs WHERE {{7}} AND job='job-003' GROUP BY t ORDER BY t",
    ),
    (
        "SELECT p95(duration_ms) FROM runs BY service EVERY 1h FILL NONE {7}",
        f"SELECT {HOUR}, service, quantile_cont(duration_ms,0.95) FROM runs WHERE {{7}} GROUP BY t, service ORDER BY t, service",
    ),
    (
        "SELECT p95(duration_ms) FROM runs BY host {30}",
        "SELECT host, quantile_cont(duration_ms,0.95) FROM runs WHERE {30} GROUP BY 1 ORDER BY 1",
    ),
    (
        "SELECT count(*) FROM runs WHERE duration_ms > 3m BY job TOP 10 {7}",
        "SELECT job, count(*) c FROM runs WHERE {7} AND duration_ms>180000 GROUP BY 1 ORDER BY c DESC, job LIMIT 10",
    ),
    (
        "SELECT count(*) FROM runs WHERE duration_ms > 10m {30}",
        "SELECT count(*) FROM runs WHERE {30} AND duration_ms>600000",
    ),
    (
        "SELECT count(*) FROM runs BY job, status {7}",
        "SELECT job,status,count(*) FROM runs WHERE {7} GROUP BY 1,2 ORDER BY 1,2",
    ),
    (
        "SELECT count(*) FROM runs BY job, status {30}",
        "SELECT job,status,count(*) FROM runs WHERE {30} GROUP BY 1,2 ORDER BY 1,2",
    ),
    (
        "SELECT count(*) FROM runs BY status EVERY 1h {7}",
        f"SELECT {HOUR}, status, count(*) FROM runs WHERE {{7}} GROUP BY t,2 ORDER BY t,2",
    ),
    (
        "SELECT count(*) FROM runs BY job EVERY 1d {7}",
        f"SELECT {DAY}, job, count(*) FROM runs WHERE {{7}} GROUP BY t,2 ORDER BY t,2",
    ),
    (
        "SELECT count(*) FROM runs BY job EVERY 1d {30}",
        f"SELECT {DAY}, job, count(*) FROM runs WHERE {{30}} GROUP BY t,2 ORDER BY t,2",
    ),
    (
        "SELECT sum(duration_ms) FROM runs BY job TOP 10 {30}",
        "SELECT job, sum(duration_ms) c FROM runs WHERE {30} GROUP BY 1 ORDER BY c DESC LIMIT 10",
    ),
    (
        "SELECT max(duration_ms) FROM runs BY job TOP 10 {7}",
        "SELECT job, max(duration_ms) c FROM runs WHERE {7} GROUP BY 1 ORDER BY c DESC LIMIT 10",
    ),
    (
        "SELECT 100.0 * count(*) FILTER (WHERE status='success') / count(*) AS ok FROM runs BY job ORDER BY ok LIMIT 20 {30}",
        "SELECT job, 100.0*count(*) FILTER (WHERE status='success')/count(*) ok FROM runs WHERE {30} GROUP BY 1 ORDER BY ok, job LIMIT 20",
    ),
    (
        "SELECT 100.0 * count(*) FILTER (WHERE status='success') / count(*) AS ok FROM runs EVERY 1d {90}",
        f"SELECT {DAY}, 100.0*count(*) FILTER (WHERE status='success')/count(*) ok FROM runs WHERE {{90}} GROUP BY t ORDER BY t",
    ),
    (
        "SELECT count(*) FROM runs WHERE status IN ('failed','lost') BY job, host TOP 20 {7}",
        "SELECT job,host,count(*) c FROM runs WHERE {7} AND status IN ('failed','lost') GROUP BY 1,2 ORDER BY c DESC, job, host LIMIT 20",
    ),
    (
        "SELECT avg(duration_ms) FROM runs BY job HAVING avg(duration_ms) > 2m {30}",
        "SELECT job, avg(duration_ms) a FROM runs WHERE {30} GROUP BY 1 HAVING a>120000 ORDER BY 1",
    ),
    (
        "SELECT time, status, duration_ms, exit_code FROM runs WHERE job='job-042' ORDER BY time DESC LIMIT 50 {7}",
        "SELECT time,status,duration_ms,exit_code FROM runs WHERE {7} AND job='job-042' ORDER BY time DESC LIMIT 50",
    ),
    (
        "SELECT time, job, host, status, exit_code FROM runs WHERE exit_code = 137 ORDER BY time DESC LIMIT 50 {7}",
        "SELECT time,job,host,status,exit_code FROM runs WHERE {7} AND exit_code=137 ORDER BY time DESC LIMIT 50",
    ),
    (
        "SELECT job, host, duration_ms FROM runs WHERE host='host-05' ORDER BY duration_ms DESC LIMIT 10 {7}",
        "SELECT job,host,duration_ms FROM runs WHERE {7} AND host='host-05' ORDER BY duration_ms DESC LIMIT 10",
    ),
    (
        "SELECT count(*) FROM runs WHERE job LIKE 'job-01%' BY job {30}",
        "SELECT job,count(*) FROM runs WHERE {30} AND job LIKE 'job-01%' GROUP BY 1 ORDER BY 1",
    ),
    (
        "SELECT count(DISTINCT job) FROM runs WHERE status='failed' EVERY 1d {30}",
        f"SELECT {DAY}, count(DISTINCT job) FROM runs WHERE {{30}} AND status='failed' GROUP BY t ORDER BY t",
    ),
    (
        "SELECT count(DISTINCT job) FROM runs BY host {7}",
        "SELECT host, count(DISTINCT job) FROM runs WHERE {7} GROUP BY 1 ORDER BY 1",
    ),
    (
        "SELECT count(*) FROM runs BY hour(time) TIMEZONE 'UTC' {30}",
        "SELECT time//3600000%24 h, count(*) FROM runs WHERE {30} GROUP BY 1 ORDER BY 1",
    ),
    (
        "SELECT count(*) FROM runs BY weekday(time), hour(time) {30}",
        "SELECT (time//86400000+3)%7+1 d, time//3600000%24 h, count(*) FROM runs WHERE {30} GROUP BY 1,2 ORDER BY 1,2",
    ),
    (
        "SELECT avg(duration_ms) FROM runs BY job EVERY 1h FILL NONE {1}",
        f"SELECT {HOUR}, job, avg(duration_ms) FROM runs WHERE {{1}} GROUP BY t,2 ORDER BY t,2",
    ),
    (
        "SELECT count(*) FROM runs EVERY 1m {1}",
        "SELECT time//60000*60000 AS t, count(*) FROM runs WHERE {1} GROUP BY t ORDER BY t",
    ),
    (
        "SELECT max(duration_ms), min(duration_ms), avg(duration_ms), count(*) FROM runs {90}",
        "SELECT max(duration_ms), min(duration_ms), avg(duration_ms), count(*) FROM runs WHERE {90}",
    ),
    ("SELECT p99(duration_ms) FROM runs {90}", "SELECT quantile_cont(duration_ms,0.99) FROM runs WHERE {90}"),
    (
        "SELECT max(time) AS latest FROM runs BY host {7}",
        "SELECT host, max(time) FROM runs WHERE {7} GROUP BY 1 ORDER BY 1",
    ),
    (
        "SELECT last(status) FROM runs BY job {7}",
        "SELECT job, arg_max(status,time) FROM runs WHERE {7} GROUP BY 1 ORDER BY 1",
    ),
    (
        "SELECT histogram(duration_ms, 1m) AS bin, count(*) FROM runs WHERE job='job-007' BY bin {30}",
        "SELECT duration_ms//60000*60000 b, count(*) FROM runs WHERE {30} AND job='job-007' GROUP BY 1 ORDER BY 1",
    ),
    (
        "SELECT median(late_ms), max(late_ms) FROM runs BY job {30}",
        "SELECT job, median(late_ms), max(late_ms) FROM runs WHERE {30} GROUP BY 1 ORDER BY 1",
    ),
    (
        "SELECT count(*) FROM runs WHERE late_ms > 1m BY job {30}",
        "SELECT job,count(*) FROM runs WHERE {30} AND late_ms>60000 GROUP BY 1 ORDER BY 1",
    ),
    (
        "SELECT count(*) FROM logs WHERE message CONTAINS 'timeout' EVERY 1d {30}",
        f"SELECT {DAY}, count(*) FROM logs WHERE {{30}} AND contains(message,'timeout') GROUP BY t ORDER BY t",
    ),
    (
        "SELECT count(*) FROM logs WHERE message CONTAINS 'timeout' BY job TOP 10 {7}",
        "SELECT job, count(*) c FROM logs WHERE {7} AND contains(message,'timeout') GROUP BY 1 ORDER BY c DESC, job LIMIT 10",
    ),
    (
        "SELECT time, job, message FROM logs WHERE job='job-001' ORDER BY time DESC LIMIT 100 {7}",
        "SELECT time,job,message FROM logs WHERE {7} AND job='job-001' ORDER BY time DESC LIMIT 100",
    ),
    (
        "SELECT stddev(duration_ms), avg(duration_ms) FROM runs BY job {7}",
        "SELECT job, stddev(duration_ms), avg(duration_ms) FROM runs WHERE {7} GROUP BY 1 ORDER BY 1",
    ),
    (
        "SELECT count(*) FROM runs WHERE status='failed' BY job EVERY 1d FILL NONE {30}",
        f"SELECT {DAY}, job, count(*) FROM runs WHERE {{30}} AND status='failed' GROUP BY t,2 ORDER BY t,2",
    ),
    (
        "SELECT rate(count(*), 1h) FROM runs BY job {7}",
        "SELECT job, count(*)/168.0 FROM runs WHERE {7} GROUP BY 1 ORDER BY 1",
    ),
]
