"""The dashboard: pages for people. They read through the stores of the areas and change data through their services."""

import secrets
import shutil
from contextlib import suppress
from functools import partial
from pathlib import Path
from urllib.parse import quote

from flask import Blueprint, Flask, Response, current_app, g, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue
from flask_wtf.csrf import CSRFError, CSRFProtect
from werkzeug.exceptions import MethodNotAllowed

from obs.api import compressed
from obs.dashboard import libraries, overview, schedules, wording
from obs.dashboard.routes import alerts, annotations, job, jobs, query, settings, sign_in
from obs.dashboard.sessions import find_viewer, is_admin, require_admin, viewer
from obs.errors import ServiceError
from obs.server.middleware import ENVIRON_ORG
from obs.services import services
from obs.storage.disk import write_once

_csrf = CSRFProtect()
_PAGES = (sign_in, jobs, job, alerts, query, annotations, settings)


def init_app(app: Flask) -> None:
    # Written once, so that a restart signs nobody out.
    app.secret_key = write_once(Path(app.instance_path) / "secret_key", secrets.token_urlsafe(48))
    for leftover in Path(app.instance_path).glob(".backup-*"):  # of downloads that were killed
        shutil.rmtree(leftover, ignore_errors=True)
    is_https = str(app.config["BASE_URL"]).startswith("https://")
    prefix = "__Host-" if is_https else ""  # browsers accept such a cookie from this host only, not from its domain
    app.config.update(SESSION_COOKIE_NAME=f"{prefix}obs_session", SESSION_COOKIE_SECURE=is_https)
    app.jinja_env.trim_blocks = app.jinja_env.lstrip_blocks = True
    app.jinja_env.filters.update(
        {name: getattr(wording, name) for name in ("ago", "cell", "count", "duration", "moment", "results")},
        state_name=lambda state: "failing" if state == "failed" else state,  # *failed* is the result of a run
        precise=partial(wording.moment, to_the_second=True),
        schedule=schedules.in_brief,
        missed=schedules.missed_until_now,
        version=overview.version,
    )
    app.jinja_env.globals.update(vega_version=libraries.VEGA_VERSION, services=services)
    _csrf.init_app(app)
    refused = ServiceError("bad_request", "Your session changed. Nothing was saved.", hint="Go back and submit again.")
    app.register_error_handler(CSRFError, lambda _: error_page(refused))
    pages = Blueprint("dashboard", __name__, template_folder="templates", static_folder="static")
    pages.before_request(_check)
    pages.after_request(compressed)
    for blueprint in (*(page.blp for page in _PAGES), jobs.projects, alerts.incidents, libraries.vega):
        pages.register_blueprint(blueprint)
    for blueprint in (pages, libraries.docs, libraries.client):
        app.register_blueprint(blueprint)
    app.context_processor(_who)
    app.after_request(_add_policy)


def _who() -> dict[str, object]:
    """What each page shows of its viewer. Nobody is signed in for the page that says why a proxy's user is refused."""
    with suppress(ServiceError):
        find_viewer()
    return {"viewer": g.viewer, "is_admin": is_admin(g.viewer)}


def error_page(error: ServiceError) -> Response:
    """The page for an error outside the API. The address of a form leads to the page that has the form."""
    if request.method in ("GET", "HEAD") and isinstance(request.routing_exception, MethodNotAllowed):
        paths, path = current_app.create_url_adapter(request), request.path
        assert paths is not None
        while not paths.test(path or "/", "GET"):
            path = path.rpartition("/")[0]
        query_string = request.query_string.decode("latin-1")
        location = quote(path or "/") + (f"?{query_string}" if query_string else "")
        return _add_policy(Response(status=302, headers={"Location": location}))
    return _add_policy(Response(render_template("error.html", error=error), error.status, mimetype="text/html"))


def _check() -> ResponseReturnValue | None:
    if request.environ.get("SCRIPT_NAME") and ENVIRON_ORG in request.environ:  # a proxy may leave it open to machines
        raise ServiceError("not_found", "Ingest addresses have no pages.")
    if request.blueprint == "dashboard.sign_in":
        _csrf.protect()
    elif request.blueprint == "dashboard":  # style sheets and scripts
        return None
    elif request.method not in ("GET", "HEAD"):
        viewer()
        _csrf.protect()
        if request.endpoint not in settings.CHECK_THEMSELVES:
            require_admin()
    elif find_viewer() is None:
        requested = request.full_path.rstrip("?")
        target = "" if requested == "/" else f"?next={quote(requested)}"
        return redirect(url_for("dashboard.sign_in.page") + target)
    return None


def _add_policy(response: Response) -> Response:
    headers = response.headers
    headers["X-Content-Type-Options"] = "nosniff"
    if response.mimetype == "text/html":
        headers.update(current_app.config["PAGE_HEADERS"])
        if request.endpoint == "docs.page":  # Swagger UI sets style attributes
            policy = headers["Content-Security-Policy"]
            headers["Content-Security-Policy"] = policy.replace("style-src", "style-src 'unsafe-inline'")
    if request.path.endswith("/offline.js"):
        headers["Service-Worker-Allowed"] = "/"
    if "Cache-Control" not in headers:
        # Caches know that a response to Authorization is private; they do not know it of X-API-Key and cookies.
        headers["Cache-Control"] = "private, no-cache" if "ETag" in headers else "no-store"
    return response
