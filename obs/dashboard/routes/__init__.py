"""The pages, one module each. All but the sign-in page are for people who are signed in; changes need an admin."""

import zlib

from flask import Response, abort, request

from obs.dashboard.sessions import viewer
from obs.services import services


def page_version(*shown: object) -> str:
    """The version of a page, which changes with what it shows. Ends the request with 204 if the browser has it."""
    in_trouble = services().overviews(viewer().org).show(viewer()).in_trouble  # in the title
    version = f"{zlib.crc32(repr((in_trouble, shown)).encode()):x}"
    if request.headers.get("X-Have") == version:
        abort(Response(status=204))
    return version
