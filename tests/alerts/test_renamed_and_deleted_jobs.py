"""The annotation that shows an incident follows its job when the job is renamed or deleted."""

from typing import Any

import pytest

from tests.alerts.conftest import Job
from tests.conftest import KeyClient


def bands(client: KeyClient) -> list[tuple[str, str, str | None]]:
    """Name, title and end of all annotations, newest first."""
    found: list[dict[str, Any]] = client.get("/api/v1/annotations").json["annotations"]
    return [(one["name"], one["title"], one["end_time"]) for one in found]


def test_deleting_a_failing_job_ends_its_annotation(job: Job, admin: KeyClient) -> None:
    job.end("fail")
    job.client.post("/api/v1/heartbeat/other/end?status=fail")
    job.sweep()
    assert {end for _, _, end in bands(job.client)} == {None}
    job.clock.advance(minutes=5)
    assert admin.delete("/api/v1/jobs/backup").status_code == 204
    job.sweep()
    assert sorted(bands(job.client)) == [
        ("incident/backup", "backup failing", "2026-06-21T19:05:00.000Z"),
        ("incident/other", "other failing", None),
    ]


@pytest.mark.parametrize("name", ["nas/backup", "b"])
def test_renaming_a_job_renames_the_annotations_of_its_incidents(job: Job, admin: KeyClient, name: str) -> None:
    job.end("fail")
    job.end("ok")
    job.go_silent()
    assert admin.patch("/api/v1/jobs/backup", json={"name": name}).status_code == 200
    assert [(one[0], one[1]) for one in bands(job.client)] == [
        (f"incident/{name}", f"{name} overdue"),
        (f"incident/{name}", f"{name} failing"),
    ]
    job.sweep()
    assert len(bands(job.client)) == 2
    assert len(job.incidents()) == 2


def test_a_job_that_is_named_in_another_unicode_form_is_followed_too(job: Job, admin: KeyClient) -> None:
    job.client.post("/api/v1/heartbeat/end?status=fail", json={"name": "\u00fcber", "status": "fail"})
    job.sweep()
    assert admin.patch("/api/v1/jobs/u\u0308ber", json={"name": "after"}).status_code == 200
    assert bands(job.client)[0][0] == "incident/after"
