"""The process itself. `obs.alerts.courier` starts it, as the leader of a process group."""

import importlib
import json
import os
import re
import signal
import sys
from contextlib import suppress
from typing import Any
from urllib.parse import unquote

from . import ATTEMPT_SECONDS, MOST_ANSWER, Order, RefusedError, failure, policy


def main() -> None:
    """Carry out orders, each in a process of its own, until the standard input is closed; then end them all."""
    running: dict[int, int] = {}  # the id of the order by the process

    def reap(*_: Any) -> None:
        with suppress(ChildProcessError):  # a signal may interrupt this before the last process is taken from `running`
            while running and (ended := os.waitpid(-1, os.WNOHANG))[0]:
                order_id, status = running.pop(ended[0]), ended[1]
                if status:  # else it has written the answer
                    timed_out = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGALRM
                    reason = f"No answer within {ATTEMPT_SECONDS} seconds." if timed_out else "The attempt has crashed."
                    _write(sys.stdout.fileno(), order_id, failure(reason))

    signal.signal(signal.SIGCHLD, reap)
    for line in sys.stdin:
        order = json.loads(line)
        kind = importlib.import_module(f".{order['kind']}", __package__)  # once, and not in each process again
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
        process = os.fork()
        if process == 0:
            signal.alarm(ATTEMPT_SECONDS)  # then the kernel ends this process
            os.close(sys.stdin.fileno())
            answers = os.dup(sys.stdout.fileno())
            os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a library prints is not an answer
            _write(answers, order["id"], _answer(kind, order))
            os._exit(0)  # not the exit of the courier
        running[process] = order["id"]
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
    os.killpg(0, signal.SIGKILL)  # the service sends again what has no answer yet


def _write(descriptor: int, order_id: int, answer: dict[str, Any]) -> None:
    with suppress(BrokenPipeError):  # the service has ended
        os.write(descriptor, json.dumps({**answer, "id": order_id}).encode() + b"\n")


def _answer(kind: Any, order: Order) -> dict[str, Any]:
    try:
        masked, host = kind.check(order["address"])
        if not order["allow_private"] and host is not None:
            policy.check_host(host)
        if order["op"] == "check":
            return {"masked": masked[:MOST_ANSWER]}
        policy.restrict(allow_private=order["allow_private"])
        delivered, answer, wait_seconds = getattr(kind, order["op"])(order)
        return {**failure(_without_secrets(answer, order)), "delivered": delivered, "wait_seconds": wait_seconds}
    except RefusedError as error:
        return failure(str(error), refused=True)
    except Exception as error:  # noqa: BLE001 - whatever a library raises is the answer that a person reads
        reason = getattr(error, "reason", None) or error
        return failure(_without_secrets(f"{type(reason).__name__}: {reason}", order))


def _without_secrets(answer: str, order: Order) -> str:
    """An answer without the parts of the address that are never shown: receivers repeat them in their errors."""
    parts = re.split(r"[/?&=:@]+", order["address"])
    for part in (*parts, *map(unquote, parts)):
        if len(part) > 3 and part not in order.get("masked", ""):
            answer = answer.replace(part, "***")
    return answer
