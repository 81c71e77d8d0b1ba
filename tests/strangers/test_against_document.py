"""What the OpenAPI document says is what the service does; the long form is against_document.py."""

from pathlib import Path

from tests.strangers.against_document import run, serve


def test_the_service_answers_as_its_document_says(tmp_path: Path) -> None:
    server = serve(tmp_path / "instance")
    try:
        code, report, sent = run(server, tmp_path / "instance", "-n", "10", "--seed", "1")
    finally:
        server.stop()
    assert code == 0, report
    assert "Traceback" not in server.printed()
    assert sent > 1000
