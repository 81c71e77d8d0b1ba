"""``obs jobs``, ``obs query`` and ``obs annotate``."""

import csv
import io
import json
import os
import pty
from collections.abc import Callable
from typing import Any

import pytest

from obs.heartbeat.runs import TROUBLE
from tests.client.conftest import ALL_RESPONSES, REFUSING, RESPONSES, Machine
from tests.conftest import Clock, KeyClient

ESCAPE = "\x1b[31mred\x1b]0;title\x07"


@pytest.fixture
def client(new_client: Callable[..., KeyClient]) -> KeyClient:
    return new_client("acme", "admin")


def shown(machine: Machine, *arguments: str, **environment: str) -> list[str]:
    done = machine.obs(*arguments, env={**machine.environment, "PYTHONIOENCODING": "utf-8", **environment})
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode().splitlines()


def on_terminal(machine: Machine, *arguments: str) -> str:
    controller, terminal = pty.openpty()
    process = machine.start(*arguments, stdout=terminal)
    assert process.wait(timeout=30) == 0
    os.close(terminal)
    text = b""
    try:
        while piece := os.read(controller, 10_000):
            text += piece
    except OSError:  # the end
        pass
    os.close(controller)
    return text.decode().replace("\r\n", "\n")


# Jobs


def test_jobs_are_a_table_with_aligned_columns(machine: Machine, client: KeyClient, clock: Clock) -> None:
    clock.set("2026-06-21T10:00:00Z")
    client.post("/api/v1/heartbeat/nas/backup/ping")
    client.post("/api/v1/heartbeat/写真/end?exit_code=1")
    client.post("/api/v1/heartbeat/logs/log", data="text")
    client.patch("/api/v1/jobs/nas/backup", json={"pin": {"interval_seconds": 3600}})
    assert shown(machine, "jobs") == [
        "JOB         STATE   LAST RESULT  LAST (UTC)        EXPECTED (UTC)",
        "logs        new                  2026-06-21T10:00",
        "nas/backup  ok      success      2026-06-21T10:00  2026-06-21T11:00",
        "写真        failed  failed       2026-06-21T10:00",
    ]


def test_more_jobs_than_a_page(machine: Machine, client: KeyClient) -> None:
    for number in range(1001):
        client.post(f"/api/v1/heartbeat/job-{number:04}/ping")
    lines = shown(machine, "jobs")
    assert (len(lines), lines[-1].split()[0]) == (1002, "job-1000")


def test_trouble_means_the_same_as_on_the_dashboard(machine: Machine, client: KeyClient, clock: Clock) -> None:
    for job in ("overdue", "paused", "fine"):
        client.post(f"/api/v1/heartbeat/{job}/ping")
        client.patch(f"/api/v1/jobs/{job}", json={"pin": {"interval_seconds": 60, "grace_seconds": 600}})
    client.patch("/api/v1/jobs/paused", json={"paused": True})
    clock.advance(minutes=12)
    client.post("/api/v1/heartbeat/failed/end?exit_code=1")
    client.post("/api/v1/heartbeat/fine/ping")
    clock.advance(minutes=2)  # `fine` is late now, which is no trouble yet
    jobs = client.get("/api/v1/jobs").json["jobs"]
    expected = {job["name"] for job in jobs if job["status"] in TROUBLE}
    assert expected == {"failed", "overdue"}
    assert {line.split()[0] for line in shown(machine, "jobs", "--trouble")[1:]} == expected


# Results of statements


@pytest.fixture
def some_runs(machine: Machine, client: KeyClient, clock: Clock) -> None:
    clock.set("2026-06-21T09:30:00Z")
    for job, hours in (("a", 0), ("a", 1), ("a", 1), ("写真", 3)):
        now = clock.now_ms
        clock.advance(hours=hours)
        client.post(f"/api/v1/heartbeat/{job}/end?exit_code=0&duration_ms={1500 * (hours + 1)}")
        clock.now_ms = now
    clock.set("2026-06-21T13:00:00Z")


@pytest.mark.usefixtures("some_runs")
def test_a_result_has_aligned_columns(machine: Machine) -> None:
    statement = "SELECT job, count(*) AS runs, max(exit_code) AS code FROM runs BY job ORDER BY job LAST 1d"
    assert shown(machine, "query", statement) == ["job   runs  code", "a     3     0", "写真  1     0"]
    assert shown(machine, "query", "SELECT job FROM runs WHERE job = 'none' LAST 1d") == ["job"]
    done = shown(machine, "query", "SELECT message, host FROM logs LAST 1d")
    assert done == ["message  host"]


@pytest.mark.usefixtures("some_runs")
def test_a_timeseries_is_a_chart(machine: Machine, client: KeyClient, clock: Clock) -> None:
    window = "EVERY 1h BETWEEN '2026-06-21T08:00:00Z' AND '2026-06-21T13:00:00Z'"
    assert shown(machine, "query", f"SELECT count(*) AS runs, max(duration_ms) AS longest FROM runs {window}") == [
        "         2026-06-21T08:00 to 2026-06-21T12:00 (UTC)  LOW   HIGH",
        "runs     ▁▅█▁▅                                       0     2",
        "longest   ▃▅ █                                       1500  6000",
    ]
    by_job = shown(machine, "query", f"SELECT count(*) AS runs FROM runs BY job {window}")
    assert [line.split("  ")[0] for line in by_job[1:]] == ["a runs", "写真 runs"]
    clock.set("2026-06-21T12:59:00Z")
    client.post("/api/v1/heartbeat/a/end?exit_code=3")
    by_code = shown(machine, "query", f"SELECT count(*) AS runs FROM runs BY exit_code {window}")
    assert by_code[0].split() == ["t", "exit_code", "runs"]


@pytest.mark.usefixtures("some_runs")
@pytest.mark.parametrize("columns", [60, 100, 200])
def test_a_chart_fits_the_terminal_and_keeps_its_peaks(machine: Machine, columns: int) -> None:
    statement = "SELECT count(*) AS runs FROM runs EVERY 1m LAST 6h"
    drawn = shown(machine, "query", statement, COLUMNS=str(columns))[1]
    assert len(drawn.split()[1]) <= columns - 24
    assert "█" in drawn
    assert drawn.endswith("2")


@pytest.mark.usefixtures("some_runs")
def test_csv_and_json_are_those_of_the_service(machine: Machine, client: KeyClient) -> None:
    statement = "SELECT job, duration_ms FROM runs ORDER BY time, job LAST 1d"
    lines = shown(machine, "query", "--csv", statement)
    expected = client.post("/api/v1/dsl", json={"query": statement}).json
    assert list(csv.reader(io.StringIO("\n".join(lines))))[1:] == [[job, str(ms)] for job, ms in expected["rows"]]
    assert json.loads("\n".join(shown(machine, "query", "--json", statement))) == expected


def test_parameters_have_values(machine: Machine, client: KeyClient) -> None:
    for job in ("backup", "123", "a=b"):
        client.post("/api/v1/heartbeat/end", json={"name": job, "duration_ms": 2000})
    statement = "SELECT job FROM runs WHERE job = :job AND duration_ms > :least LAST 1d"
    for job, least, jobs in (("backup", "1e3", ["backup"]), ('"123"', "5", ["123"]), ("a=b", "2001", [])):
        asked = ("query", statement, "--param", f"job={job}", "--param", f"least={least}")
        assert shown(machine, *asked) == ["job", *jobs]
    assert "The parameter job has no value" in machine.obs("query", statement).stderr.decode()
    assert "invalid" in machine.obs("query", statement, "--param", "job").stderr.decode()


def test_control_characters_do_not_reach_the_terminal(machine: Machine, client: KeyClient, clock: Clock) -> None:
    message = f"first\nsecond {ESCAPE}\u202e\x9b"
    assert client.post("/api/v1/heartbeat/log", json={"name": "photos", "message": message}).status_code == 200
    clock.advance(seconds=1)
    statement = "SELECT message FROM logs LAST 1h"
    assert shown(machine, "query", statement)[1] == (r"first\nsecond \x1b[31mred\x1b]0;title\x07\u202e\x9b")
    for option in ("--csv", "--json"):
        text = on_terminal(machine, "query", option, statement)
        assert "second" in text
        assert all(one.isprintable() for one in text.replace("\n", ""))
    raw = machine.obs("query", "--csv", statement).stdout.decode()
    assert f"second {ESCAPE}" in raw
    done = machine.obs("query", f"SELECT {ESCAPE}")
    assert done.returncode == 1
    assert b"\x1b" not in done.stderr


# Errors


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (["query", "SELECT count(*) FROM rums LAST 1h"], "rums", "runs"),
        (["annotate", "x" * 300, "title"], "name", ""),
        (["annotate", "deploy/web", "--end"], "TITLE", ""),
    ],
)
def test_an_error_is_its_message_and_its_hint(machine: Machine, arguments: list[str], message: str, hint: str) -> None:
    done = machine.obs(*arguments)
    assert (done.returncode, done.stdout) == (1, b"")
    assert message in done.stderr.decode()
    assert hint in done.stderr.decode()
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("response", ALL_RESPONSES)
@pytest.mark.parametrize("command", [["jobs"], ["query", "SELECT 1"], ["annotate", "deploy/web", "4.2"], ["flush"]])
def test_a_broken_server_is_an_error_in_one_line(
    machine: Machine, bad_server: Callable[[bytes | None], str], command: list[str], response: str
) -> None:
    machine.url = REFUSING
    machine.obs("ping", "photos")
    for url in (REFUSING, bad_server(RESPONSES[response])):
        machine.url = url
        done = machine.obs(*command)
        assert (done.returncode, done.stdout) == (1, b"")
        assert done.stderr.startswith(b"obs: ")
        assert done.stderr.count(b"\n") == 1


def test_without_a_configuration_commands_say_what_to_do(machine: Machine) -> None:
    machine.url = ""
    for command in (["jobs"], ["query", "x"], ["annotate", "a", "b"], ["flush"]):
        done = machine.obs(*command)
        assert done.returncode == 1
        assert b"obs login URL" in done.stderr


def test_a_reader_that_ends_is_no_error(machine: Machine, client: KeyClient) -> None:
    for number in range(1000):
        client.post(f"/api/v1/heartbeat/{number:0200}/ping")
    process = machine.start("jobs")
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.read(10)
    process.stdout.close()
    assert process.stderr.read() == b""
    process.wait(timeout=30)


# Annotations


def annotations(client: KeyClient) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get("/api/v1/annotations").json["annotations"]
    return sorted(found, key=lambda one: one["id"])


def test_a_deploy_is_a_band_from_its_start_to_its_end(machine: Machine, client: KeyClient) -> None:
    assert shown(machine, "annotate", "deploy/web", "4.1") == []
    assert shown(machine, "annotate", "deploy/web-admin", "other") == []
    assert shown(machine, "annotate", "deploy/web", "4.2") == []
    assert shown(machine, "annotate", "deploy/web", "--end") == []
    first, other, second = annotations(client)
    assert [one["end_time"] for one in (first, other)] == [None, None]
    assert (second["title"], second["end_time"] >= second["start_time"]) == ("4.2", True)


def test_the_end_can_have_a_title_of_its_own(machine: Machine, client: KeyClient) -> None:
    shown(machine, "annotate", "deploy/web", "4.2")
    shown(machine, "annotate", "deploy/web", "4.2 failed", "--end")
    (found,) = annotations(client)
    assert found["title"] == "4.2 failed"
    assert found["end_time"]


def test_an_end_whose_start_was_not_recorded_is_a_point(machine: Machine, client: KeyClient, clock: Clock) -> None:
    now = clock.now_ms
    clock.advance(days=-8)
    client.post("/api/v1/annotations", json={"name": "deploy/web", "title": "3.0"})
    clock.now_ms = now
    shown(machine, "annotate", "deploy/web", "4.2", "--end")
    old, new = annotations(client)
    assert (old["end_time"], new["title"], new["end_time"]) == (None, "4.2", None)


def test_an_annotation_of_an_incident_is_not_ended(machine: Machine, client: KeyClient) -> None:
    shown(machine, "annotate", "incident/photos", "by hand")
    client.post("/api/v1/heartbeat/photos/end?exit_code=1")
    shown(machine, "annotate", "incident/photos", "--end")
    assert [bool(one["end_time"]) for one in annotations(client) if not one["by_service"]] == [True]
