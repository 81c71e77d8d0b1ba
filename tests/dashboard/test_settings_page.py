"""The settings page: limits and usage of an organization."""

import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

from flask import Flask

from obs.services import services
from obs.tenancy import service
from tests.conftest import ACME, Clock, KeyClient
from tests.dashboard.conftest import Visitor


def used(visitor: Visitor) -> dict[str, list[str]]:
    """By the name of each limit: the limit, what is used, and the share where there is one."""
    table = visitor.get("/settings").text.partition('id="limits"')[2].partition("</table>")[0]
    rows = re.findall(r'<th scope="row">([^<]*)</th>(.*?)</tr>', table, flags=re.DOTALL)
    return {name: re.findall(r"<(?:td|small)[^>]*>([^<\n]+)<", cells) for name, cells in rows}


def test_limits_are_shown_with_their_usage(reader: Visitor, client: KeyClient, clock: Clock) -> None:
    for name in ("alpha", "beta", "beta"):
        client.post(f"/api/v1/heartbeat/{name}/ping")
    client.post("/api/v1/annotations", json={"name": "deploy/web", "title": "out"})
    clock.advance(days=9)
    client.post("/api/v1/heartbeat/beta/ping")
    for _ in range(3):
        reader.get(f"/query?q={quote('SELECT count(*) FROM runs LAST 1d')}")
    found = used(reader)
    assert found["Queries per minute"] == ["120", "3 in this minute", "2 %"]
    assert found["Rows per result"] == ["10,000", "per query"]
    assert found["Run retention"] == ["90 days", "4 runs, oldest 9 d ago", "10 %"]
    assert found["Annotation retention"] == ["90 days", "per annotation"]
    assert found["Jobs"] == ["10,000", "2", "0 %"]
    assert found["Annotations"] == ["100,000", "1", "0 %"]
    assert found["Heartbeats per minute"] == ["60,000", "1 in this minute", "0 %"]
    assert found["Storage"][0] == "10.0 GiB"
    assert re.fullmatch(r"\d+(\.\d)? KiB, .* free on the disk", found["Storage"][1])


def test_the_usage_of_another_organization_is_not_counted(
    stranger: Visitor, reader: Visitor, client: KeyClient
) -> None:
    client.post("/api/v1/heartbeat/alpha/ping")
    reader.get(f"/query?q={quote('SELECT count(*) FROM runs LAST 1d')}")
    found = used(stranger)
    assert found["Queries per minute"][1] == "0 in this minute"
    assert found["Run retention"][1] == "0 runs"


def test_read_only_access_shows_only_the_key_of_the_session(
    app: Flask, admin: Visitor, reader: Visitor, new_client: Callable[..., KeyClient]
) -> None:
    tenancy = services(app).tenancy
    other = service.create_key(tenancy, ACME, "secret project", ("query:read",))
    service.revoke_key(tenancy, ACME, service.create_key(tenancy, ACME, "revoked").id)
    shown = admin.get("/settings").text
    assert "secret project" in shown
    assert "1 revoked key" in shown
    shown = reader.get("/settings").text
    assert "Your key" in shown
    assert shown.count('<th scope="row">test</th>') == 1
    assert "secret project" not in shown
    assert "revoked key" not in shown
    same = Visitor(app)
    same.sign_in(other.key)
    assert "secret project" in same.get("/settings").text


def test_a_start_deletes_what_an_interrupted_backup_left(make_app: Callable[..., Flask], admin: Visitor) -> None:
    instance = Path(make_app().instance_path)
    before = {path.name for path in instance.iterdir()}
    for place in (instance / ".backup-x1y2", instance / "keep"):
        place.mkdir()
        (place / "copy.db").write_bytes(b"data")
    admin.get("/settings/backup", buffered=True)
    make_app()
    assert {path.name for path in instance.iterdir()} == before | {"keep"}


def test_an_organization_downloads_one_backup_at_a_time(admin: Visitor, app: Flask) -> None:
    """A client that does not read what it asked for keeps a thread of the server, which heartbeats need too."""
    first = admin.client.get("/settings/backup", buffered=False)
    assert first.status_code == 200
    refused = admin.get("/settings/backup")
    assert (refused.status_code, "Another backup is being downloaded." in refused.text) == (429, True)
    first.close()
    assert admin.client.get("/settings/backup", buffered=True).status_code == 200
