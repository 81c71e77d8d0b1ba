"""Incidents with maintenance windows; channels with the messages that were sent to them; alerts on queries."""

import re
import secrets
from typing import Any
from urllib.parse import quote

from flask import Blueprint, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue

from obs.alerts.routes import AlertRequestSchema, AlertSchema, ChannelRequestSchema, PreviewRequestSchema
from obs.alerts.service import result_of_test
from obs.alerts.store import incidents as store, outbox, rules
from obs.alerts.store.channels import EVENTS, FILTER_DEFAULTS, UNSET, Channel
from obs.api import PLACE, ROW_ID, load
from obs.dashboard import forms
from obs.dashboard.routes.jobs import page_version
from obs.dashboard.sessions import require_admin, viewer
from obs.errors import ServiceError
from obs.heartbeat.schemas import MaintenanceWindowSchema
from obs.heartbeat.store import maintenance
from obs.services import services

incidents = Blueprint("incidents", __name__, url_prefix="/incidents")
blp = Blueprint("alerts", __name__, url_prefix="/alerts")
_NUMBER = f"<{ROW_ID}:number>"
_INCIDENTS_SHOWN = 200
_DELIVERIES_SHOWN = 100
_WORDS = {"events": EVENTS, "default_events": FILTER_DEFAULTS["events"]}
_ALERT_FIELDS = ("query", "operator", "threshold", "for", "every", "no_data")


@incidents.get("", endpoint="page")
def incidents_page(form: forms.Form | None = None) -> str:
    with viewer().read() as db:
        windows, count_open = maintenance.windows(db), store.count_open(db)
        found = store.incidents(db, limit=_INCIDENTS_SHOWN)
    shown = [(one.id, one.ended_at, one.notified, one.acknowledged_at, one.verdict) for one in found]
    version = None if form else page_version(shown, windows, count_open)
    values = {"found": found, "count_open": count_open, "max": _INCIDENTS_SHOWN, "windows": windows, "version": version}
    return render_template("incidents.html", form=form or forms.Form({"title": "Maintenance"}), **values)


@incidents.post(f"/{_NUMBER}/<any(acknowledge, false_alarm, right):what>")
def judge(number: int, what: str) -> ResponseReturnValue:
    """The response leads to the page of the job if the form was on it."""
    judged = services().background.sweeper.judge(viewer(), number, None if what == "acknowledge" else what)
    name, otherwise = request.form.get("job"), "Acknowledged." if what == "acknowledge" else "Your answer is noted."
    return forms.saved(judged["effect"] or otherwise, f"dashboard.{'job' if name else 'incidents'}.page", name=name)


@incidents.post("/maintenance")
@forms.shown_again(incidents_page, timezone="cron", duration_seconds="hours")
def add_window() -> ResponseReturnValue:
    recurs = request.form.get("kind") == "again"
    when = ("cron",) if recurs else forms.TIMES
    fields: dict[str, Any] = forms.entered(("title", "job_prefix", *PLACE, *when))
    if recurs:
        fields["timezone"], fields["duration_seconds"] = forms.form_zone().key, forms.seconds("hours", "hours", 3600)
    services().heartbeats.add_window(viewer(), load(MaintenanceWindowSchema, fields))
    return forms.saved("Maintenance scheduled.", "dashboard.incidents.page")


@incidents.post(f"/maintenance/{_NUMBER}/delete")
def delete_window(number: int) -> ResponseReturnValue:
    services().heartbeats.delete_window(viewer(), number)
    return forms.saved("Maintenance window deleted.", "dashboard.incidents.page")


@blp.get("")
def page(form: forms.Form | None = None) -> str:
    """Channels, the form of a new one or of the one with the id in the URL, and the latest deliveries."""
    caller, number = viewer(), request.args.get("id", type=int)
    if form is None and number is not None:
        form = forms.Form(_shown(services().alerts.channel(caller.org, number)))
    with caller.read() as db:
        shown = {"deliveries": outbox.page(db, _DELIVERIES_SHOWN), "query_alerts": rules.alerts(db)}
    channels, form = services().alerts.channels(caller.org), form or forms.Form({"secret": secrets.token_urlsafe(32)})
    return render_template("alerts.html", form=form, channels=channels, **shown, **_WORDS)


@blp.post("")
@forms.shown_again(page, "url")
def submit_channel() -> ResponseReturnValue:
    """Create or change a channel, and send a test message to it."""
    fields, number = load(ChannelRequestSchema, _fields()), request.form.get("id", type=int)
    channel = services().alerts.save(viewer(), fields, number)
    return _tested(channel.id, f"Channel {channel.name} {'created' if number is None else 'saved'}. ")


@blp.post(f"/{_NUMBER}", defaults={"what": "Channel"})
@blp.post(f"/query/{_NUMBER}", defaults={"what": "Alert"})
def change(number: int, what: str) -> ResponseReturnValue:
    """Enable, disable or delete a channel or an alert, or send a test message to a channel."""
    action, alerts = request.form.get("action", ""), services().query_alerts if what == "Alert" else services().alerts
    if action == "test" and what == "Channel":
        return _tested(number, "")
    if action == "delete":
        changed = alerts.delete(viewer(), number)
    elif action in ("enable", "disable"):
        changed = alerts.save(viewer(), {"enabled": action == "enable"}, number)
    else:
        raise ServiceError("bad_request", "The form names no action. Nothing was changed.")
    return forms.saved(f"{what} {changed.name} {action.removesuffix('e')}ed.", "dashboard.alerts.page")


@blp.post(f"/deliveries/{_NUMBER}/retry")
def retry(number: int) -> ResponseReturnValue:
    services().alerts.retry(viewer(), number)
    return redirect(url_for("dashboard.alerts.page") + "#deliveries")


@blp.get("/query")
def query_page(form: forms.Form | None = None, preview: dict[str, Any] | None = None) -> str:
    """The form of a new alert, for the statement in the URL, or of the one with the id in the URL."""
    caller, number = require_admin(), request.args.get("id", type=int)
    values = {"query": request.args.get("q", ""), "operator": ">", "for": "5m", "every": "1m", "no_data": "keep"}
    if form is None and number is not None:
        known = caller.fetch(lambda db: rules.alert(db, number))
        values = {**AlertSchema().dump(known), "id": str(number), "threshold": f"{known.threshold:.15g}"}
    return render_template("query_alert.html", form=form or forms.Form(values), preview=preview)


@blp.post("/query")
@forms.shown_again(query_page, "query")
def submit_alert() -> ResponseReturnValue:
    """Create or change the alert, or show what it would have done in the last week."""
    alerts = services().query_alerts
    if request.form.get("action") == "preview":
        fields = load(PreviewRequestSchema, forms.entered(_ALERT_FIELDS))
        return query_page(forms.Form(request.form), alerts.preview(viewer(), fields, fields.pop("last")))
    number = request.form.get("id", type=int)
    fields = load(AlertRequestSchema, forms.entered(("name", *_ALERT_FIELDS)))
    if number is not None:
        del fields["enabled"]  # a disabled alert stays disabled
    saved = alerts.save(viewer(), fields, number)
    return forms.saved(f"Alert {saved.name} {'created' if number is None else 'saved'}.", "dashboard.alerts.page")


def _tested(number: int, before: str) -> ResponseReturnValue:
    answer = services().alerts.test(viewer().org, number)
    return forms.saved(before + result_of_test(answer), "dashboard.alerts.page")


def _shown(channel: Channel) -> dict[str, Any]:
    """The values of the form of a channel. Its address stays if it is sent as it is shown."""
    known = {**channel.filter, **(channel.filter["quiet_hours"] or {}), "name": channel.name, "id": channel.id}
    known |= {"form": channel.kind, "url": channel.masked, "address": channel.masked}
    return {name: "" if value is None else value for name, value in known.items()}


def _fields() -> dict[str, Any]:
    """The fields of a channel, as the API takes them."""
    fields = {**UNSET, **forms.entered(("name", "job_prefix", *PLACE, "reminder_hours"))}
    if re.fullmatch("[0-9]{1,9}", fields["reminder_hours"] or ""):
        fields["reminder_hours"] = int(fields["reminder_hours"])
    if quiet := forms.entered(("from", "until", "timezone")):
        fields["quiet_hours"] = quiet
    fields |= {"events": request.form.getlist("events"), "recoveries": "recoveries" in request.form}
    if request.form.get("form") == "webhook":
        return {**fields, "webhook": forms.entered(("url", "secret"))}
    return {**fields, "url": _address(request.form.get("pattern", ""))}


def _address(pattern: str) -> str:
    """The URL with the values of the form in place of ``{names}``; with HTTPS unless the ``server`` has http://."""
    entered = {name: request.form.get(name, "").strip() for name in re.findall(r"{(\w+)}", pattern)}
    if "server" in entered and not entered["server"].startswith("http://"):
        pattern = pattern.replace("://", "s://", 1)
    for name, text in entered.items():
        quoted = text if pattern == f"{{{name}}}" else quote(text, safe=":" if name == "smtp" else "")
        pattern = pattern.replace(f"{{{name}}}", re.sub("^https?://", "", text) if name == "server" else quoted)
    return pattern
