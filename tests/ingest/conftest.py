"""Fixtures: heartbeats in either form, and the rows that they leave."""

from tests.heartbeat.conftest import by_body, by_path, rows, run_of, send

__all__ = ["by_body", "by_path", "rows", "run_of", "send"]
