"""When the control file cannot be read, known keys still work."""

from collections.abc import Callable

import pytest
from flask import Flask

from obs.services import services
from obs.tenancy import auth
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
