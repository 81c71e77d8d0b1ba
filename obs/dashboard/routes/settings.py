"""Settings of the organization: its ingest URL with snippets, keys, users, sessions, limits, and its backup."""

import tempfile
from contextlib import ExitStack
from pathlib import Path

from flask import Blueprint, Response, current_app, redirect, render_template, request, send_file, url_for
from flask.typing import ResponseReturnValue

from obs.annotations.source import RETENTION_MS
from obs.annotations.store import count_annotations
from obs.api import ROW_ID, load
from obs.dashboard import forms, store as page_store
from obs.dashboard.routes.sign_in import find_user
from obs.dashboard.sessions import is_admin, keep_new_key, require_admin, take_new_key, viewer
from obs.errors import ServiceError, invalid_field
from obs.heartbeat.store.jobs import count_jobs
from obs.services import services
from obs.storage.connection import copy
from obs.tenancy import keys, service, store
from obs.tenancy.audit import Action
from obs.tenancy.auth import Caller
from obs.tenancy.routes import KeyRequestSchema, UserSchema
from obs.times import DAY_MS, format_ms

blp = Blueprint("settings", __name__, url_prefix="/settings")
CHECK_THEMSELVES = ("dashboard.settings.change_user", "dashboard.settings.end_session")  # not only for admins
_MOST_DOWNLOADS = 8  # one of an organization: each takes a thread, which serves heartbeats too, until its client has it
_downloads = set[object]()
_EXPIRIES = {"": "never", "+30d": "in 30 days", "+90d": "in 90 days", "+365d": "in a year"}


@blp.get("")
def page(form: forms.Form | None = None) -> str:
    caller, tenancy = viewer(), services().tenancy
    sees_all = is_admin(caller)
    with caller.read() as db:
        runs, oldest_run_at = page_store.stored_runs(db)
        used = {"max_jobs": count_jobs(db), "max_annotations": count_annotations(db)}
    used["max_stored_bytes"] = caller.tenancy.databases.used_bytes(caller.org)
    for rate in ("max_heartbeats_per_minute", "query_rate_per_minute"):
        used[rate] = caller.tenancy.quotas.rates.used((caller.org, rate), caller.now_ms)
    known = tenancy.keyring.keys_of(caller.org)
    users = tenancy.control.fetch(lambda db: store.users(db, caller.org))
    return render_template(
        "settings.html",
        keys=[key for key in reversed(known) if key.revoked_at is None and (sees_all or key.id == caller.key_id)],
        revoked=sum(key.revoked_at is not None for key in known) if sees_all else 0,
        scopes=(*keys.SCOPES, keys.PING),
        chosen_scopes=request.form.getlist("scopes") if "label" in request.form else keys.DEFAULT_SCOPES,
        expiries=_EXPIRIES,
        used=used,
        runs=runs,
        oldest_run_at=oldest_run_at,
        annotation_retention_days=RETENTION_MS // DAY_MS,
        new_key=take_new_key(),
        users=[one for one in users if sees_all or one.name == caller.actor.name],
        roles=keys.ROLES,
        sessions=_sessions(caller).values(),
        form=form or forms.Form({}),
    )


@blp.post("/keys")
@forms.shown_again(page, scopes="scopes", expires_at="expires")
def create_key() -> ResponseReturnValue:
    caller, form = viewer(), request.form
    fields = {"label": form.get("label", "").strip(), "scopes": form.getlist("scopes")}
    loaded = load(KeyRequestSchema, {**fields, "expires_at": forms.chosen_time("expires", _EXPIRIES)})
    keep_new_key(service.create_key(services().tenancy, caller.org, actor=caller.actor, **loaded).key)
    return redirect(url_for("dashboard.jobs.page" if "first" in form else "dashboard.settings.page", _anchor="keys"))


@blp.post(f"/keys/<{ROW_ID}:key_id>/revoke")
def revoke_key(key_id: int) -> ResponseReturnValue:
    service.revoke_key(services().tenancy, viewer().org, key_id, actor=viewer().actor)
    return forms.saved("Key revoked.", "dashboard.settings.page", _anchor="keys")


@blp.post("/users/<any(add, change, delete):verb>")
@forms.shown_again(
    lambda form, verb: page(form if verb == "add" else forms.Form({}, form.problems)), "user", current="current"
)
def change_user(verb: str) -> ResponseReturnValue:
    """Add, change or delete a user. Users can change their own password."""
    caller, form = viewer(), request.form
    fields = {name: form.get(name, "") for name in ("name", "role", "password") if name in form or verb == "add"}
    is_own = verb == "change" and fields.get("name", "").lower() == caller.actor.name.lower()
    if not is_own or "role" in fields:
        require_admin()
    loaded = load(UserSchema, fields)
    if is_own and "password" in fields and find_user(caller.actor.name, form.get("current", "")) is None:
        raise invalid_field("json", "current", "This is not your current password.")
    service.change_user(services().tenancy, caller.org, Action(f"{verb} user"), actor=caller.actor, **loaded)
    return forms.saved(f"User {loaded['name']} {verb.removesuffix('e')}ed.", "dashboard.settings.page", _anchor="users")


@blp.post(f"/sessions/<{ROW_ID}:number>/end")
def end_session(number: int) -> ResponseReturnValue:
    if (ended := _sessions(viewer()).get(number)) is None:
        raise ServiceError("missing_scope", "This is not one of your sessions.")
    service.end_session(services().tenancy, ended, viewer().actor, Action.END_SESSION, ended.name)
    return forms.saved("Session ended.", "dashboard.settings.page", _anchor="sessions")


@blp.get("/audit")
def audit_log() -> str:
    return render_template("audit.html", entries=require_admin().fetch(store.audit_entries))


@blp.get("/backup")
def download() -> Response:
    caller = require_admin()
    space, original = caller.tenancy.quotas.space, caller.tenancy.databases.path(caller.org)
    if caller.org in _downloads or len(_downloads) >= _MOST_DOWNLOADS:
        raise ServiceError("rate_limited", "Another backup is being downloaded.", hint="Try again when it is complete.")
    with ExitStack() as stack, tempfile.TemporaryDirectory(dir=current_app.instance_path, prefix=".backup-") as folder:
        _downloads.add(caller.org)
        stack.callback(_downloads.discard, caller.org)
        path = Path(folder) / "copy.db"
        with caller.read() as db:
            space.refuse(space.is_low or space.free_bytes - original.stat().st_size < space.reserve_bytes)
            copy(db, path)
        copied = path.open("rb")  # stays readable after the file is deleted
        name = f"{caller.org}-{format_ms(caller.now_ms)[:10]}.db"
        response = send_file(copied, mimetype="application/vnd.sqlite3", as_attachment=True, download_name=name)
        response.direct_passthrough = False  # or it would not be closed
        response.call_on_close(stack.pop_all().close)
    response.headers["Cache-Control"] = "no-store"
    return response


def _sessions(caller: Caller) -> dict[int, store.Session]:
    """The sessions that `caller` can see and end, by their ids: an admin all, others their own."""
    found = caller.tenancy.control.fetch(lambda db: store.sessions(db, caller.now_ms, caller.org))
    return {one.id: one for one in found if is_admin(caller) or one.name == caller.actor.name}
