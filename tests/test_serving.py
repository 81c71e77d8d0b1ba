"""``obs serve`` as users run it: a process that listens on a port and is stopped by signals."""

import contextlib
import http.client
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.server import OBS, PATIENCE_SECONDS, Server, free_port, is_taken, wait_a_moment


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Start servers, on one instance unless another is named; all are killed after the test."""
    started: list[Server] = []

    def start(port: int | None = None, instance: str = "instance") -> Server:
        started.append(Server(tmp_path / instance, port))
        return started[-1]

    yield start
    for server in started:
        server.process.kill()
        server.process.wait()


@pytest.mark.curl
def test_the_first_start_prints_a_working_key_link_and_curl_command(serve: Callable[..., Server]) -> None:
    server = serve().wait_until_ready()
    printed = server.printed()
    address = f"http://127.0.0.1:{server.port}"
    assert f"obs listens at {address}" in printed
    (line,) = (line.strip() for line in printed.splitlines() if line.strip().startswith("curl "))
    sent = subprocess.run([*shlex.split(line), "-s"], capture_output=True, check=True)
    assert json.loads(sent.stdout)["job"] == "my-first-job"
    (link,) = (line.strip() for line in printed.splitlines() if "/sign-in/" in line)
    assert link.startswith(address)
    path = link.removeprefix(address)
    assert server.ask("GET", path).status == 200
    assert b"Sign in to default" in server.ask("GET", path).body

    assert server.stop()[0] == 0
    again = serve().wait_until_ready()
    second = again.printed()
    assert f"http://127.0.0.1:{again.port}" in second
    assert "obs_default_" not in second
    assert "/sign-in/" not in second
    assert again.ask("GET", "/api/v1/jobs/my-first-job", headers={"X-API-Key": server.key()}).status == 200


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_server_after_accepted_requests(
    serve: Callable[..., Server], number: signal.Signals
) -> None:
    server = serve().wait_until_ready()
    key = server.key()
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_SECONDS) as half:
        half.sendall(
            b"POST /api/v1/heartbeat/backup/log HTTP/1.1\r\nHost: x\r\nX-API-Key: "
            + key.encode()
            + b"\r\nContent-Length: 10\r\n\r\nhello"
        )
        assert server.ask("GET", "/healthz").status == 200  # the incomplete request was accepted before this one
        server.process.send_signal(number)
        wait_a_moment()
        half.sendall(b"world")
        assert half.recv(1_000).startswith(b"HTTP/1.1 200")
    begun = time.monotonic()
    assert server.process.wait(PATIENCE_SECONDS) == 0, server.printed()
    assert time.monotonic() - begun < 5
    assert "Traceback" not in server.printed()
    assert not is_taken(server.port)


def test_open_connections_do_not_delay_stopping(serve: Callable[..., Server]) -> None:
    server = serve().wait_until_ready()
    with contextlib.closing(server.connect()) as idle:
        idle.request("GET", "/healthz")
        idle.getresponse().read()
        code, seconds = server.stop()
    assert code == 0
    assert seconds < 5


def test_stopping_stores_when_keys_were_last_used(serve: Callable[..., Server], tmp_path: Path) -> None:
    server = serve().wait_until_ready()
    server.ask("POST", "/api/v1/heartbeat/backup/ping", headers={"X-API-Key": server.key()})
    server.stop()
    listed = subprocess.run(
        [*OBS, "key", "list", "default", "--instance", str(tmp_path / "instance")],
        capture_output=True,
        check=True,
        text=True,
    )
    assert "never used" not in listed.stdout


def test_the_worker_stops_with_its_parent(serve: Callable[..., Server]) -> None:
    server = serve().wait_until_ready()
    server.process.kill()
    server.process.wait()
    deadline = time.monotonic() + 10
    while is_taken(server.port):
        assert time.monotonic() < deadline, "the address is still taken"
        wait_a_moment()


def worker_of(server: Server) -> int:
    """The process id of the worker."""
    pid = server.process.pid
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


def wait_for_line(server: Server, text: str, times: int = 1) -> None:
    """Wait until the server has printed `text` so many times."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while server.printed().count(text) < times:
        assert time.monotonic() < deadline, server.printed()
        wait_a_moment()


def ping(server: Server) -> int:
    return server.ask("POST", "/api/v1/heartbeat/a/ping", headers={"X-API-Key": server.key()}).status


def _states_of_children(pid: int) -> list[str]:
    """The states of the child processes, such as S, or Z for one that has ended and was not waited for. On Linux."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0] for child in children]


def test_the_address_is_printed_when_requests_are_answered(serve: Callable[..., Server]) -> None:
    server = serve()
    wait_for_line(server, "obs listens at")
    assert server.ask("GET", "/readyz").status == 200


def test_a_closed_standard_output_does_not_stop_requests(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    port = free_port()
    command = [*OBS, "serve", "--instance", str(tmp_path / "instance"), "--port", str(port)]
    with (
        subprocess.Popen(command, stdout=writing, stderr=subprocess.DEVNULL) as process,
        contextlib.ExitStack() as at_end,
    ):
        at_end.callback(process.kill)
        os.close(writing)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not is_taken(port):
            assert time.monotonic() < deadline
            wait_a_moment()
        statuses = []
        for _ in range(2):  # the first may be the one that prints
            with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)) as client:
                client.request("GET", "/healthz")
                statuses.append(client.getresponse().status)
        assert statuses[1] == 200
        process.terminate()
        assert process.wait(PATIENCE_SECONDS) == 0


@pytest.mark.slow
def test_ten_deaths_of_the_worker_in_a_row(serve: Callable[..., Server]) -> None:
    server = serve().wait_until_ready()
    for death in range(1, 11):
        os.kill(worker_of(server), signal.SIGKILL)
        wait_for_line(server, "ended unexpectedly (SIGKILL); the next one starts in 0 s", death)
        assert ping(server) == 200  # it waits in the socket's queue for the next worker
    assert server.process.poll() is None


@pytest.mark.slow
def test_a_worker_that_cannot_start_is_tried_again_after_growing_pauses(
    serve: Callable[..., Server], tmp_path: Path
) -> None:
    server = serve().wait_until_ready()
    settings = tmp_path / "instance" / "config.toml"
    settings.write_text("query_max_rows = 'many'")
    os.kill(worker_of(server), signal.SIGKILL)
    wait_for_line(server, "before it answered a request (exit code 3); the next one starts in 1 s")
    wait_for_line(server, "before it answered a request (exit code 3); the next one starts in 2 s")
    assert server.printed().count("Error: query_max_rows in ") == 2
    settings.unlink()
    assert ping(server) == 200


@pytest.mark.slow
def test_sighup_starts_the_installed_version_with_its_settings(serve: Callable[..., Server], tmp_path: Path) -> None:
    server = serve().wait_until_ready()
    (tmp_path / "instance" / "config.toml").write_text("base_url = 'https://obs.example.org'")
    for times in (1, 2):
        server.process.send_signal(signal.SIGHUP)
        wait_for_line(server, "obs listens at https://obs.example.org", times)
        assert ping(server) == 200
    if sys.platform == "linux":
        deadline = time.monotonic() + PATIENCE_SECONDS
        while "Z" in _states_of_children(server.process.pid):
            assert time.monotonic() < deadline, "the workers that were replaced are still there"
            wait_a_moment()
    code, seconds = server.stop()
    assert code == 0, server.printed()
    assert seconds < 5


def test_a_signal_to_stop_outweighs_sighup(serve: Callable[..., Server]) -> None:
    server = serve().wait_until_ready()
    for number in (signal.SIGSTOP, signal.SIGTERM, signal.SIGHUP, signal.SIGCONT):  # so that they arrive together
        server.process.send_signal(number)
    assert server.process.wait(PATIENCE_SECONDS) == 0, server.printed()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("setting", "problem"),
    [
        ("query_max_rows = 'many'", "query_max_rows"),
        ("ingest_url_template = 'nope'", "INGEST_URL_TEMPLATE"),
        ("trusted_proxies = 'nope'", "TRUSTED_PROXIES"),
        ("time_zones = 'Europe/Nowhere'", "TIME_ZONES"),
    ],
)
def test_sighup_changes_nothing_while_the_settings_are_invalid(
    serve: Callable[..., Server], tmp_path: Path, setting: str, problem: str
) -> None:
    server = serve().wait_until_ready()
    worker = worker_of(server)
    (tmp_path / "instance" / "config.toml").write_text(setting)
    server.process.send_signal(signal.SIGHUP)
    wait_for_line(server, f"SIGHUP is ignored: {problem}")
    assert worker_of(server) == worker
    assert ping(server) == 200


def test_sighup_changes_nothing_while_the_settings_are_unreadable(serve: Callable[..., Server], tmp_path: Path) -> None:
    server = serve().wait_until_ready()
    worker = worker_of(server)
    (tmp_path / "instance" / "config.toml").mkdir()
    server.process.send_signal(signal.SIGHUP)
    wait_for_line(server, "SIGHUP is ignored: [Errno ")
    assert worker_of(server) == worker
    assert ping(server) == 200


@pytest.mark.slow
def test_a_second_server_on_an_instance_is_refused(serve: Callable[..., Server]) -> None:
    server = serve().wait_until_ready()
    second = serve()
    assert second.process.wait(PATIENCE_SECONDS) == 1
    assert re.fullmatch(
        rf"Error: The instance \S+ is already served by process {server.process.pid} at"
        rf" http://127\.0\.0\.1:{server.port}, started at \S+ \S+ UTC\.\n",
        second.printed(),
    )
    assert ping(server) == 200


@pytest.mark.slow
@pytest.mark.parametrize("kill", [True, False])
def test_a_server_can_start_after_the_last_one_was_killed(serve: Callable[..., Server], kill: bool) -> None:
    first = serve().wait_until_ready()
    worker = worker_of(first)
    first.process.kill()
    if kill:
        os.kill(worker, signal.SIGKILL)
    else:
        assert Path(f"/proc/{worker}").exists()  # it still writes, so the next server waits for its end
    assert serve().wait_until_ready().ask("GET", "/readyz").status == 200


class Systemd:
    """What systemd does for a service with a socket: it holds the socket, and receives the reports of the service."""

    def __init__(self, folder: Path) -> None:
        self.instance, self.output = folder / "instance", folder / "output.txt"
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.reports = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.reports.bind(str(folder / "notify"))
        self.reports.settimeout(PATIENCE_SECONDS)

    def start(self) -> subprocess.Popen[bytes]:
        passing = (
            f"import os; os.dup2({self.listener.fileno()}, 3); os.environ['LISTEN_PID'] = str(os.getpid());"
            f" os.execv({sys.executable!r}, [{sys.executable!r}, '-m', 'obs', 'serve'])"
        )
        environment = {
            **os.environ,
            "OBS_INSTANCE": str(self.instance),
            "LISTEN_FDS": "1",
            "NOTIFY_SOCKET": str(self.reports.getsockname()),
        }
        with self.output.open("w") as output:
            command = [sys.executable, "-c", passing]
            return subprocess.Popen(command, pass_fds=[self.listener.fileno()], env=environment, stdout=output)

    def close(self) -> None:
        self.listener.close()
        self.reports.close()

    def wait_for(self, report: str) -> None:
        while not self.reports.recv(1_000).decode().startswith(report):
            pass


@pytest.mark.slow
def test_a_socket_of_systemd_outlives_the_service(tmp_path: Path) -> None:
    systemd = Systemd(tmp_path)
    port = systemd.listener.getsockname()[1]
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)
    process = systemd.start()
    with contextlib.closing(systemd), contextlib.closing(connection):
        try:
            systemd.wait_for("READY=1")
            systemd.wait_for("WATCHDOG=1")
            process.terminate()
            systemd.wait_for("STOPPING=1")
            assert process.wait(PATIENCE_SECONDS) == 0
            connection.request("GET", "/readyz")  # nobody accepts it yet
            process = systemd.start()
            assert connection.getresponse().status == 200
            assert f"http://127.0.0.1:{port}" in (tmp_path / "instance" / ".serve.lock").read_text()
            assert f"obs listens at http://127.0.0.1:{port}" in systemd.output.read_text()
        finally:
            process.kill()
            process.wait()


def test_the_host_can_be_a_name(tmp_path: Path, serve: Callable[..., Server]) -> None:
    (tmp_path / "instance").mkdir()
    (tmp_path / "instance" / "config.toml").write_text("host = 'localhost'")
    server = serve().wait_until_ready()
    assert f"obs listens at http://localhost:{server.port}" in server.printed()
    server.process.send_signal(signal.SIGHUP)
    wait_for_line(server, f"obs listens at http://localhost:{server.port}", 2)


def test_an_address_in_use_is_a_clear_error(serve: Callable[..., Server]) -> None:
    server = serve().wait_until_ready()
    second = serve(server.port, "other")
    assert second.process.wait(PATIENCE_SECONDS) == 1
    printed = second.printed()
    assert printed.startswith("Error: ")
    assert str(server.port) in printed
    assert "in use" in printed
    assert "Traceback" not in printed
    assert server.ask("GET", "/healthz").status == 200


@pytest.mark.parametrize(
    ("variable", "value", "problem"),
    [("OBS_PORT", "x", "OBS_PORT"), ("OBS_PORT", "70000", "OBS_PORT"), ("OBS_HOST", "no such host", "no such host")],
)
def test_an_invalid_setting_is_a_clear_error(tmp_path: Path, variable: str, value: str, problem: str) -> None:
    answer = subprocess.run(
        [*OBS, "serve", "--instance", str(tmp_path / "instance")],
        env={**os.environ, variable: value},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    assert answer.returncode == 1
    assert re.fullmatch(r"Error: [^\n]+\n", answer.stderr), answer.stderr
    assert problem in answer.stderr
