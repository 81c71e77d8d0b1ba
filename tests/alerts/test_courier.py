"""The courier, the process that sends messages: it may fail, hang or end, and can do nothing else."""

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import wait
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from obs.alerts import courier
from obs.alerts.courier import Courier, failure
from obs.services import services
from tests.alerts.receiver import Receiver
from tests.alerts.world import ATTEMPT_SECONDS, World
from tests.conftest import children
from tests.crash.alerts_under_kills import courier_of


def _no_thread(_: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


@pytest.mark.parametrize(
    ("name", "value"),
    [("sys.executable", "/nonexistent/python"), ("threading.Thread.start", _no_thread)],
    ids=["no memory for another process", "no thread"],
)
def test_a_courier_that_cannot_be_started_is_a_failed_attempt(
    world: World, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, name: str, value: object
) -> None:
    world.add_channel(receiver)
    services(world.app).alerts.courier.close()
    world.end("photos", "fail")
    world.sweep()
    with monkeypatch.context() as patch:
        patch.setattr(name, value)
        world.pass_time(seconds=10)
    (delivery,) = world.deliveries()
    assert (delivery["state"], delivery["attempts"]) == ("pending", 1)
    assert "cannot be started" in delivery["answer"]
    world.pass_time(seconds=30)
    assert [one["state"] for one in world.deliveries()] == ["sent"]


def test_a_courier_that_hangs_is_replaced(world: World, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    world.add_channel(receiver)
    process = courier_of(os.getpid())
    assert process is not None
    os.kill(process, signal.SIGSTOP)
    world.end("photos", "fail")
    world.sweep()
    world.clock.advance(seconds=10)
    notifier = services(world.app).background.notifier
    notifier.run()
    later = SimpleNamespace(monotonic=lambda: time.monotonic() + 61)
    with monkeypatch.context() as patch:
        patch.setattr(courier, "time", later)
        services(world.app).background.run("courier")
    assert world.on_their_way.pop().result(ATTEMPT_SECONDS)["answer"] == "The process that sends messages has ended."
    world.deliver()
    world.pass_time(seconds=30)
    assert [one["state"] for one in world.deliveries()] == ["sent"]


def test_a_courier_that_hangs_with_a_full_pipe_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """`submit` waits for the pipe then, and so does the task that would make a next attempt."""
    order = {"op": "check", "kind": "webhook", "address": "http://127.0.0.1/", "payload": "x" * 200_000}
    with closing(Courier(lambda: True)) as one:
        assert one.submit(order).result(ATTEMPT_SECONDS)["masked"]
        process = courier_of(os.getpid())
        assert process is not None
        os.kill(process, signal.SIGSTOP)
        answers = list[object]()
        thread = threading.Thread(target=lambda: answers.append(one.submit(order).result()), daemon=True)
        thread.start()
        thread.join(1)
        assert thread.is_alive()
        one.close(only_if_idle=True)
        assert thread.is_alive()
        monkeypatch.setattr(courier, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + 61))
        one.close(only_if_idle=True)
        thread.join(ATTEMPT_SECONDS)
        assert answers == [failure("The process that sends messages has ended.")]
        assert one.submit(order).result(ATTEMPT_SECONDS)["masked"]


def test_a_second_answer_to_an_attempt_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An attempt may be ended by its time limit after it has written its answer: then there are two."""
    program = tmp_path / "courier"
    first, second = (f'{{"id": {number}, "delivered": true, "answer": "{number}"}}' for number in (1, 2))
    program.write_text(f"#!/bin/sh\nread -r order; echo '{first}'; echo '{first}'; read -r order; echo '{second}'\n")
    program.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(program))
    with closing(Courier(lambda: True)) as courier:
        for number in ("1", "2"):
            assert courier.submit({"op": "fetch", "kind": "webhook"}).result(10)["answer"] == number


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lists the children of a process")
def test_attempts_that_end_at_once_are_all_answered() -> None:
    """The signal of a process that ends may interrupt the handling of another one."""
    order = {"op": "check", "kind": "webhook", "address": "https://example.com/hook"}
    with closing(Courier(lambda: True)) as courier:
        before = children()
        courier.submit(order).result(60)
        (process,) = children() - before
        for _ in range(5):
            waiting = [courier.submit(order) for _ in range(200)]
            while wait(waiting, timeout=0.0005).not_done:
                os.kill(process, signal.SIGCHLD)
            assert {tuple(one.result()) for one in waiting} == {("masked",)}


@pytest.mark.parametrize(
    "action",
    [
        "open('/etc/passwd')",
        "open('{folder}/new', 'w')",
        "os.mkdir('{folder}/new')",
        "os.symlink('/etc/passwd', '{folder}/new')",
        "os.rename('{folder}', '{folder}-new')",
        "os.kill(os.getppid(), 0)",
        "os.system('true')",
        "sqlite3.connect('{folder}/new')",
        "socket.socket().bind(('127.0.0.1', 0))",
        "socket.socket(socket.AF_UNIX).connect('/run/docker.sock')",
        "socket.socket().connect_ex(('127.0.0.1', 9))",
    ],
)
def test_a_library_that_sends_a_message_cannot_do_anything_else(action: str, tmp_path: Path) -> None:
    setup = "import os, socket, sqlite3, sys; sys.path.insert(0, sys.argv[1]); from courier import policy"
    code = f"{setup}; policy.restrict(allow_private=False); {action.format(folder=tmp_path)}"
    folder = str(Path(courier.__file__).parent.parent)
    done = subprocess.run([sys.executable, "-c", code, folder], capture_output=True, text=True, check=False)
    assert "PermissionError" in done.stderr
