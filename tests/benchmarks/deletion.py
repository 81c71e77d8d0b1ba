"""How long it takes to delete many jobs by prefix, and what that does to heartbeats.

    python -m tests.benchmarks.deletion [--jobs 100000]

Needs wrk. Prints heartbeats per second and their latencies before and during the deletion, in the same run.
"""

import argparse
import json
import tempfile
import threading
import time
from pathlib import Path

from tests.benchmarks.load import Case, run
from tests.benchmarks.stored import new_stored_service


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--jobs", type=int, default=100_000)
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        service = new_stored_service(folder, options.jobs, 1)
        service.start()
        try:
            time.sleep(5)  # the background work of the start

            def beat(seconds: float) -> None:
                print("   ", run(Case(), service.port, [service.key], seconds, folder), flush=True)

            print("heartbeats alone")
            beat(5)
            deleting = threading.Event()

            def delete() -> None:
                started, deleted, remaining, requests = time.monotonic(), 0, 1, 0
                while remaining:
                    status, _, body = service.ask("DELETE", "/api/v1/jobs?prefix=team-")
                    assert status == 200, body
                    counts = json.loads(body)
                    deleted, remaining, requests = deleted + counts["deleted"], counts["remaining"], requests + 1
                seconds = time.monotonic() - started
                print(f"{deleted} jobs deleted in {seconds:.1f} s with {requests} requests", flush=True)
                deleting.set()

            thread = threading.Thread(target=delete)
            thread.start()
            print("heartbeats during the deletion")
            while not deleting.is_set():
                beat(5)
            thread.join()
        finally:
            service.kill()


if __name__ == "__main__":
    main()
