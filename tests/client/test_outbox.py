"""While the server cannot be reached, heartbeats wait in the spool: none is lost, and none is sent twice."""

import json
import os
import re
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Callable
from contextlib import closing
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from werkzeug.serving import make_server

from obs.services import services
from obs.tenancy import service
from obs.times import format_ms
from tests.client.conftest import ALL_RESPONSES, REFUSING, RESPONSES, Machine, log
from tests.conftest import ACME, Clock, KeyClient, serving

Runs = Callable[[str], list[dict[str, Any]]]


def test_while_the_server_is_unreachable_runs_wait_in_the_spool(machine: Machine, runs: Runs) -> None:
    url, machine.url = machine.url, REFUSING
    for code in (0, 3):
        done = machine.obs("run", "photos", "--", "sh", "-c", f"echo text; exit {code}")
        assert (done.returncode, done.stdout, done.stderr) == (code, b"text\n", b"")
    waiting = machine.waiting()
    assert [event[0] for event in waiting] == ["start", "log", "end"] * 2
    machine.url = url
    assert machine.obs("run", "other", "--", "true").returncode == 0
    assert [(run["status"], run["exit_code"], log(run)) for run in runs("photos")] == [
        ("success", 0, "text\n"),
        ("failed", 3, "text\n"),
    ]
    assert [run["started_at"] for run in runs("photos")] == [waiting[0][1]["time"], waiting[3][1]["time"]]
    assert machine.waiting() == []


@pytest.mark.slow
def test_a_start_that_could_not_be_sent_is_sent_while_the_run_goes_on(machine: Machine, runs: Runs, app: Flask) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    machine.url = f"http://127.0.0.1:{port}"
    process = machine.start("run", "photos", "--", "sh", "-c", "echo ready >&2; read -r line", stdin=subprocess.PIPE)
    assert process.stderr is not None
    assert process.stderr.readline() == b"ready\n"
    deadline = time.monotonic() + 60
    with serving(make_server("127.0.0.1", port, app, threaded=True)):
        while [run["status"] for run in runs("photos")] != ["open"]:
            assert time.monotonic() < deadline
        process.communicate(b"go on\n", timeout=30)
        assert [run["status"] for run in runs("photos")] == ["success"]
    assert machine.waiting() == []


@pytest.mark.parametrize("codes", [(0, 4), (4, 0)])
def test_the_outcome_of_a_job_is_that_of_its_newest_run(
    machine: Machine, client: KeyClient, codes: tuple[int, int]
) -> None:
    url, machine.url = machine.url, REFUSING
    for code in codes:
        machine.obs("run", "photos", "--", "sh", "-c", f"exit {code}")
        machine.url = url
    job = client.get("/api/v1/jobs/photos").json
    assert (job["last_outcome"], job["failures_in_row"]) == (("failed", 1) if codes[1] else ("success", 0))


def test_a_file_that_cannot_be_read_keeps_no_run_from_being_sent(machine: Machine, runs: Runs) -> None:
    (machine.spool / "1-folder.ndjson").mkdir(parents=True)
    assert machine.obs("run", "photos", "--", "sh", "-c", "exit 3").returncode == 3
    assert [(run["status"], run["exit_code"]) for run in runs("photos")] == [("failed", 3)]


def test_a_wrong_path_in_the_url_loses_nothing(machine: Machine, runs: Runs) -> None:
    url, machine.url = machine.url, REFUSING
    machine.obs("run", "photos", "--", "true")
    machine.url = f"{url}/api/v1"
    done = machine.obs("run", "photos", "--", "true")
    assert (done.returncode, b"heartbeats are kept" in done.stderr) == (0, True)
    assert machine.obs("flush").returncode == 1
    machine.url = url
    assert machine.obs("flush").stderr == b"obs: sent the heartbeats of 2 runs\n"
    assert [run["status"] for run in runs("photos")] == ["success", "success"]


@pytest.mark.parametrize(("sizes", "kept"), [([30_000_000, 1, 29_000_000, 20_000_000], 3), ([1] * 10_003, 9_999)])
def test_of_what_waits_for_long_the_newest_runs_are_kept(machine: Machine, sizes: list[int], kept: int) -> None:
    machine.spool.mkdir(parents=True)
    older = [machine.spool / f"{1_700_000_000_000_000_000 + number}-run.ndjson" for number in range(len(sizes))]
    for path, size in zip(older, sizes, strict=True):
        path.write_text('["log", {"name": "older", "message": "text"}, {}]\n')
        os.truncate(path, max(size, path.stat().st_size))
    machine.url = REFUSING
    done = machine.obs("run", "photos", "--", "true")
    assert f"deleted the oldest {len(older) - kept} runs".encode() in done.stderr
    waiting = sorted(machine.spool.iterdir())
    assert waiting[:-1] == older[-kept:]
    assert "photos" in waiting[-1].read_text()


@pytest.mark.parametrize("response", ALL_RESPONSES)
def test_a_server_that_is_broken_loses_nothing_and_delays_little(
    machine: Machine, runs: Runs, bad_server: Callable[[bytes | None], str], response: str
) -> None:
    url, machine.url = machine.url, bad_server(RESPONSES[response])
    begun = time.monotonic()
    done = machine.obs("run", "photos", "--", "sh", "-c", "echo text; exit 3")
    assert (done.returncode, done.stdout) == (3, b"text\n")
    assert time.monotonic() - begun < 20
    assert len(machine.waiting()) == 3
    machine.url = url
    assert machine.obs("flush").returncode == 0
    assert [(run["status"], log(run)) for run in runs("photos")] == [("failed", "text\n")]


def test_a_client_that_is_killed_leaves_its_start(machine: Machine, runs: Runs) -> None:
    url, machine.url = machine.url, REFUSING
    process = machine.start("run", "photos", "--", "sh", "-c", "echo $$; exec sleep 30", start_new_session=True)
    assert process.stdout is not None
    command = int(process.stdout.readline())
    process.kill()
    process.wait()
    os.kill(command, signal.SIGKILL)
    machine.url = url
    assert machine.obs("flush").returncode == 0
    assert [run["status"] for run in runs("photos")] == ["open"]


def test_a_file_in_use_is_not_sent_by_others(machine: Machine, runs: Runs) -> None:
    url, machine.url = machine.url, REFUSING
    process = machine.start("run", "photos", "--", "sh", "-c", "echo; read -r line", stdin=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    machine.url = url
    machine.obs("flush")
    assert len(machine.waiting()) >= 1
    assert runs("photos") == []
    process.communicate(b"\n", timeout=30)
    machine.obs("flush")
    assert [run["status"] for run in runs("photos")] == ["success"]


def test_flush_says_of_how_many_runs_it_has_sent_heartbeats(machine: Machine) -> None:
    url, machine.url = machine.url, REFUSING
    machine.obs("run", "photos", "--", "true")
    machine.url = url
    assert machine.obs("flush").stderr == b"obs: sent the heartbeats of 1 run\n"


def test_the_file_of_a_run_that_begins_just_now_is_left_to_it(machine: Machine) -> None:
    machine.spool.mkdir(parents=True)
    (machine.spool / "1-new.ndjson").touch()  # its process has not locked it yet
    done = machine.obs("flush")
    assert (done.returncode, done.stderr) == (0, b"obs: sent the heartbeats of 0 runs\n")
    assert (machine.spool / "1-new.ndjson").exists()


def test_twenty_at_once(machine: Machine, runs: Runs) -> None:
    machine.url, url = REFUSING, machine.url
    machine.obs("run", "before", "--", "true")
    machine.url = url
    processes = [machine.start("run", "photos", "--", "sh", "-c", f"echo {number}") for number in range(20)]
    for process in processes:
        process.communicate(timeout=60)
    machine.obs("flush")
    assert sorted(int(log(run)) for run in runs("photos")) == list(range(20))
    assert {run["status"] for run in runs("photos")} == {"success"}
    assert [run["status"] for run in runs("before")] == ["success"]


def test_what_the_server_refuses_for_good_is_dropped_with_a_warning(machine: Machine, runs: Runs) -> None:
    done = machine.obs("run", "x" * 201, "--", "true")
    assert done.returncode == 0
    assert b"422" in done.stderr
    assert machine.waiting() == []


@pytest.mark.parametrize("service", ["M\u00fcller", "\u65e5\u672c", "a\nb"])
def test_a_place_that_no_header_can_have_does_not_keep_heartbeats_from_the_server(
    machine: Machine, runs: Runs, service: str
) -> None:
    assert machine.obs("run", "photos", "--service", service, "--", "true").returncode == 0
    assert [(run["status"], run["service"]) for run in runs("photos")] == [("success", re.sub("[^ -~]", "?", service))]
    assert machine.waiting() == []


def test_what_is_damaged_or_not_a_run_in_the_spool_does_not_stop_the_others(machine: Machine, runs: Runs) -> None:
    machine.spool.mkdir(parents=True)
    (machine.spool / "0-folder").mkdir()
    (machine.spool / "0-notes.txt").write_text("mine\n")
    good = json.dumps(["ping", {"name": "photos"}, {}])
    (machine.spool / "1-run.ndjson").write_bytes(b'\0\0\n["start", {"na\n' + good.encode() + b"\n\xff\n")
    (machine.spool / "2-run.ndjson").write_text(good + "\n")
    done = machine.obs("flush")
    assert (done.returncode, done.stderr) == (0, b"obs: sent the heartbeats of 2 runs\n")
    assert len(runs("photos")) == 2
    assert sorted(path.name for path in machine.spool.iterdir()) == ["0-folder", "0-notes.txt"]


def test_what_was_sent_before_the_server_took_no_more_is_not_sent_again(
    machine: Machine, runs: Runs, app: Flask, clock: Clock
) -> None:
    tenancy = services(app).tenancy
    service.set_limit(tenancy, ACME, "max_heartbeats_per_minute", 2)
    tenancy.quotas.watch()
    machine.spool.mkdir(parents=True)
    pings = [json.dumps(["ping", {"name": "photos"}, {"Idempotency-Key": str(number)}]) for number in range(3)]
    (machine.spool / "1-run.ndjson").write_text("\n".join([*pings, ""]))
    assert machine.obs("flush").returncode == 1
    clock.advance(hours=25)  # the service has forgotten the keys
    assert machine.obs("flush").returncode == 0
    assert len(runs("photos")) == 3
    assert list(machine.spool.iterdir()) == []


def test_the_end_of_a_run_is_sent_where_there_is_no_room_for_its_log(machine: Machine, runs: Runs, app: Flask) -> None:
    tenancy = services(app).tenancy
    assert machine.obs("run", "photos", "--", "true").returncode == 0
    service.set_limit(tenancy, ACME, "max_stored_bytes", tenancy.databases.path(ACME).stat().st_size * 9 // 10)
    tenancy.quotas.watch()
    done = machine.obs("run", "photos", "--", "sh", "-c", "echo text; exit 3")
    assert (done.returncode, done.stderr.count(b"was refused (507)")) == (3, 1)
    assert [(run["status"], run["exit_code"]) for run in runs("photos")] == [("success", 0), ("failed", 3)]
    assert machine.waiting() == []


def test_a_new_job_for_which_there_is_no_room_keeps_no_other_from_being_sent(
    machine: Machine, runs: Runs, app: Flask
) -> None:
    tenancy, url = services(app).tenancy, machine.url
    assert machine.obs("run", "old", "--", "true").returncode == 0
    service.set_limit(tenancy, ACME, "max_jobs", 1)
    tenancy.quotas.watch()
    machine.url = REFUSING
    for job in ("new", "old"):
        machine.obs("run", job, "--", "true")
    machine.url = url
    done = machine.obs("flush")
    assert (done.returncode, b"max_jobs" in done.stderr or b"jobs" in done.stderr) == (1, True)
    assert len(runs("old")) == 2
    assert {event[1]["name"] for event in machine.waiting()} == {"new"}
    service.set_limit(tenancy, ACME, "max_jobs", 2)
    tenancy.quotas.watch()
    assert machine.obs("flush").returncode == 0
    assert [run["status"] for run in runs("new")] == ["success"]


def test_what_is_kept_for_one_server_or_organization_is_not_sent_to_another(machine: Machine, runs: Runs) -> None:
    elsewhere = {**machine.variables, "OBS_URL": REFUSING}
    machine.obs("run", "photos", "--", "echo", "text", env=elsewhere)
    machine.obs("run", "photos", "--", "echo", "text", env={**machine.variables, "OBS_API_KEY": "obs_other_key"})
    for environment in (machine.environment, machine.variables):
        assert machine.obs("run", "mail", "--", "true", env=environment).returncode == 0
    assert runs("photos") == []
    assert len(runs("mail")) == 2
    assert [event[0] for event in machine.waiting()] == ["start", "log", "end"] * 2
    rotated = {**elsewhere, "OBS_API_KEY": machine.key[:-4] + "0000"}
    assert b"cannot reach" in machine.obs("flush", env=rotated).stderr


@pytest.mark.parametrize("hours", [-1, 24 * 365])
def test_while_the_clock_of_the_machine_is_wrong_the_server_takes_its_own_time(
    machine: Machine, runs: Runs, clock: Clock, hours: int
) -> None:
    clock.advance(hours=hours)
    machine.spool.mkdir(parents=True)
    old = ["ping", {"name": "photos", "time": "1999-12-31T23:00:00.000Z"}, {}]
    (machine.spool / "1-run.ndjson").write_text(json.dumps(old) + "\n")
    done = machine.obs("run", "photos", "--", "sh", "-c", "echo text; sleep 0.1; exit 3")
    assert (done.returncode, done.stderr.count(b"was refused (422): time: ")) == (3, 1)  # what is really old
    (run,) = runs("photos")
    assert (run["status"], log(run), run["ended_at"]) == ("failed", "text\n", format_ms(clock.now_ms))
    assert 100 <= run["duration_ms"] < 60_000
    assert machine.waiting() == []


def test_with_a_wrong_key_runs_wait_until_it_is_corrected(machine: Machine, runs: Runs) -> None:
    key, machine.key = machine.key, "obs_acme_wrong"
    done = machine.obs("run", "photos", "--", "true")
    assert done.returncode == 0
    assert b"401" in done.stderr
    machine.key = key
    machine.obs("flush")
    assert [run["status"] for run in runs("photos")] == ["success"]


@pytest.mark.parametrize("response", ["redirect", "another service", None])
def test_an_address_that_is_not_that_of_obs_is_reported_and_nothing_is_lost(
    machine: Machine, runs: Runs, bad_server: Callable[[bytes | None], str], response: str | None
) -> None:
    """Such as http:// where there is only https://, which redirects."""
    url, machine.url = machine.url, bad_server(RESPONSES[response]) if response else "obs.example.com"
    done = machine.obs("run", "photos", "--", "true")
    assert done.returncode == 0
    assert b"heartbeats are kept" in done.stderr
    assert machine.url.encode() in done.stderr
    machine.url = url
    machine.obs("flush")
    assert [run["status"] for run in runs("photos")] == ["success"]


def test_a_certificate_that_is_unknown_is_reported_and_nothing_is_lost(machine: Machine, runs: Runs) -> None:
    context, url = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), machine.url
    context.load_cert_chain(Path(__file__).with_name("self_signed.pem"))
    server = HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    with serving(server):
        machine.url = f"https://127.0.0.1:{server.server_port}"
        done = machine.obs("run", "photos", "--", "true")
    assert done.returncode == 0
    assert b"heartbeats are kept" in done.stderr
    assert b"certificate verify failed" in done.stderr
    machine.url = url
    machine.obs("flush")
    assert [run["status"] for run in runs("photos")] == ["success"]


def test_without_a_server_and_without_a_home_the_command_runs(machine: Machine) -> None:
    environment = {"PATH": os.environ["PATH"], "HOME": "/nowhere"}
    done = machine.obs("run", "photos", "--", "echo", "text", env=environment)
    assert (done.returncode, done.stdout) == (0, b"text\n")
    assert b"OBS_URL" in done.stderr
    done = machine.obs(
        "run", "photos", "--", "echo", "text", env={**machine.environment, "XDG_STATE_HOME": "/dev/null"}
    )
    assert (done.returncode, done.stdout) == (0, b"text\n")
    assert b"cannot store" in done.stderr
