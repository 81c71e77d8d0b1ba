"""Send requests that schemathesis generates from the OpenAPI document, and check the responses against it.

python -m tests.strangers.against_document --examples 100000
"""

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.server import Server

ROOT = Path(__file__).parent.parent.parent
_RATE = 1_000_000  # so that nothing is rejected for its rate


def serve(folder: Path) -> Server:
    """Start a service on a new instance with very high limits on queries and wrong keys."""
    folder.mkdir()
    (folder / "config.toml").write_text(f"query_rate_per_minute = {_RATE}\nwrong_keys_per_minute = {_RATE}\n")
    return Server(folder).wait_until_ready()


def run(server: Server, folder: Path, *options: str) -> tuple[int, str, int]:
    """Run schemathesis against `server`; returns the exit code, the report, and the number of requests."""
    created = server.ask(
        "POST",
        "/api/v1/keys",
        json.dumps({"label": "own", "scopes": ["admin"]}),
        {"X-API-Key": server.key(), "Content-Type": "application/json"},
    ).json()
    counted = folder.with_name("sent")
    done = subprocess.run(
        [
            *(sys.executable, "-c", "from schemathesis.cli import schemathesis; schemathesis()"),
            *("--config-file", str(Path(__file__).with_name("schemathesis.toml"))),
            *("run", f"http://127.0.0.1:{server.port}/api/openapi.json", "--no-color"),
            *("--header", f"X-API-Key: {created['key']}", "--generation-database", "none", *options),
        ],
        cwd=ROOT,
        env={
            **os.environ,
            "OBS_TEST_KEY_ID": str(created["id"]),
            "OBS_TEST_COUNT": str(counted),
            "PYTHONPATH": str(ROOT),
        },
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout + done.stderr, counted.stat().st_size if counted.exists() else 0


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--examples", type=int, default=100_000, help="the minimum number of requests")
    arguments.add_argument("--per-operation", type=int, default=200, help="examples per operation in each round")
    arguments.add_argument("--first-seed", type=int, default=1)
    options = arguments.parse_args()
    sent = 0
    for seed in itertools.count(options.first_seed):
        with tempfile.TemporaryDirectory() as folder:
            server = serve(Path(folder) / "instance")
            code, report, count = run(
                server, Path(folder) / "instance", "--seed", str(seed), "-n", str(options.per_operation)
            )
            ended, _ = server.stop()
            if code or ended or "Traceback" in server.printed():
                raise SystemExit(f"seed {seed}:\n{report}\n{server.printed()}")
        sent += count
        print(f"seed {seed}: {count} requests, {sent} in all", flush=True)
        if sent >= options.examples:
            return


if __name__ == "__main__":
    main()
