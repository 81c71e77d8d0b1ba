"""Limits of queries, set on the command line."""

from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskCliRunner

from obs.cli import main
from obs.services import services


@pytest.fixture
def run(app: Flask, runner: FlaskCliRunner) -> Any:
    """Runs a command on the instance of the application, checks its exit code, and returns its output."""

    def run_command(*arguments: str, exit_code: int = 0) -> str:
        result = runner.invoke(main, [*arguments, "--instance", app.instance_path])
        assert result.exit_code == exit_code, result.output
        return str(result.output)

    return run_command


def test_a_limit_of_one_organization(run: Any, app: Flask, client: Any, other_client: Any) -> None:
    notice = services(app).background.tasks["quotas and disk space"].run
    statement = {"query": "SELECT count(*) FROM runs EVERY 1h LAST 1d"}
    run("org", "set-limit", "acme", "query_max_rows", "23")
    notice()
    refused = client.post("/api/v1/dsl", json=statement)
    assert (refused.status_code, refused.json["max"], refused.json["actual"]) == (422, 23, 24)
    assert other_client.post("/api/v1/dsl", json=statement).status_code == 200
    run("org", "set-limit", "acme", "query_max_rows", "--default")
    notice()
    assert client.post("/api/v1/dsl", json=statement).status_code == 200


def test_a_limit_that_cannot_be_set(run: Any, client: Any) -> None:
    run("org", "set-limit", "nobody", "query_max_rows", "5", exit_code=1)
    run("org", "set-limit", "acme", "query_max_rows", exit_code=2)
    run("org", "set-limit", "acme", "query_max_rows", "0", exit_code=2)
    run("org", "set-limit", "acme", "query_max_flavours", "5", exit_code=2)
