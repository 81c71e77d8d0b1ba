"""Compression of large answers, for the blueprints that ask for it: a heartbeat's answer is small and not looked at.

Pages are compressed although they hold a token against forged forms and repeat what was searched for: Flask-WTF signs
the token anew with each second, and a signature that holds for one page only cannot be guessed over many (BREACH).
Answers to forms, which may show a new key, are left as they are.
"""

from flask import Flask, Response, request
from flask_compress import Compress

_compress = Compress()


def init_app(app: Flask) -> None:
    """Say how; what is compressed is for the blueprints to say, with `page` or `answer` after their requests."""
    app.config.update(
        COMPRESS_REGISTER=False,
        COMPRESS_ALGORITHM=["zstd", "br", "gzip"],
        COMPRESS_STREAMS=False,
        COMPRESS_LEVEL=4,
        COMPRESS_MIN_SIZE=1_400,  # less than that is one packet anyway
    )
    _compress.init_app(app)


def page(response: Response) -> Response:
    """Compress what was asked for with GET."""
    return answer(response) if request.method == "GET" else response


def answer(response: Response) -> Response:
    """Compress an answer of some size, if the client takes one."""
    if response.is_streamed and (response.mimetype or "").startswith("text/"):
        # Flask-Compress leaves a file that it streams open, so a style sheet or script is read before.
        response.direct_passthrough = False
        response.get_data()
    done: Response = _compress.after_request(response)
    return done
