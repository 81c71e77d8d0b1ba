"""``obs run``: the command runs as without it, and what it does is reported; so are ``obs ping`` and ``obs log``."""

import os
import select
import signal
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.client.conftest import Machine, log
from tests.conftest import KeyClient

Runs = Callable[[str], list[dict[str, Any]]]


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


def test_a_command_without_dashes_before_it_is_an_error_that_names_them(machine: Machine) -> None:
    done = machine.obs("run", "photos", "echo", "hi")
    assert done.returncode == 2
    assert b"the command is missing: obs run JOB [OPTION]... -- COMMAND..." in done.stderr


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


@pytest.mark.parametrize("number", list(map(signal.Signals, (1, 2, 3, 10, 12, 15))))
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


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_comes_while_the_command_starts_is_forwarded(
    machine: Machine, runs: Runs, number: signal.Signals
) -> None:
    script = f"kill -{number:d} $PPID; exec sleep 60"
    restored = partial(signal.signal, number, signal.SIG_DFL)  # obs run leaves what it inherits as ignored
    done = machine.obs("run", "photos", "--", "sh", "-c", script, preexec_fn=restored)
    assert done.returncode == 128 + number
    assert [(run["status"], run["exit_code"]) for run in runs("photos")] == [("failed", 128 + number)]


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


@pytest.mark.parametrize("time", ["0", "0.0s", "2x", "-1", ""])
def test_a_time_limit_that_is_none_is_an_error(machine: Machine, time: str) -> None:
    done = machine.obs("run", "photos", f"--timeout={time}", "--", "true")
    assert (done.returncode, b"not a time such as 90s" in done.stderr) == (2, True)


def test_a_process_in_the_background_does_not_keep_the_run_open(machine: Machine, runs: Runs) -> None:
    script = "exec 3<&0; (read -r line; echo late; echo more) <&3 & echo done"
    process = machine.start("run", "photos", "--", "sh", "-c", script, stdin=subprocess.PIPE)
    assert process.wait(timeout=30) == 0
    assert (runs("photos")[0]["status"], log(runs("photos")[0])) == ("success", "done\n")
    assert machine.waiting() == []
    assert process.communicate(b"go on\n", timeout=30)[0] == b"done\nlate\nmore\n"


def test_a_command_has_the_file_descriptors_that_it_is_given(machine: Machine, tmp_path: Path) -> None:
    script = f'"$@" run photos -- sh -c "echo text >&3" 3> {tmp_path}/file'
    assert machine.obs(args=["sh", "-c", script, "sh", *machine.program]).returncode == 0
    assert (tmp_path / "file").read_text() == "text\n"


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
