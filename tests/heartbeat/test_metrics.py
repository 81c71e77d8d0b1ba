"""The jobs as metrics: their values over HTTP, and promtool and Prometheus as they are."""

import json
import os
import queue
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from prometheus_client.parser import text_string_to_metric_families
from sqlite_utils import Database

import migrations.tenant
from obs.services import services
from tests.conftest import ACME, Clock, KeyClient, serving
from tests.crash.served import free_port
from tests.dashboard.conftest import address
from tests.heartbeat.conftest import Sender

__all__ = ["address"]
PAGE = Path(__file__).parents[2] / "docs" / "prometheus.md"
METRICS = "/api/v1/metrics"
JOBS = "/api/v1/jobs"
Sweep = Callable[[], None]


def read(client: KeyClient, **labels: str) -> dict[str, float]:
    """The samples of the series with these labels, by the name of the metric and the status."""
    answer = client.get(METRICS)
    assert (answer.status_code, answer.content_type) == (200, "text/plain; version=0.0.4; charset=utf-8")
    found = {}
    for family in text_string_to_metric_families(answer.text):
        for sample in family.samples:
            if labels.items() <= sample.labels.items():
                status = sample.labels.get("status")
                name = sample.name.removeprefix("obs_job_")
                found[f"{name} {status}" if status else name] = sample.value
    return found


def counts(client: KeyClient) -> list[float]:
    found = read(client, job="backup")
    return [found[f"runs_total {status}"] for status in ("success", "failed", "lost")]


def test_the_life_of_a_job(by_path: Sender, admin: KeyClient, clock: Clock, sweep: Sweep) -> None:
    admin.post(JOBS, json={"name": "backup", "pin": {"interval_seconds": 3600}})
    assert (read(admin, job="backup"), counts(admin)) == (
        {"up": 1, "overdue": 0, "runs_total success": 0, "runs_total failed": 0, "runs_total lost": 0},
        [0, 0, 0],
    )
    by_path("start")
    clock.advance(seconds=90)
    ended = clock.now_ms / 1000
    by_path("end")
    found = read(admin, job="backup")
    assert (found["last_success_timestamp_seconds"], found["last_duration_seconds"]) == (ended, 90)
    clock.advance(minutes=10)
    by_path("end", status="fail", duration_ms=1500)
    found = read(admin, job="backup")
    assert (found["last_success_timestamp_seconds"], found["last_duration_seconds"]) == (ended, 1.5)
    assert (found["up"], found["overdue"], counts(admin)) == (0, 0, [1, 1, 0])
    by_path("ping")
    assert (read(admin, job="backup")["up"], counts(admin)) == (1, [2, 1, 0])
    clock.advance(hours=2)
    sweep()
    assert (read(admin, job="backup")["up"], read(admin, job="backup")["overdue"]) == (0, 1)
    admin.patch(f"{JOBS}/backup", json={"paused": True})
    assert (read(admin, job="backup")["up"], read(admin, job="backup")["overdue"]) == (1, 0)


def test_lost_runs_are_counted_however_they_were_lost(
    by_path: Sender, admin: KeyClient, clock: Clock, sweep: Sweep
) -> None:
    by_path("start")
    by_path("start")  # the first one will not report
    assert counts(admin) == [0, 0, 1]
    for number in range(2):
        by_path("start", run_id=f"r{number}")
    clock.advance(days=8)
    sweep()
    assert counts(admin) == [0, 0, 4]
    by_path("end", run_id="r1")  # reports after all
    assert counts(admin) == [1, 0, 4]


def test_counters_stay_when_runs_expire(app: Flask, by_path: Sender, admin: KeyClient, clock: Clock) -> None:
    for status in ("ok", "ok", "fail"):
        by_path("end", status=status, duration_ms=2000)
    before = read(admin, job="backup")
    clock.advance(days=100)
    by_path("log", message="still there")
    services(app).background.tasks["purge"].run()
    assert admin.get(f"{JOBS}/backup/runs").json["runs"] == []
    assert read(admin, job="backup") == before
    assert counts(admin) == [2, 1, 0]


def test_labels_say_where_a_job_ran_and_are_escaped(by_path: Sender, admin: KeyClient) -> None:
    name = 'a "quoted" \\n back\\slash {x="y"} ä'
    by_path("ping", name, headers={"X-Platform-Host": "nas"})
    admin.patch(f"{JOBS}/{name}", json={"service": "two\nlines", "project": 'p"'})
    (family,) = (one for one in text_string_to_metric_families(admin.get(METRICS).text) if one.name == "obs_job_up")
    assert [sample.labels for sample in family.samples] == [
        {"job": name, "host": "nas", "service": "two\nlines", "project": 'p"'}
    ]


def test_only_own_jobs_and_only_with_the_scope(
    app: Flask, by_path: Sender, client: KeyClient, other_client: KeyClient, new_client: Callable[..., KeyClient]
) -> None:
    by_path("ping")
    assert read(other_client, job="backup") == {}
    assert new_client("acme", "heartbeat:write").get(METRICS).status_code == 403
    anyone = app.test_client()
    assert anyone.get(METRICS).status_code == 401
    assert anyone.get(METRICS, headers={"Authorization": f"Bearer {client.key}"}).status_code == 200


def test_ten_thousand_jobs_take_well_under_a_second(app: Flask, admin: KeyClient) -> None:
    def add(db: Any) -> None:
        db.executemany(
            "INSERT INTO jobs (name, created_at, last_heartbeat_at, last_event_id, success_count, last_success_at)"
            " VALUES (?, 0, 0, 0, 5, 1000)",
            [(f"job {number}",) for number in range(10_000)],
        )

    services(app).tenancy.databases.write(ACME, add)
    admin.get(METRICS)
    started = time.process_time()
    text = admin.get(METRICS).text
    seconds = time.process_time() - started
    assert text.count("\nobs_job_runs_total{") == 30_000
    assert seconds < 1


def test_an_upgrade_counts_the_stored_runs(tmp_path: Path) -> None:
    database = Database(tmp_path / "acme.db")
    migrations.tenant.migrations.apply(database, stop_before="outcomes_counted_by_job")
    database.execute(
        "INSERT INTO jobs (id, name, created_at, last_heartbeat_at, last_event_id) VALUES (1, 'x', 0, 0, 0)"
    )
    runs = [(1, 100, 7), (1, 200, None), (2, 300, 9), (3, 400, None), (0, 500, None)]
    for status, started_at, duration_ms in runs:
        database.execute(
            "INSERT INTO runs (job_id, status, started_at, duration_ms, heartbeat_at) VALUES (1, ?, ?, ?, 0)",
            (status, started_at, duration_ms),
        )
    migrations.tenant.migrations.apply(database)
    columns = "success_count, failed_count, lost_count, last_success_at, last_duration_ms"
    assert database.execute(f"SELECT {columns} FROM jobs").fetchone() == (2, 1, 1, 200, 9)
    database.close()


def yaml_blocks() -> list[str]:
    """The scrape configuration and the rules of the page."""
    return re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.S)


def promtool(*arguments: str | Path, text: str = "") -> str:
    done = subprocess.run(["promtool", *arguments], input=text, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.prometheus
def test_promtool_has_no_complaint_about_the_metrics(by_path: Sender, admin: KeyClient) -> None:
    by_path("ping", 'quo"te', headers={"X-Platform-Host": "nas"})
    by_path("end", duration_ms=1500)
    assert promtool("check", "metrics", text=admin.get(METRICS).text) == ""


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    path = tmp_path / "rules.yml"
    path.write_text(yaml_blocks()[1])
    return path


@pytest.mark.prometheus
def test_promtool_has_no_complaint_about_the_page(tmp_path: Path, rules: Path) -> None:
    config = tmp_path / "prometheus.yml"
    key = tmp_path / "obs.key"
    key.write_text("a key")
    config.write_text(f"rule_files: [{rules}]\n" + yaml_blocks()[0].replace("/etc/prometheus/obs.key", str(key)))
    assert "SUCCESS: 5 rules found" in promtool("check", "rules", rules)
    assert "SUCCESS" in promtool("check", "config", config)


@pytest.fixture
def alertmanager() -> Iterator[tuple[int, "queue.Queue[Any]"]]:
    """A receiver of alerts: its port, and the alerts that Prometheus sends."""
    received: queue.Queue[Any] = queue.Queue()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            for alert in json.loads(self.rfile.read(int(self.headers["Content-Length"]))):
                received.put(alert)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    with serving(server):
        yield server.server_port, received


@pytest.mark.prometheus
def test_prometheus_scrapes_and_an_alert_of_the_page_fires(
    address: str,
    admin: KeyClient,
    clock: Clock,
    sweep: Sweep,
    tmp_path: Path,
    rules: Path,
    alertmanager: tuple[int, "queue.Queue[Any]"],
) -> None:
    admin.put(f"{JOBS}/backup", json={"pin": {"interval_seconds": 3600}, "host": "nas"})
    clock.advance(hours=2)
    sweep()
    port, received = alertmanager
    key, config = tmp_path / "obs.key", tmp_path / "prometheus.yml"
    key.write_text(str(admin.key))
    scrape = yaml_blocks()[0].replace("/etc/prometheus/obs.key", str(key)).replace("scrape_interval: 30s", "")
    config.write_text(
        "global: {scrape_interval: 1s, evaluation_interval: 1s}\n"
        f"rule_files: [{rules}]\n"
        f"alerting: {{alertmanagers: [{{static_configs: [{{targets: ['127.0.0.1:{port}']}}]}}]}}\n"
        + scrape.replace("127.0.0.1:8080", address.removeprefix("http://"))
    )
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={config}",
                f"--storage.tsdb.path={tmp_path / 'data'}",
                f"--web.listen-address=127.0.0.1:{free_port()}",
            ],
            stdout=log,
            stderr=log,
            env={"PATH": os.environ["PATH"]},
        )
    try:
        alert = received.get(timeout=60)
    except queue.Empty:
        raise AssertionError((tmp_path / "log").read_text()[-3000:]) from None
    finally:
        process.kill()
        process.wait()
    assert alert["labels"] == {"alertname": "JobOverdue", "job": "backup", "host": "nas", "severity": "critical"} | {
        "instance": address.removeprefix("http://")
    }
    assert alert["annotations"] == {"summary": "backup is overdue"}
