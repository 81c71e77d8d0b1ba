"""The service behaves as its OpenAPI document states; against_document.py runs longer."""

from pathlib import Path

import pytest

from tests.strangers.against_document import run, serve


@pytest.mark.slow
def test_the_service_behaves_as_documented(tmp_path: Path) -> None:
    server = serve(tmp_path / "instance")
    try:
        code, report, sent = run(server, tmp_path / "instance", "-n", "10", "--seed", "1")
    finally:
        server.stop()
    assert code == 0, report
    assert "Traceback" not in server.printed()
    assert sent > 1000
