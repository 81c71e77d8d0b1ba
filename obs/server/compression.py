"""Compression of large responses, for the blueprints that enable it. Responses to heartbeats are never compressed.

Compressing a page that contains both a secret and text from the request can reveal the secret (BREACH). The CSRF token
of Flask-WTF is signed again every second, so it is not constant. A page that shows a new API key is not compressed.
"""

from flask import Flask, Response, g
from flask_compress import Compress

_compress = Compress()


def init_app(app: Flask) -> None:
    """Configure compression. A blueprint enables it by registering `answer` as an after_request handler."""
    app.config.update(
        COMPRESS_REGISTER=False,
        COMPRESS_ALGORITHM=["zstd", "br", "gzip"],
        COMPRESS_STREAMS=False,
        COMPRESS_LEVEL=4,
        COMPRESS_MIN_SIZE=1_400,  # fewer bytes fit into one packet
    )
    _compress.init_app(app)


def answer(response: Response) -> Response:
    if response.is_streamed and (response.mimetype or "").startswith("text/"):
        # Flask-Compress does not close a file that it streams: read a style sheet or script into memory first.
        response.direct_passthrough = False
        response.get_data()
    compressed: Response = response if "shows_new_key" in g else _compress.after_request(response)
    return compressed
