"""``monitor`` of Python: what it reports, and that the monitored code does not notice."""

import ast
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.client.conftest import REFUSING, RESPONSES, Machine

Runs = Callable[[str], list[dict[str, Any]]]
START = "import sys, asyncio\nsys.path.append(sys.argv[1])\nfrom obs_client import monitor\n"


def python(machine: Machine, script: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-S", "-c", START + script, str(machine.home / "obs")]
    return machine.obs(args=command, env={**machine.environment, **environment})


def test_a_block_and_a_function_are_runs(machine: Machine, runs: Runs) -> None:
    script = """
with monitor("block", host="nas", service="s", project="p") as log:
    log("first")
    log("second \\udc80")
    log(42)

@monitor("function")
def double(number, *, plus=0):
    "It doubles."
    return 2 * number + plus

assert [double(1), double(2, plus=1)] == [2, 5]
assert (double.__name__, double.__doc__) == ("double", "It doubles.")
"""
    done = python(machine, script)
    assert (done.returncode, done.stderr) == (0, b"")
    (block,) = runs("block")
    assert (block["status"], block["host"], block["service"], block["project"]) == ("success", "nas", "s", "p")
    assert [event["message"] for event in block["timeline"]] == [None, "first", "second ?", "42", None]
    assert block["duration_ms"] is not None
    assert [(run["status"], run["host"]) for run in runs("function")] == [("success", os.uname().nodename)] * 2
    assert machine.waiting() == []


def test_messages_of_several_threads_all_count(machine: Machine) -> None:
    script = """
import threading
sys.setswitchinterval(1e-7)
with monitor("photos") as log:
    threads = [threading.Thread(target=lambda: [log("text") for _ in range(500)]) for _ in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
"""
    python(machine, script, OBS_URL=REFUSING)
    keys = [headers["Idempotency-Key"] for _, _, headers in machine.waiting()]
    assert len(keys) == len(set(keys)) == 4_002


def test_an_exception_is_reported_and_raised_again(machine: Machine, runs: Runs) -> None:
    script = """
@monitor("photos")
def copy():
    raise ValueError("no space left \\udc80" + "x" * 5000)

try:
    copy()
except ValueError as error:
    assert str(error).startswith("no space left")
    assert error.__traceback__.tb_next is not None
else:
    sys.exit(9)
with monitor("interrupted"):
    raise KeyboardInterrupt
"""
    done = python(machine, script)
    assert done.returncode != 0
    assert done.stderr.endswith(b"KeyboardInterrupt\n")
    (run,) = runs("photos")
    message = run["timeline"][-1]["message"]
    assert (run["status"], len(message)) == ("failed", 2000)
    assert runs("interrupted")[0]["status"] == "failed"
    python(machine, 'with monitor("short"):\n    1 / 0')
    message = runs("short")[0]["timeline"][-1]["message"]
    assert message.splitlines()[-1] == "ZeroDivisionError: division by zero"


@pytest.mark.parametrize(("code", "status"), [("", "success"), ("0", "success"), ("3", "failed"), ("'x'", "failed")])
def test_an_exit_is_a_failure_only_with_a_status(machine: Machine, runs: Runs, code: str, status: str) -> None:
    python(machine, f'with monitor("photos"):\n    sys.exit({code})')
    assert [run["status"] for run in runs("photos")] == [status]


def test_threads_and_coroutines_have_runs_of_their_own(machine: Machine, runs: Runs) -> None:
    script = """
from threading import Thread, Barrier
barrier = Barrier(4)

@monitor("thread")
def work(fails):
    barrier.wait()
    if fails:
        sys.exit(1)

threads = [Thread(target=work, args=(number % 2,)) for number in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()

async def job(number):
    with monitor("coroutine") as log:
        await asyncio.sleep(0)
        log(str(number))

async def main():
    await asyncio.gather(*map(job, range(3)))

asyncio.run(main())
"""
    done = python(machine, script)
    assert (done.returncode, done.stderr) == (0, b"")
    assert sorted(run["status"] for run in runs("thread")) == ["failed", "failed", "success", "success"]
    logs = [event["message"] for run in runs("coroutine") for event in run["timeline"] if event["kind"] == "log"]
    assert sorted(logs) == ["0", "1", "2"]


@pytest.mark.parametrize("response", ["refused", "error", "garbage", pytest.param("hangs", marks=pytest.mark.slow)])
def test_the_code_does_not_wait_for_a_broken_server(
    machine: Machine, runs: Runs, bad_server: Callable[[bytes | None], str], response: str
) -> None:
    url, machine.url = machine.url, REFUSING if response == "refused" else bad_server(RESPONSES[response])
    script = """
import time
begun = time.monotonic()
for number in range(3):
    with monitor("photos") as log:
        log(str(number))
print(time.monotonic() - begun)
"""
    begun = time.monotonic()
    done = python(machine, script)
    assert (done.returncode, done.stderr) == (0, b"")
    assert float(done.stdout) < 4  # a request may take 5
    assert time.monotonic() - begun < 25
    assert len(machine.waiting()) == 9
    machine.url = url
    assert machine.obs("flush").returncode == 0
    assert [run["status"] for run in runs("photos")] == ["success"] * 3


def test_without_a_configuration_or_a_folder_the_code_runs(machine: Machine, runs: Runs) -> None:
    script = 'with monitor("photos") as log:\n    log("x")\nlog("too late")\nprint("done")'
    machine.url, url = "", machine.url
    done = python(machine, script)
    assert (done.returncode, done.stdout) == (0, b"done\n")
    assert b"obs login URL" in done.stderr
    machine.url = url
    machine.obs("flush")
    assert [run["status"] for run in runs("photos")] == ["success"]
    done = python(machine, script, XDG_STATE_HOME="/dev/null")
    assert (done.returncode, done.stdout) == (0, b"done\n")
    assert b"cannot store" in done.stderr


def test_where_no_thread_can_start_the_run_is_kept(machine: Machine, runs: Runs) -> None:
    script = """
import threading
def refuse(*_, **__):
    raise RuntimeError("can't start new thread")
threading.Thread.start = refuse
with monitor("photos"):
    print("done")
"""
    assert python(machine, script).stdout == b"done\n"
    machine.obs("flush")
    assert [run["status"] for run in runs("photos")] == ["success"]


def test_the_client_is_valid_python_3_9(machine: Machine) -> None:
    import zipfile

    with zipfile.ZipFile(machine.home / "obs") as archive:
        names = archive.namelist()
        assert "obs_client/main.py" in names
        for name in names:
            ast.parse(archive.read(name), feature_version=(3, 9))
