"""``obs demo``: an organization with sample data."""

from pathlib import Path

import pytest
from click.testing import CliRunner
from flask import Flask

from obs import demo
from obs.cli import main
from tests.dashboard.conftest import Visitor


def test_it_fills_an_organization_once_and_signs_in(
    app: Flask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "DAYS", 10)  # at least one run on each day of the week, so that any silence is overdue
    (tmp_path / "instance" / "tenants" / "demo.0.db").write_text("left by a call that was interrupted")
    runner, command = CliRunner(), ["demo", "--instance", str(tmp_path / "instance")]
    first = runner.invoke(main, command)
    assert first.exit_code == 0, first.output
    visitor = Visitor(app)
    assert visitor.use_link(first.stdout.strip().rpartition("/")[2]).status_code == 302
    text = visitor.get("/").text
    for name in ("db/backup", "shop/heartbeat", "home/photos"):
        assert name in text
    assert "Shop 4.0 released" in visitor.get("/annotations").text
    past = visitor.get("/incidents").text
    assert "home/photos" in past
    assert "home/dyndns" in past
    again = runner.invoke(main, command)
    assert again.exit_code == 1
    assert "The organization 'demo' already exists." in again.output


def test_the_story_is_in_the_order_of_time_and_ends_now() -> None:
    now_ms = 1_790_000_000_000
    times = [beat.time for _, (_, beat) in zip(range(20_000), demo.heartbeats(now_ms), strict=False)]
    assert times == sorted(times)
    assert times[0] > now_ms - 90 * 86_400_000
