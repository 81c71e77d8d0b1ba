"""``obs login``."""

import os
import pty
import stat
import subprocess
from collections.abc import Callable

from tests.client.conftest import REFUSING, RESPONSES, Machine
from tests.conftest import KeyClient


def login(machine: Machine, url: str, key: str) -> subprocess.CompletedProcess[bytes]:
    environment = {name: value for name, value in machine.environment.items() if not name.startswith("OBS_")}
    return subprocess.run(
        [*machine.program, "login", url], env=environment, input=f"{key}\n".encode(), capture_output=True
    )


def test_login_tests_the_key_and_stores_it_for_this_user_only(machine: Machine, client: KeyClient) -> None:
    done = login(machine, f"{machine.url}/", machine.key)
    stored = machine.home / ".config" / "obs.toml"
    assert done.returncode == 0, done.stderr
    assert b"organization acme" in done.stderr
    assert b"heartbeat:write" in done.stderr
    assert stat.S_IMODE(stored.stat().st_mode) == 0o600
    assert [path.name for path in stored.parent.iterdir()] == ["obs.toml"]
    machine.url = machine.key = ""
    assert machine.obs("ping", "photos").returncode == 0
    assert client.get("/api/v1/jobs/photos").json["run_count"] == 1


def test_the_key_is_not_shown_on_a_terminal(machine: Machine) -> None:
    controller, terminal = pty.openpty()
    process = machine.start("login", machine.url, stdin=terminal, stderr=terminal, start_new_session=True)
    assert os.read(controller, 100) == b"API key: "
    os.write(controller, f"{machine.key}\n".encode())
    assert process.wait(timeout=30) == 0
    shown = os.read(controller, 10_000)
    assert b"organization acme" in shown
    assert machine.key.encode() not in shown
    os.close(controller)
    os.close(terminal)


def test_login_says_what_is_wrong_and_keeps_what_is_stored(
    machine: Machine, bad_server: Callable[[bytes | None], str]
) -> None:
    login(machine, machine.url, machine.key)
    stored = (machine.home / ".config" / "obs.toml").read_bytes()
    for url, key, expected in (
        (machine.url, "obs_acme_wrong", "not valid"),
        (machine.url, "", "X-API-Key"),
        (REFUSING, machine.key, "cannot reach"),
        ("obs.example.com", machine.key, "is not an address"),
        (f"{machine.url}/sign-in", machine.key, ""),
        (bad_server(RESPONSES["another service"]), machine.key, "is not obs"),
        (bad_server(RESPONSES["another JSON"]), machine.key, "is not obs"),
        (bad_server(RESPONSES["garbage"]), machine.key, "cannot reach"),
    ):
        done = login(machine, url, key)
        assert done.returncode == 1
        assert expected in done.stderr.decode()
        assert b"Traceback" not in done.stderr
        assert (machine.home / ".config" / "obs.toml").read_bytes() == stored
