"""The organization's settings: its ingest address with snippets, its keys, its limits, its file."""

import shutil
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from flask import Blueprint, Response, current_app, flash, redirect, render_template, request, send_file, url_for
from flask.typing import ResponseReturnValue

from obs import times
from obs.dashboard import snippets, usage
from obs.dashboard import store as page_store
from obs.dashboard.viewer import Viewer, admin, viewer
from obs.query.execution.limits import Limits
from obs.services import services
from obs.storage import backup
from obs.tenancy import keys, service, store

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
    created = service.create_key(services().tenancy, looking.org, label, scopes, expires_at)
    return _page(new_key=created.secret)


@blp.post("/keys/<int(max=9223372036854775807):key_id>/revoke")
def revoke_key(key_id: int) -> ResponseReturnValue:
    """Revoke a key."""
    looking = viewer()
    service.revoke_key(services().tenancy, looking.org, key_id)
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
    queries = services().queries.used_in_the_last_minute(looking.org)
    path = looking.databases.path(looking.org)
    with looking.read() as db:
        jobs, runs, oldest_run_at, annotations = page_store.held(db)
    written = sum(file.stat().st_size for file in (path, path.with_name(f"{path.name}-wal")) if file.exists())
    held = usage.Held(jobs, runs, oldest_run_at, annotations, written, shutil.disk_usage(path.parent).free)
    return usage.rows(limits, queries, held, current_app.config["RUN_RETENTION_DAYS"], looking.now_ms)


def _page(new_key: str | None = None, problem: str = "") -> str:
    looking = viewer()
    tenancy = services().tenancy
    ingest_url = tenancy.ingest.url(looking.org)
    limits = services().queries.limits(looking.org)
    with tenancy.control.read() as db:
        known = tenancy.keyring.with_last_use(store.keys_of(db, looking.org))
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
