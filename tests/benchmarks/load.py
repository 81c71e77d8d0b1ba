"""Generate load with wrk (Debian: apt-get install wrk), and read its results."""

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ADDRESS = "http://127.0.0.1:{port}"
_SCRIPT = """
local keys = {{{keys}}}
local jobs, body, close = {jobs}, string.rep("x", {body_bytes}), {close}
local ended, job, key = true, 1, keys[1]
local function headers(key)
  local sent = {{["X-API-Key"] = key}}
  if close then sent["Connection"] = "close" end
  return sent
end
local function path(event)
  return "/api/v1/heartbeat/job-" .. job .. "/" .. event
end
local function choose()
  job, key = math.random(jobs), keys[math.random(#keys)]
end
local kinds = {{
  ping = function() choose() return wrk.format("POST", path("ping"), headers(key)) end,
  pair = function()
    if ended then choose() end
    ended = not ended
    return wrk.format("POST", path(ended and "end" or "start"), headers(key))
  end,
  log = function() choose() return wrk.format("POST", path("log"), headers(key), body) end,
}}
request = kinds["{kind}"]
done = function(summary, latency)
  local errors = summary.errors
  io.write(string.format("RESULT %f %f %f %f %d\\n", summary.requests / summary.duration * 1e6,
    latency:percentile(50) / 1000, latency:percentile(99) / 1000, latency:percentile(99.9) / 1000,
    errors.status + errors.connect + errors.read + errors.timeout))
end
"""


class Case(NamedTuple):
    """The requests to send, and the number of connections."""

    kind: str = "ping"
    """``ping``, ``pair`` (start, then end) or ``log``."""
    body_bytes: int = 0
    jobs: int = 100
    tenants: int = 1
    connections: int = 16
    keep_alive: bool = True

    def __str__(self) -> str:
        size = f" of {self.body_bytes // 1024} KB" if self.body_bytes else ""
        alive = "" if self.keep_alive else ", one connection per request"
        tenants = f" of {self.tenants} tenants" if self.tenants > 1 else ""
        return f"{self.kind}{size}, {self.jobs} jobs{tenants}, {self.connections} at once{alive}"


class Measured(NamedTuple):
    """Requests (or commits) per second, latencies in milliseconds, and the number of failed requests."""

    per_second: float
    p50_ms: float
    p99_ms: float
    p999_ms: float
    errors: int


def run(case: Case, port: int, keys: Sequence[str], seconds: float, folder: Path) -> Measured:
    """Send the requests of `case` for `seconds`, with the keys of `case.tenants` organizations."""
    script = folder / "load.lua"
    script.write_text(
        _SCRIPT.format(
            keys=", ".join(f'"{key}"' for key in keys[: case.tenants]),
            jobs=case.jobs,
            body_bytes=case.body_bytes,
            close="false" if case.keep_alive else "true",
            kind=case.kind,
        )
    )
    done = subprocess.run(
        ["wrk", "-t1", f"-c{case.connections}", f"-d{seconds}s", "-s", str(script), ADDRESS.format(port=port)],
        check=True,
        capture_output=True,
        text=True,
    )
    result = re.search(r"RESULT (\S+) (\S+) (\S+) (\S+) (\d+)", done.stdout)
    assert result is not None, done.stdout
    return Measured(float(result[1]), float(result[2]), float(result[3]), float(result[4]), int(result[5]))
