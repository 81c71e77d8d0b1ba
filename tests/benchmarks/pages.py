"""How soon pages are painted in Chromium, and how many bytes they take.

    python -m tests.benchmarks.pages FOLDER [--jobs 25 500 5000] [--times 5]

FOLDER is for new instances with as many jobs. Prints for the overview of each, and for the page of a job with its chart,
on this machine and with the processor slowed fourfold at 1.6 Mbit/s: the first paint, the chart, the bytes, and, because
others may load the machine, the processor time of the page and of the service. Each is the best of several times, for a
browser that has nothing of obs yet (first) and for one that has its scripts (again).
"""

import argparse
import json
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, sync_playwright

from tests.benchmarks.paired import Version
from tests.benchmarks.stored import new_stored_service
from tests.dashboard.chromium.conftest import sign_in
from tests.selection import find_chromium

SLOW_PROCESSOR = 4
SLOW_BYTES_PER_SECOND = 1.6e6 / 8
RUNS = 75_000  # in all jobs together, at least 30 of each
_WHEN_DRAWN = (
    "for (const name of ['sketched', 'drawn']) addEventListener(name, () => { window.drawnAt ??= performance.now(); })"
)
_MEASURED = """() => {
    const all = [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")];
    return {
        paint: performance.getEntriesByName("first-contentful-paint")[0].startTime,
        chart: window.drawnAt ?? 0,
        bytes: all.reduce((sum, one) => sum + one.transferSize, 0),
    };
}"""


def load(browser: Browser, state: Any, url: str, *, slow: bool, again: bool, version: Version) -> dict[str, float]:
    """Milliseconds until the first paint and until the chart is drawn, bytes, and milliseconds of processor time."""
    context = browser.new_context(storage_state=state, viewport={"width": 390, "height": 844} if slow else None)
    page = context.new_page()
    page.add_init_script(_WHEN_DRAWN)
    if again:
        page.goto(url)
        page.wait_for_load_state("networkidle")
    tools = context.new_cdp_session(page)
    tools.send("Performance.enable")
    if slow:
        tools.send("Emulation.setCPUThrottlingRate", {"rate": SLOW_PROCESSOR})
        network = {"offline": False, "latency": 150, "uploadThroughput": SLOW_BYTES_PER_SECOND}
        tools.send("Network.emulateNetworkConditions", {**network, "downloadThroughput": SLOW_BYTES_PER_SECOND})
    service_before = version.cpu_seconds()
    before = _busy_ms(tools)
    page.goto(url)
    page.wait_for_function("() => [...document.querySelectorAll('[data-chart]')].every((one) => one.views)")
    page.wait_for_load_state("networkidle")
    found: dict[str, float] = page.evaluate(_MEASURED)
    found |= {"page_cpu": _busy_ms(tools) - before, "service_cpu": (version.cpu_seconds() - service_before) * 1000}
    context.close()
    return found


def _busy_ms(tools: Any) -> float:
    metrics = {one["name"]: one["value"] for one in tools.send("Performance.getMetrics")["metrics"]}
    return float(metrics["TaskDuration"]) * 1000


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--jobs", type=int, nargs="+", default=[25, 500, 5000])
    arguments.add_argument("--times", type=int, default=5)
    options = arguments.parse_args()
    for jobs in options.jobs:
        service = new_stored_service(options.folder / str(jobs), jobs, max(30, RUNS // jobs))
        service.start()
        try:
            assert service.process is not None
            version = Version(service.port, service.key, service.process.pid)
            address = f"http://127.0.0.1:{service.port}"
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=find_chromium(), args=["--no-sandbox"])
                context = browser.new_context()
                page = sign_in(context.new_page(), address, service.key)
                path = page.locator("#rows a").first.get_attribute("href")
                page.goto(f"{address}{path}")  # writes the library of charts
                page.wait_for_load_state("networkidle")
                state = context.storage_state()
                for name, url, slow in (
                    ("overview", f"{address}/", False),
                    ("overview, slowed", f"{address}/", True),
                    ("job", f"{address}{path}", False),
                    ("job, slowed", f"{address}{path}", True),
                ):
                    for again in (False, True):
                        found = [
                            load(browser, state, url, slow=slow, again=again, version=version)
                            for _ in range(options.times)
                        ]
                        best = {what: round(min(one[what] for one in found), 1) for what in found[0]}
                        print(json.dumps({"jobs": jobs, "page": name, "again": again, **best}), flush=True)
                browser.close()
        finally:
            service.stop()


if __name__ == "__main__":
    main()
