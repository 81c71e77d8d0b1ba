"""``obs run``: the command runs as without it, and what it does is reported."""

import json
import os
import re
import select
import signal
import ssl
import subprocess
import time
from collections.abc import Callable
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from obs.services import services
from obs.tenancy import service
from obs.times import format_ms
from tests.client.conftest import ALL_RESPONSES, REFUSING, RESPONSES, Machine
from tests.conftest import ACME, Clock, KeyClient, serving

Runs = Callable[[str], list[dict[str, Any]]]


def log(run: dict[str, Any]) -> str:
    return "".join(event["message"] or "" for event in run["timeline"] if event["kind"] == "log")


@pytest.mark.parametrize("code", [0, 1, 3, 255])
def test_output_and_exit_code_are_those_of_the_command(machine: Machine, runs: Runs, code: int) -> None:
    script = f"cat; echo out; echo err >&2; exit {code}"
    done = machine.obs("run", "photos", "--", "sh", "-c", script, stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stdout, done.stderr) == (code, b"out\n", b"err\n")
    (run,) = runs("photos")
    assert (run["status"], run["exit_code"]) == ("failed" if code else "success", code)
    assert sorted(log(run).split()) == ["err", "out"]
    assert [event["kind"] for event in run["timeline"]][:1] == ["start"]
    assert run["host"] == os.uname().nodename
    assert run["duration_ms"] is not None
    assert machine.waiting() == []


def test_where_both_outputs_are_one_file_their_order_is_kept(machine: Machine, runs: Runs) -> None:
    script = "for i in 1 2 3 4 5; do echo out $i; echo err $i >&2; done"
    done = machine.obs("run", "photos", "--", "sh", "-c", script, stderr=subprocess.STDOUT)
    expected = "".join(f"out {number}\nerr {number}\n" for number in range(1, 6))
    assert done.stdout.decode() == expected
    assert log(runs("photos")[0]) == expected


def test_attribution_and_options(machine: Machine, runs: Runs) -> None:
    options = ["--host", "nas", "--service", "restic", "--project", "home"]
    machine.obs("run", "photos", *options, "--quiet", "--", "echo", "-n", "--host", "x")
    (run,) = runs("photos")
    assert (run["host"], run["service"], run["project"]) == ("nas", "restic", "home")
    assert log(run) == "--host x"
    assert machine.obs("run", "a", "--quiet", "--", "echo", "hidden").stdout == b""
    assert machine.obs("run", "b", "--no-log", "--", "echo", "shown").stdout == b"shown\n"
    assert (log(runs("a")[0]), log(runs("b")[0])) == ("hidden\n", "")
    for job, code in (("c", 0), ("d", 4)):
        machine.obs("run", job, "--log-on-failure", "--", "sh", "-c", f"echo text; exit {code}")
    assert (log(runs("c")[0]), log(runs("d")[0])) == ("", "text\n")


@pytest.mark.parametrize("arguments", [["run", "x"], ["run", "x", "--"], ["run"], []])
def test_a_missing_command_is_an_error(machine: Machine, arguments: list[str]) -> None:
    done = machine.obs(*arguments)
    assert done.returncode == 2
    assert b"obs" in done.stderr


@pytest.mark.parametrize(("command", "code"), [("/nowhere/at/all", 127), ("/etc", 126)])
def test_a_command_that_cannot_be_run_failed_as_in_a_shell(
    machine: Machine, runs: Runs, command: str, code: int
) -> None:
    done = machine.obs("run", "photos", "--", command)
    assert done.returncode == code
    assert command.encode() in done.stderr
    (run,) = runs("photos")
    assert (run["status"], run["exit_code"]) == ("failed", code)
    assert command in run["timeline"][-1]["message"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_are_forwarded(machine: Machine, runs: Runs, number: signal.Signals) -> None:
    script = f"trap 'echo stopping; exit 9' {number.value}; echo ready; while :; do sleep 0.05; done"
    # A shell cannot trap what it inherits as ignored, such as SIGINT in a background job.
    restored = partial(signal.signal, number, signal.SIG_DFL)
    process = machine.start("run", "photos", "--", "sh", "-c", script, preexec_fn=restored)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(number)
    assert process.stdout.read() == b"stopping\n"
    assert process.wait(timeout=30) == 9
    assert (runs("photos")[0]["exit_code"], log(runs("photos")[0])) == (9, "ready\nstopping\n")


def test_a_command_that_a_signal_killed(machine: Machine, runs: Runs) -> None:
    assert machine.obs("run", "photos", "--", "sh", "-c", "kill -KILL $$").returncode == 137
    assert (runs("photos")[0]["status"], runs("photos")[0]["exit_code"]) == ("failed", 137)


@pytest.mark.parametrize(("trap", "code"), [("", 143), pytest.param("trap '' TERM;", 137, marks=pytest.mark.slow)])
def test_a_command_that_takes_too_long_is_stopped(
    machine: Machine, runs: Runs, trap: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = time.monotonic()
    script = f"{trap} while :; do sleep 0.05; done"
    done = machine.obs("run", "photos", "--timeout", "0.3s", "--", "sh", "-c", script)
    assert done.returncode == code
    assert time.monotonic() - begun >= 0.3
    (run,) = runs("photos")
    assert run["status"] == "failed"
    assert run["timeline"][-1]["message"] == "stopped: it took longer than 0.3 s"


def test_a_process_in_the_background_does_not_keep_the_run_open(machine: Machine, runs: Runs) -> None:
    begun = time.monotonic()
    assert machine.obs("run", "photos", "--", "sh", "-c", "sleep 30 & echo done").stdout == b"done\n"
    assert time.monotonic() - begun < 20
    assert (runs("photos")[0]["status"], log(runs("photos")[0])) == ("success", "done\n")


def test_a_reader_that_ends_stops_the_command_as_without(machine: Machine, runs: Runs) -> None:
    process = machine.start("run", "photos", "--", "yes")
    assert process.stdout is not None
    process.stdout.read(10)
    process.stdout.close()
    assert process.wait(timeout=30) == 128 + signal.SIGPIPE
    assert runs("photos")[0]["status"] == "failed"


def test_a_full_disk_does_not_stop_the_command(machine: Machine, runs: Runs) -> None:
    with open("/dev/full", "wb") as full:
        script = "for i in 1 2 3; do echo $i; sleep 0.1; done; exit 4"
        assert machine.obs("run", "photos", "--", "sh", "-c", script, stdout=full).returncode == 4
    assert (runs("photos")[0]["exit_code"], log(runs("photos")[0])) == (4, "1\n2\n3\n")


def test_an_output_that_another_program_has_made_non_blocking_gets_all(machine: Machine) -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    process = machine.start("run", "photos", "--", "head", "-c", "1000000", "/dev/zero", stdout=writing)
    while select.select([], [writing], [], 0)[1]:  # until it is full
        os.sched_yield()
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        assert len(pipe.read()) == 1_000_000
    assert process.wait(timeout=30) == 0


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_command_without_standard_streams_ends_as_without(machine: Machine, runs: Runs, closed: str) -> None:
    script = f'"$@" run photos -- sh -c "echo text; exit 4" {closed}'
    assert machine.obs(args=["sh", "-c", script, "sh", *machine.program]).returncode == 4
    assert (runs("photos")[0]["exit_code"], log(runs("photos")[0])) == (4, "text\n")


def test_output_arrives_while_the_command_runs(machine: Machine, runs: Runs) -> None:
    script = "i=0; while [ $i -lt 400 ]; do echo line $i of the output that is sent at once; i=$((i+1)); done; cat"
    process = machine.start("run", "photos", "--", "sh", "-c", script, stdin=subprocess.PIPE)
    end = time.monotonic() + 30
    while not (runs("photos") and log(runs("photos")[0])) and time.monotonic() < end:
        os.sched_yield()
    assert runs("photos")[0]["status"] == "open"
    assert log(runs("photos")[0]).endswith("\n")
    process.communicate(timeout=30)
    assert log(runs("photos")[0]).count("\n") == 400


def test_of_a_long_output_the_middle_is_left_out(machine: Machine, runs: Runs) -> None:
    script = "echo first; head -c 10000000 /dev/zero | tr '\\0' x | fold -w 99; echo; echo last"
    done = machine.obs("run", "photos", "--", "sh", "-c", script)
    assert len(done.stdout) > 10_000_000
    text = log(runs("photos")[0])
    assert text.startswith("first\nxxx")
    assert text.endswith("x\nlast\n")
    assert 1_000_000 <= len(text) < 1_000_100
    assert "bytes were left out here.)" in text


# The server


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


# Heartbeats one by one


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_a_log_message_is_sent_whatever_its_bytes(machine: Machine, runs: Runs, client: KeyClient, locale: str) -> None:
    client.post("/api/v1/heartbeat/photos/start")
    environment = {**machine.environment, "LC_ALL": locale}
    for arguments, text in (["log", "photos"], b"\xc3\xa4\xff"), (["log", "photos", b"\xc3\xb6\xff"], b""):
        process = machine.start(args=[*machine.program, *arguments], env=environment, stdin=subprocess.PIPE)
        assert process.communicate(text, timeout=30) == (b"", b"")
        assert process.returncode == 0
    assert log(runs("photos")[0]) == "\xe4\ufffd\xf6\ufffd"


def test_a_ping_is_a_run_or_a_sign_of_life_of_the_open_run(machine: Machine, runs: Runs) -> None:
    machine.obs("ping", "photos")
    machine.obs("run", "photos", "--", *machine.program, "ping", "photos")
    assert [[event["kind"] for event in run["timeline"]] for run in runs("photos")] == [
        ["ping"],
        ["start", "ping", "end"],
    ]
