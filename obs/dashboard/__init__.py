"""The pages for people. Reads the other areas through their stores, and changes things through them."""

import secrets
from datetime import timedelta
from pathlib import Path
from urllib.parse import quote

from flask import Blueprint, Flask, Response, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue
from flask_wtf.csrf import CSRFError, CSRFProtect

from obs.dashboard import docs, markup, overview, vega, wording
from obs.dashboard.routes import (
    alerts,
    annotations,
    job,
    job_changes,
    jobs,
    library,
    projects,
    query,
    settings,
    sign_in,
)
from obs.dashboard.sessions import PageSessions
from obs.dashboard.viewer import admin, find_viewer, viewer
from obs.errors import ServiceError
from obs.server import compression
from obs.storage.folders import write_once

__all__ = ["error_page", "init_app"]

_csrf = CSRFProtect()
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_PAGES = (
    sign_in.blp,
    jobs.blp,
    job.blp,
    job_changes.blp,
    alerts.blp,
    projects.blp,
    query.blp,
    annotations.blp,
    settings.blp,
    library.blp,
)
_NAVIGATION = (
    ("dashboard.jobs.page", "Cron Jobs"),
    ("dashboard.projects.page", "Projects"),
    ("dashboard.query.page", "Query"),
    ("dashboard.annotations.page", "Annotations"),
    ("dashboard.alerts.page", "Alerts"),
    ("dashboard.settings.page", "Settings"),
)


def init_app(app: Flask) -> None:
    """Register the pages, their signed session and a policy that lets a page load nothing from elsewhere."""
    # Made once, so that a restart signs nobody out.
    app.secret_key = write_once(Path(app.instance_path) / "secret_key", secrets.token_urlsafe(48))
    is_https = str(app.config["BASE_URL"]).startswith("https://")
    app.config.update(
        # Browsers take a cookie of this prefix from this very host only, not from another one of its domain.
        SESSION_COOKIE_NAME="__Host-obs_session" if is_https else "obs_session",
        SESSION_COOKIE_HTTPONLY=True,
        SESSION_COOKIE_SAMESITE="Lax",
        SESSION_COOKIE_SECURE=is_https,
        PERMANENT_SESSION_LIFETIME=timedelta(days=14),
        # The API is called with keys and knows no cookie; the pages check their own forms.
        WTF_CSRF_CHECK_DEFAULT=False,
        # A token lives as long as its session: a page may stay open for days.
        WTF_CSRF_TIME_LIMIT=None,
    )
    app.session_interface = PageSessions()
    app.jinja_env.trim_blocks = app.jinja_env.lstrip_blocks = True
    app.jinja_env.filters.update(
        duration=wording.duration,
        interval=wording.interval,
        size=wording.size,
        cell=markup.cell,
        moment=markup.moment,
        ago=markup.ago,
        precise=markup.to_the_second,
        schedule=overview.schedule,
    )
    app.jinja_env.globals.update(vega_version=vega.VERSION)
    _csrf.init_app(app)
    app.register_error_handler(CSRFError, _refuse_form)
    app.register_blueprint(_all_pages())
    app.register_blueprint(docs.blp)
    app.context_processor(lambda: {"viewer": find_viewer(), "pages": _NAVIGATION})
    app.after_request(_add_policy)


def error_page(error: ServiceError) -> Response:
    """The page for an error outside the API."""
    return _add_policy(Response(render_template("error.html", error=error), error.status, mimetype="text/html"))


def _all_pages() -> Blueprint:
    pages = Blueprint("dashboard", __name__, template_folder="templates", static_folder="static")
    pages.before_request(_check)
    pages.after_request(compression.page)
    for blueprint in _PAGES:
        pages.register_blueprint(blueprint)
    return pages


def _check() -> ResponseReturnValue | None:
    """Before any page: somebody is signed in; before any change: an admin, by a form that came from a page."""
    if request.blueprint == "dashboard.sign_in":
        _csrf.protect()
        return None
    if request.blueprint == "dashboard":  # style sheets and scripts
        return None
    if request.method in ("GET", "HEAD"):
        if find_viewer() is None:
            wanted = request.full_path.rstrip("?")
            return redirect(url_for("dashboard.sign_in.page") + ("" if wanted == "/" else f"?next={quote(wanted)}"))
        return None
    viewer()
    _csrf.protect()
    admin()
    return None


def _refuse_form(_: CSRFError) -> Response:
    return error_page(
        ServiceError(
            "bad_request",
            "This form is from another session, or not from this service. Nothing was changed.",
            hint="Go back, load the page anew and send it again.",
        )
    )


def _add_policy(response: Response) -> Response:
    headers = response.headers
    headers["X-Content-Type-Options"] = "nosniff"
    if response.mimetype == "text/html":
        headers.setdefault("Content-Security-Policy", _POLICY)
        headers["X-Frame-Options"] = "DENY"
        headers["Referrer-Policy"] = "same-origin"
        headers["Cross-Origin-Opener-Policy"] = "same-origin"
    if "Cache-Control" not in headers:
        # Caches know that Authorization makes an answer private; of X-API-Key and cookies they do not.
        headers["Cache-Control"] = "private, no-cache" if "ETag" in headers else "no-store"
    return response
