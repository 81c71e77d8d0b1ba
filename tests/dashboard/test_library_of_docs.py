"""The files of Swagger UI, which anybody can fetch without a key."""

from flask.testing import FlaskClient


def test_nobody_can_have_them_compressed(client: FlaskClient) -> None:
    """To compress a megabyte takes 50 ms and 10 MB, and many could ask for it at once."""
    accepts = {"Accept-Encoding": "br, gzip, zstd"}
    script = client.get("/api/docs/dist/swagger-ui-bundle.js", headers=accepts, buffered=True)
    assert (script.status_code, script.headers.get("Content-Encoding")) == (200, None)
    assert int(script.headers["Content-Length"]) == len(script.data) > 1_000_000
