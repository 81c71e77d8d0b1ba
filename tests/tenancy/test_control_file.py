"""When the control file cannot be read, known keys still work."""

from collections.abc import Callable
from pathlib import Path

import pytest
from flask import Flask

from obs.errors import ServiceError
from obs.services import services
from obs.tenancy import auth, service
from tests.conftest import KeyClient

PING = "/api/v1/heartbeat/backup/ping"


def test_known_keys_work_while_the_control_file_cannot_be_read(
    app: Flask,
    client: KeyClient,
    new_client: Callable[..., KeyClient],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    tenancy: auth.Tenancy = services(app).tenancy
    seconds = [1_000_000.0]
    monkeypatch.setattr(tenancy.keyring, "_monotonic", lambda: seconds[0])
    path = tenancy.control.path
    assert client.post(PING).status_code == 200
    tenancy.control.close()  # the next check opens the file again
    path.rename(path.with_suffix(".away"))
    path.mkdir()
    for _ in range(5):
        seconds[0] += 1
        assert client.post(PING).status_code == 200
    assert len([record for record in caplog.records if "control.db cannot be read" in record.getMessage()]) == 1
    unknown = app.test_client()
    assert unknown.post(PING, headers={"X-API-Key": "obs_acme_unknown"}).status_code == 401

    path.rmdir()
    path.with_suffix(".away").rename(path)
    seconds[0] += 1
    later = new_client("acme")
    seconds[0] += 1
    assert later.post(PING).status_code == 200


@pytest.mark.parametrize("is_empty", [True, False])
def test_without_a_control_file_the_files_of_organizations_stay(
    make_app: Callable[..., Flask], tmp_path: Path, is_empty: bool
) -> None:
    """A new control file would give a new organization the id, and so the file, of another one."""
    app = make_app(INSTANCE=tmp_path / "obs")
    tenancy = services(app).tenancy
    service.create_first_organization(tenancy)
    tenancy.close()
    (tmp_path / "obs" / "control.db").unlink()
    if is_empty:
        (tmp_path / "obs" / "control.db").touch()
    files = {path.name: path.read_bytes() for path in (tmp_path / "obs" / "tenants").glob("*.db")}
    assert files
    with pytest.raises(ServiceError, match="is missing or empty"):
        make_app(INSTANCE=tmp_path / "obs")
    assert {path.name: path.read_bytes() for path in (tmp_path / "obs" / "tenants").glob("*.db")} == files
