"""The organization's settings: its ingest address with snippets, its keys, its limits, its file."""

import shutil
import sqlite3
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from flask import Blueprint, Response, current_app, flash, redirect, render_template, request, send_file, url_for
from flask.typing import ResponseReturnValue

from obs import times
from obs.dashboard import snippets, usage
from obs.dashboard import store as page_store
from obs.dashboard.viewer import Viewer, admin, viewer
from obs.errors import ServiceError
from obs.query import store as query_store
from obs.query.limits import Limits
from obs.query.routes import RATES
from obs.storage import backup
from obs.tenancy import keys, store
from obs.tenancy.auth import tenancy

blp = Blueprint("settings", __name__, url_prefix="/settings")
_LONGEST_LABEL = 200
_EXPIRIES = {"": "never", "+30d": "in 30 days", "+90d": "in 90 days", "+365d": "in a year"}


@blp.get("")
def page() -> ResponseReturnValue:
    """All of it."""
    return _page()


@blp.post("/keys")
def make_key() -> ResponseReturnValue:
    """Make a key; the page that answers shows it, this once, and has it in its snippets."""
    looking, form = viewer(), request.form
    label = form.get("label", "").strip()
    scopes = tuple(scope for scope in keys.SCOPES if scope in form.getlist("scopes"))
    if not 1 <= len(label) <= _LONGEST_LABEL or not scopes or form.get("expires", "") not in _EXPIRIES:
        return _page(problem="A key has a label of 1 to 200 characters and at least one scope."), 422
    expires = form.get("expires")
    expires_at = times.parse_time(expires, looking.now_ms) if expires else None

    def unit(db: sqlite3.Connection) -> tuple[int, str] | None:
        return store.add_key(db, looking.org, label, scopes, expires_at, looking.now_ms)

    added = tenancy().control.write(unit)
    if added is None:
        raise ServiceError("unauthorized", "The organization is gone.")
    tenancy().keyring.reload()
    return _page(new_key=added[1])


@blp.post("/keys/<int(max=9223372036854775807):key_id>/revoke")
def revoke_key(key_id: int) -> ResponseReturnValue:
    """Revoke a key."""
    looking = viewer()
    if not tenancy().control.write(lambda db: store.revoke_key(db, looking.org, key_id, looking.now_ms)):
        raise ServiceError("key_not_found", "There is no valid key of that id.")
    tenancy().keyring.reload()
    flash("Revoked the key.")
    return redirect(url_for("dashboard.settings.page") + "#keys")


@blp.get("/backup")
def download() -> Response:
    """The organization's file as it is now."""
    looking = admin()
    with tempfile.TemporaryDirectory(dir=current_app.instance_path, prefix=".backup-") as folder:
        path = Path(folder) / "copy.db"
        backup.copy(looking.databases, looking.org, path)
        copy = path.open("rb")  # stays readable when its name is gone
    day = datetime.fromtimestamp(looking.now_ms / 1000, UTC).strftime("%Y-%m-%d")
    answer = send_file(
        copy, mimetype="application/vnd.sqlite3", as_attachment=True, download_name=f"{looking.org}-{day}.db"
    )
    answer.headers["Cache-Control"] = "no-store"
    return answer


def _limits(looking: Viewer, limits: Limits) -> list[usage.Row]:
    queries = current_app.extensions[RATES].used(looking.org, limits.rate_per_minute)
    path = looking.databases.path(looking.org)
    with looking.read() as db:
        jobs, runs, oldest_run_at, annotations = page_store.held(db)
    written = sum(file.stat().st_size for file in (path, path.with_name(f"{path.name}-wal")) if file.exists())
    held = usage.Held(jobs, runs, oldest_run_at, annotations, written, shutil.disk_usage(path.parent).free)
    return usage.rows(limits, queries, held, current_app.config["RUN_RETENTION_DAYS"], looking.now_ms)


def _page(new_key: str | None = None, problem: str = "") -> str:
    looking = viewer()
    ingest_url = tenancy().ingest.url(looking.org)
    with tenancy().control.read() as db:
        limits = Limits.of(current_app.config, query_store.own_limits(db, looking.org))
        known = tenancy().keyring.with_last_use(store.keys_of(db, looking.org))
    return render_template(
        "settings.html",
        ingest_url=ingest_url,
        snippets=snippets.of(ingest_url, new_key or "YOUR_KEY"),
        keys=[key for key in reversed(known) if key.revoked_at is None],
        revoked=sum(key.revoked_at is not None for key in known),
        scopes=keys.SCOPES,
        default_scopes=keys.DEFAULT_SCOPES,
        expiries=_EXPIRIES,
        limits=_limits(looking, limits),
        file_bytes=looking.databases.size(looking.org),
        new_key=new_key,
        problem=problem,
    )
