"""Thousands of jobs that fall silent together do not keep heartbeats waiting."""

import pytest
from flask import Flask

from obs.services import services
from tests.alerts.conftest import add_overdue_jobs
from tests.conftest import ACME, Clock, KeyClient

JOBS = 10_000
MOST_SHARE = 0.1  # of the processor time of all transactions together


@pytest.mark.slow
def test_no_transaction_is_long_when_many_jobs_become_overdue_or_report_again(
    app: Flask, client: KeyClient, clock: Clock, held: list[float]
) -> None:
    databases = services(app).tenancy.databases
    add_overdue_jobs(databases, JOBS, clock())
    held.clear()

    def count() -> int:
        with databases.read(ACME) as db:
            return int(db.execute("SELECT count(*) FROM incidents WHERE ended_at IS NULL").fetchone()[0])

    clock.advance(seconds=1)
    services(app).background.tasks["sweep"].run()
    assert count() == JOBS
    assert max(held) < MOST_SHARE * sum(held)
    databases.write(ACME, lambda db: db.execute("UPDATE jobs SET overdue_since = NULL, overdue_at = NULL"))
    held.clear()
    clock.advance(days=1)
    services(app).background.tasks["sweep"].run()
    services(app).background.sweeper.excuse_downtime()
    services(app).background.tasks["sweep"].run()
    assert count() == 0
    assert max(held) < MOST_SHARE * sum(held)
