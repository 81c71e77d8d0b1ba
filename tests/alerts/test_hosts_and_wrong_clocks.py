"""The wall clock of the server is wrong: what was overdue stays one incident, of the job or of one of its hosts."""

import pytest

from tests.alerts.machine import Server


class Hosts:
    """A job ``sync`` that two hosts report at the same times, or one."""

    def __init__(self, server: Server, hosts: list[str], every_hours: int) -> None:
        self.server, self.hosts, self.every_hours = server, hosts, every_hours
        for _ in range(30):
            self.report(*hosts)

    def report(self, *hosts: str) -> None:
        self.server.pass_time(hours=self.every_hours)
        for host in hosts:
            sent = self.server.client.post("/api/v1/heartbeat/sync/ping", headers={"X-Platform-Host": host})
            assert sent.status_code == 200
        self.server.sweep()

    def incidents(self) -> list[tuple[str, str | None]]:
        found = self.server.client.get("/api/v1/incidents?job=sync").json["incidents"]
        return [(one["subject"], one["ended_at"]) for one in found]


@pytest.mark.slow
@pytest.mark.parametrize("hours", [-72, -6, 6, 72])
@pytest.mark.parametrize("every_hours", [1, 12])
@pytest.mark.parametrize("hosts", [["nas02"], ["nas01", "nas02"]], ids=["job", "host"])
def test_what_was_overdue_before_the_clock_was_set_has_one_incident(
    server: Server, hosts: list[str], every_hours: int, hours: int
) -> None:
    sync = Hosts(server, hosts, every_hours)
    silent = [("sync" if hosts == ["nas02"] else "sync on nas02", None)]
    for _ in range(3):
        sync.report(*hosts[:-1])
    assert sync.incidents() == silent
    for now_wrong in (hours, 0):
        server.set_clock(hours=now_wrong)
        assert sync.incidents() == silent
        for _ in range(3):
            sync.report(*hosts[:-1])
            assert sync.incidents() == silent
    sync.report(*hosts)
    assert [ended_at is None for _, ended_at in sync.incidents()] == [False]


@pytest.mark.parametrize("hours", [-72, -6, 6, 72])
def test_a_host_that_dies_while_the_clock_is_wrong_is_reported_when_it_is_right(server: Server, hours: int) -> None:
    sync = Hosts(server, ["nas01", "nas02"], 1)
    server.set_clock(hours=hours)
    sync.report("nas01", "nas02")
    sync.report("nas01")
    server.set_clock()
    for _ in range(3):
        sync.report("nas01")
    assert sync.incidents() == [("sync on nas02", None)]


@pytest.mark.slow
@pytest.mark.parametrize("hours", [-72, -6, 6, 72])
@pytest.mark.parametrize("every_hours", [1, 12])
def test_hosts_that_go_on_while_the_clock_is_wrong_have_no_incident(
    server: Server, every_hours: int, hours: int
) -> None:
    sync = Hosts(server, ["nas01", "nas02"], every_hours)
    for now_wrong in (hours, 0):
        server.set_clock(hours=now_wrong)
        for _ in range(3):
            sync.report("nas01", "nas02")
    assert sync.incidents() == []
