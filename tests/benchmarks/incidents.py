"""What thousands of jobs that become overdue at once cost the heartbeats of other jobs.

    python -m tests.benchmarks.incidents [--jobs 10000] [--pairs 4] [--seconds 8]

Needs wrk. Two channels are notified. In each pair, heartbeats are sent for some seconds in which nothing else happens,
and for as long from the moment at which the jobs become overdue. Prints the ratio of the heartbeats per second, how
long it took to open all incidents, and the messages that the receivers got.
"""

import argparse
import sqlite3
import statistics
import tempfile
import threading
import time
from contextlib import closing
from pathlib import Path

from tests.alerts.receiver import Receiver
from tests.benchmarks.paired import WARM_UP_SECONDS, Version
from tests.crash.served import file_of, running_service

_MESSAGE_SECONDS = 30  # from the first incident to its message, at most
_ADD = """
    INSERT INTO jobs (name, created_at, last_heartbeat_at, last_event_id, learned_event_id)
    VALUES ('silent/' || ?1, ?2, ?2, 1, 1)
"""
_OVERDUE = "UPDATE jobs SET expected_at = ?1, overdue_at = ?1 WHERE name LIKE 'silent/%'"
_WELL = "UPDATE jobs SET overdue_at = NULL, overdue_since = NULL, expected_at = NULL WHERE name LIKE 'silent/%'"
_OPEN = "SELECT count(*) FROM incidents WHERE ended_at IS NULL"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--jobs", type=int, default=10_000)
    arguments.add_argument("--pairs", type=int, default=4)
    arguments.add_argument("--seconds", type=int, default=8)
    options = arguments.parse_args()
    receiver = Receiver()
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as name, running_service(Path(name)) as service:
        assert service.process is not None
        for channel in ("one", "two"):
            body = {"name": channel, "webhook": {"url": receiver.url}}
            assert service.ask("POST", "/api/v1/channels", body=body)[0] == 201
        version = Version(service.port, service.key, service.process.pid)
        version.measure(16, WARM_UP_SECONDS, Path(name))
        path = file_of(service.instance, "crash")
        with closing(sqlite3.connect(path, isolation_level=None, timeout=30, check_same_thread=False)) as db:
            db.execute("PRAGMA wal_autocheckpoint = 0")  # the service is the only one that may write checkpoints

            def change(sql: str) -> None:
                db.execute("BEGIN IMMEDIATE")
                db.execute(sql, (time.time_ns() // 1_000_000,) if "?1" in sql else ())
                db.execute("COMMIT")

            def seconds_until(count: int) -> float:
                begun = time.monotonic()
                while db.execute(_OPEN).fetchone()[0] != count:
                    assert time.monotonic() - begun < 10 * options.seconds
                    time.sleep(0.02)
                return time.monotonic() - begun

            now_ms = time.time_ns() // 1_000_000
            db.execute("BEGIN IMMEDIATE")
            db.executemany(_ADD, [(number, now_ms) for number in range(options.jobs)])
            db.execute("COMMIT")
            ratios = []
            for pair in range(options.pairs):
                measured, taken = {}, list[float]()
                for overdue in (False, True) if pair % 2 else (True, False):
                    watch = threading.Thread(target=lambda taken=taken: taken.append(seconds_until(options.jobs)))
                    if overdue:
                        change(_OVERDUE)
                        watch.start()
                    measured[overdue] = version.measure(16, options.seconds, Path(name))
                    if overdue:
                        watch.join()
                        receiver.received.wait(_MESSAGE_SECONDS)
                        change(_WELL)
                        assert service.ask("POST", "/api/v1/heartbeat/job-1/ping")[0] == 200  # wakes the sweep
                        seconds_until(0)
                alone, beside = measured[False], measured[True]
                ratios.append(beside.per_second / alone.per_second)
                print(
                    f"{alone.per_second:.0f} heartbeats/s, {beside.per_second:.0f} while {options.jobs} incidents were"
                    f" opened in {taken[0]:.1f} s; ratio {ratios[-1]:.3f}",
                    flush=True,
                )
        print(f"the median of the ratios: {statistics.median(ratios):.3f}")
        for message in receiver.messages():
            print(f"  {message['event']}: {message['title']}")
    receiver.close()


if __name__ == "__main__":
    main()
