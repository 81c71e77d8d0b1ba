"""Compression of large responses, for the blueprints that enable it. Responses to heartbeats are never compressed.

Compressing a page that contains both a secret and text from the request can reveal the secret (BREACH). The CSRF token
of Flask-WTF is signed again every second, so it is not constant. A page that shows a new API key is not compressed.
"""

from flask import Response, g
from flask_compress import Compress

_compress = Compress()
init_app = _compress.init_app


def answer(response: Response) -> Response:
    """The handler that a blueprint registers with `after_request` to have its responses compressed."""
    if response.is_streamed and (response.mimetype or "").startswith("text/"):
        # Flask-Compress does not close a file that it streams: read a style sheet or script into memory first.
        response.direct_passthrough = False
        response.get_data()
    compressed: Response = response if "shows_new_key" in g else _compress.after_request(response)
    return compressed
