"""Signing in with a one-time link or a key, and signing out."""

import re

from flask import Blueprint, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue

from obs.dashboard.sessions import begin_session, end_session
from obs.errors import ServiceError
from obs.services import services
from obs.tenancy import keys, service

blp = Blueprint("sign_in", __name__)
_OWN_PATH = re.compile(r"/(?![/\\])[^\\\x00-\x1f]*")


@blp.get("/sign-in")
def page() -> ResponseReturnValue:
    """The form that takes a key."""
    return render_template("sign_in.html", next=request.args.get("next", ""))


@blp.post("/sign-in")
def by_key() -> ResponseReturnValue:
    """Sign in with a key that has the scope query:read."""
    wanted = request.form.get("next", "")
    tenancy = services().tenancy
    credential = tenancy.keyring.find(request.form.get("key", "").strip(), tenancy.clock())
    if credential is None:
        tenancy.failures.count(request.environ, tenancy.clock())
    if credential is None or not keys.allows(credential.scopes, "query:read"):
        return render_template("sign_in.html", failed=True, next=wanted), 401
    agent = request.user_agent.string
    begin_session(service.begin_session(tenancy, credential.org, credential.key_id, agent))
    return redirect(wanted if _OWN_PATH.fullmatch(wanted) else url_for("dashboard.jobs.page"))


@blp.route("/sign-in/<token>", methods=["GET", "POST"])
def by_link(token: str) -> ResponseReturnValue:
    """Sign in with a one-time link: a page with one button. Programs that only fetch the link do not use it up."""
    tenancy, is_pressed = services().tenancy, request.method == "POST"
    if is_pressed:
        found = service.use_sign_in_link(tenancy, token, request.user_agent.string)
    else:
        found = service.organization_of_link(tenancy, token)
    if found is None:
        tenancy.failures.count(request.environ, tenancy.clock())
        hint = "Create a new one: obs sign-in ORG"
        raise ServiceError("unauthorized", "This sign-in link has expired or was already used.", hint=hint)
    if not is_pressed:
        return render_template("sign_in_link.html", org=found)
    begin_session(found)
    return redirect(url_for("dashboard.jobs.page"))


@blp.post("/sign-out")
def sign_out() -> ResponseReturnValue:
    """End the session."""
    end_session()
    return redirect(url_for("dashboard.sign_in.page"))
