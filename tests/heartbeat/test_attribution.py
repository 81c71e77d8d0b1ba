"""The X-Platform headers: the job keeps the latest of each, every run its own."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.conftest import KeyClient
from tests.heartbeat.conftest import Sender

Rows = Callable[..., list[dict[str, Any]]]
RunOf = Callable[..., dict[str, Any]]
HOST, SERVICE, PROJECT = "X-Platform-Host", "X-Platform-Service", "X-Platform-Project"


def _sent(thing: dict[str, Any]) -> tuple[str | None, str | None, str | None]:
    return thing["host"], thing["service"], thing["project"]


def _job(client: KeyClient) -> tuple[str | None, str | None, str | None]:
    found = client.get("/api/v1/jobs/backup").json
    assert isinstance(found, dict)
    return _sent(found)


@pytest.mark.parametrize("kind", ["start", "log", "end", "ping"])
def test_the_headers_go_with_any_call(send: Sender, client: KeyClient, rows: Rows, kind: str) -> None:
    assert send(kind, headers={HOST: "web-1", SERVICE: "shop", PROJECT: "store"}, message="m").status_code == 200
    assert _job(client) == ("web-1", "shop", "store")
    assert rows("SELECT host, service, project FROM events JOIN attributions a ON a.id = attribution_id") == [
        {"host": "web-1", "service": "shop", "project": "store"}
    ]


def test_without_headers_a_job_stands_alone(send: Sender, run_of: RunOf, client: KeyClient) -> None:
    assert _sent(run_of(send("ping"))) == _job(client) == (None, None, None)


def test_the_job_keeps_the_latest_of_each_and_every_run_its_own(send: Sender, run_of: RunOf, client: KeyClient) -> None:
    first = send("ping", headers={HOST: "web-1", SERVICE: "shop"})
    second = send("ping", headers={HOST: "web-2", PROJECT: "store"})
    assert _job(client) == ("web-2", "shop", "store")
    assert _sent(run_of(first)) == ("web-1", "shop", None)
    assert _sent(run_of(second)) == ("web-2", None, "store")


def test_a_heartbeat_that_arrives_late_does_not_move_the_job_back(
    send: Sender, run_of: RunOf, client: KeyClient
) -> None:
    first = send("end", headers={HOST: "web-0"}, time="2026-06-20T08:00:00Z")
    assert _job(client) == ("web-0", None, None)
    send("ping", headers={HOST: "web-2"})
    late = send("end", headers={HOST: "web-1"}, time="2026-06-20T09:00:00Z")
    assert _job(client) == ("web-2", None, None)
    assert [_sent(run_of(one))[0] for one in (first, late)] == ["web-0", "web-1"]


def test_a_header_left_out_changes_nothing(send: Sender, run_of: RunOf, client: KeyClient) -> None:
    started = send("start", headers={HOST: "web-1"})
    send("log", message="m", headers={SERVICE: "shop"})
    send("end")
    assert _sent(run_of(started)) == _job(client) == ("web-1", "shop", None)


def test_an_empty_header_counts_as_left_out(send: Sender, client: KeyClient) -> None:
    send("ping", headers={HOST: "web-1"})
    send("ping", headers={HOST: ""})
    assert _job(client) == ("web-1", None, None)


def test_a_run_keeps_what_the_next_one_changes(send: Sender, run_of: RunOf) -> None:
    lost = send("start", headers={HOST: "web-1"})
    send("start", headers={HOST: "web-2"})
    assert _sent(run_of(lost)) == ("web-1", None, None)


def test_at_most_200_characters(send: Sender, client: KeyClient, rows: Rows) -> None:
    assert send("ping", headers={HOST: "h" * 200}).status_code == 200
    answer = send("ping", headers={HOST: "h" * 201})
    assert answer.status_code == 422
    assert HOST in answer.json["errors"]["headers"]
    assert len(rows("SELECT id FROM events")) == 1


def test_headers_are_utf8(send: Sender, client: KeyClient) -> None:
    send("ping", headers={HOST: "münchen-😀".encode().decode("latin-1")})
    assert _job(client)[0] == "münchen-😀"
    assert send("ping", headers={HOST: ("ü" * 200).encode().decode("latin-1")}).status_code == 200


def test_the_same_values_are_kept_once(send: Sender, rows: Rows) -> None:
    for host in ("web-1", "web-2", "web-1"):
        send("ping", headers={HOST: host})
    assert len(rows("SELECT id FROM attributions")) == 2
