"""The pages, one module each. All but the sign-in page are for people who are signed in; changes need an admin."""

from flask import Response, abort, request

from obs.dashboard import overview
from obs.dashboard.sessions import viewer
from obs.services import services


def page_version(*shown: object) -> str:
    """The version of a page, which changes with what it shows. Ends the request with 204 if the browser has it."""
    version = overview.version(services().overviews(viewer().org).show(viewer()).in_trouble, *shown)  # of the title too
    if request.headers.get("X-Have") == version:
        abort(Response(status=204))
    return version
