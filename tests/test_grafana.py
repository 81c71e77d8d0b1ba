"""The dashboard for Grafana: obs answers each of its queries, with the columns that it names."""

import csv
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from obs.services import services
from obs.times import format_ms
from tests.conftest import Clock, KeyClient

FOLDER = Path(__file__).parent.parent / "deploy" / "grafana"
DASHBOARD: dict[str, Any] = json.loads((FOLDER / "dashboard.json").read_text())
SOURCE = {"type": "yesoreyeram-infinity-datasource", "uid": "obs"}


def targets() -> Iterator[Any]:
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            yield pytest.param(target, id=f"{panel['id']} {panel['title']}")
    for annotation in DASHBOARD["annotations"]["list"]:
        yield pytest.param(annotation["target"], id=annotation["name"])


@pytest.fixture
def reader(client: KeyClient, new_client: Callable[..., KeyClient], clock: Clock) -> KeyClient:
    """A client with the key that the page says to create, of an organization with something to show."""
    new_client("acme", "admin").put("/api/v1/jobs/late", json={"pin": {"interval_seconds": 60}})
    for status in ("ok", "fail"):
        client.post(f"/api/v1/heartbeat/backup/end?status={status}&duration_ms=1500&exit_code=1")
    client.post("/api/v1/annotations", json={"name": "deploy/web", "title": "web 4.2"})
    clock.advance(hours=1)
    return new_client("acme", "query:read")


def ask(reader: KeyClient, target: dict[str, Any], clock: Clock) -> list[dict[str, str]]:
    """What the plugin does with a query after Grafana has replaced its variables."""
    options = target["url_options"]
    assert (target["source"], target["parser"], options["body_type"], options["params"]) == (
        "url",
        "backend",
        "raw",
        [],
    )
    body = options["data"].replace("${__from:date:iso}", format_ms(clock.now_ms - 86_400_000))
    body = body.replace("${__to:date:iso}", format_ms(clock.now_ms))
    assert "${" not in body
    headers = {header["key"]: header["value"] for header in options["headers"]}
    answer = reader.open(
        target["url"], method=options["method"], data=body, content_type=options["body_content_type"], headers=headers
    )
    assert (answer.status_code, answer.mimetype) == (200, "text/csv"), answer.text
    return list(csv.DictReader(io.StringIO(answer.text)))


@pytest.mark.parametrize("target", list(targets()))
def test_each_query_has_rows_with_the_named_columns(reader: KeyClient, clock: Clock, target: dict[str, Any]) -> None:
    assert (target["datasource"], target["type"]) == (SOURCE, "csv")
    rows = ask(reader, target, clock)
    if "FROM incidents" not in target["url_options"]["data"]:
        assert rows
    for row in rows:
        assert list(row) == [column["selector"] for column in target["columns"]]
        for column in target["columns"]:
            value = row[column["selector"]]
            if value and column["type"] == "timestamp":
                assert value.endswith("Z")
                assert value[10] == "T"
            elif value and column["type"] == "number":
                float(value)


def test_what_began_before_the_range_and_lasts_is_marked(app: Flask, client: KeyClient, clock: Clock) -> None:
    band = {
        "name": "move",
        "title": "new disks",
        "start_time": "2026-06-21T09:00:00Z",
        "end_time": "2026-06-23T10:00:00Z",
    }
    assert client.post("/api/v1/annotations", json=band).status_code == 201
    assert client.post("/api/v1/annotations", json={"name": "deploy", "title": "1.2"}).status_code == 201
    assert client.post("/api/v1/heartbeat/backup/end?status=fail").status_code == 200
    services(app).background.tasks["sweep"].run()
    clock.advance(hours=36)
    found = {one["name"]: ask(client, one["target"], clock) for one in DASHBOARD["annotations"]["list"]}
    assert {name: [(row["title"], row["time"], row["timeEnd"]) for row in rows] for name, rows in found.items()} == {
        "Annotations": [("new disks", "2026-06-21T09:00:00.000Z", "2026-06-23T10:00:00.000Z")],
        "Incidents": [("backup", "2026-06-21T10:00:00.000Z", "2026-06-22T22:00:00.000Z")],
    }


def test_what_the_first_panels_show(reader: KeyClient, clock: Clock) -> None:
    shown = [ask(reader, panel["targets"][0], clock)[0] for panel in DASHBOARD["panels"][:4]]
    assert shown == [{"jobs": "2"}, {"jobs": "2"}, {"runs": "1"}, {"runs": "2"}]


def test_panels_do_not_overlap_and_have_their_own_ids() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {(x + place["x"], y + place["y"]) for x in range(place["w"]) for y in range(place["h"])}
        assert not taken & cells
        assert place["x"] + place["w"] <= 24
        taken |= cells
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


def test_the_source_is_the_one_that_the_dashboard_names() -> None:
    provisioned = (FOLDER / "datasource.yaml").read_text()
    assert f"uid: {SOURCE['uid']}\n" in provisioned
    assert f"type: {SOURCE['type']}\n" in provisioned
