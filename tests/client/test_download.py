"""The client as the service offers it, and beside the commands of the service."""

import subprocess
import sys

import pytest

from obs.cli import main
from tests.client.conftest import Machine
from tests.conftest import KeyClient


@pytest.mark.parametrize("name", ["obs", "obs.sh"])
def test_a_file_needs_no_key_and_is_sent_only_when_it_has_changed(client: KeyClient, name: str) -> None:
    client.key = None
    first = client.get(f"/client/{name}")
    assert first.data.startswith(b"#!/")
    again = client.get(f"/client/{name}", headers={"If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.data) == (304, b"")
    assert client.get("/client/other").status_code == 404


def test_the_obs_of_the_service_offers_the_commands_of_the_client(
    machine: Machine, client: KeyClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in machine.environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as ended:
        main(["ping", "photos"])
    assert ended.value.code == 0
    assert client.get("/api/v1/jobs/photos").json["run_count"] == 1


def test_the_client_needs_only_the_standard_library(machine: Machine) -> None:
    command = [sys.executable, "-I", "-S", str(machine.home / "obs"), "ping", "photos"]
    assert subprocess.run(command, env=machine.environment, capture_output=True).returncode == 0
