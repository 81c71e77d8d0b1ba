"""Signing in with a one-time link or a key, and signing out."""

import re

from flask import Blueprint, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue

from obs.dashboard.sessions import begin_session, end_session
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
    if credential is None or not keys.allows(credential.scopes, "query:read"):
        return render_template("sign_in.html", failed=True, next=wanted), 401
    agent = request.user_agent.string
    begin_session(service.begin_session(tenancy, credential.org, credential.key_id, agent))
    return redirect(wanted if _OWN_PATH.fullmatch(wanted) else url_for("dashboard.jobs.page"))


@blp.get("/sign-in/<token>")
def link(token: str) -> ResponseReturnValue:
    """The page of a one-time link, with one button. Programs that fetch links, such as chats, do not use it up."""
    return render_template("sign_in_link.html", org=service.organization_of_link(services().tenancy, token))


@blp.post("/sign-in/<token>")
def by_link(token: str) -> ResponseReturnValue:
    """Sign in with a one-time link."""
    begin_session(service.use_sign_in_link(services().tenancy, token, request.user_agent.string))
    return redirect(url_for("dashboard.jobs.page"))


@blp.post("/sign-out")
def sign_out() -> ResponseReturnValue:
    """End the session."""
    end_session()
    return redirect(url_for("dashboard.sign_in.page"))
