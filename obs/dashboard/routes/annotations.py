"""Annotations: the list with its filters, and making, changing, ending and deleting them."""

from typing import Any

import marshmallow as ma
from flask import Blueprint, flash, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue

from obs import times
from obs.annotations import schemas, service, store
from obs.annotations.rules import Annotation
from obs.api import decode_cursor, encode_cursor, time_of_query
from obs.dashboard import charts, marks
from obs.dashboard.viewer import viewer
from obs.errors import ServiceError

blp = Blueprint("annotations", __name__, url_prefix="/annotations")
_PAGE_SIZE = 50
_FILTERS = ("name_prefix", "q", "start", "end")
_FIELDS = ("name", "title", "start_time", "end_time", "description", "url")
_NUMBER = "<int(max=9223372036854775807):number>"


@blp.get("")
def page() -> ResponseReturnValue:
    """The list, newest start first."""
    return _list({}, {})


@blp.post("")
def add() -> ResponseReturnValue:
    """Make one of the form."""
    looking = viewer()
    try:
        fields = schemas.AnnotationRequestSchema().load(_entered(looking.now_ms))
        annotation, _ = service.create(looking.as_caller(), fields)
    except (ma.ValidationError, ServiceError) as error:
        return _list(request.form, _problems(error)), 422
    flash(f"Added {annotation.title}.")
    return redirect(url_for("dashboard.annotations.page"))


@blp.get(f"/{_NUMBER}")
def edit(number: int) -> ResponseReturnValue:
    """The form of one."""
    looking = viewer()
    return render_template(
        "annotations/edit.html",
        number=number,
        values=_as_entered(service.get(looking.as_caller(), number)),
        problems={},
    )


@blp.post(f"/{_NUMBER}")
def change(number: int) -> ResponseReturnValue:
    """Set all fields of one to what the form holds."""
    looking = viewer()
    try:
        cleared = dict.fromkeys(("end_time", "description", "url"))
        changes = schemas.AnnotationChangesSchema().load({**cleared, **_entered(looking.now_ms)})
        service.update(looking.as_caller(), number, changes)
    except (ma.ValidationError, ServiceError) as error:
        values = request.form
        return render_template("annotations/edit.html", number=number, values=values, problems=_problems(error)), 422
    flash("Changed.")
    return redirect(url_for("dashboard.annotations.page"))


@blp.post(f"/{_NUMBER}/end")
def end_now(number: int) -> ResponseReturnValue:
    """Let one end at this moment."""
    looking = viewer()
    service.update(looking.as_caller(), number, {"end_time": looking.now_ms})
    flash("Ended.")
    return redirect(url_for("dashboard.annotations.page"))


@blp.post(f"/{_NUMBER}/delete")
def delete(number: int) -> ResponseReturnValue:
    """Delete one."""
    deleted = service.delete(viewer().as_caller(), number)
    flash(f"Deleted {deleted.title}.")
    return redirect(url_for("dashboard.annotations.page"))


def _list(values: Any, problems: dict[str, str]) -> str:
    looking = viewer()
    given = {name: request.args.get(name, "").strip() for name in _FILTERS}
    selection = store.Selection(
        start=time_of_query("start", given["start"] or None, looking.now_ms),
        end=time_of_query("end", given["end"] or None, looking.now_ms),
        name_prefix=given["name_prefix"],
        title_text=given["q"],
    )
    cursor = request.args.get("cursor")
    after = store.Position(*decode_cursor(cursor, int, int)) if cursor else None
    with looking.read() as db:
        found, last = store.page(db, selection, looking.now_ms, _PAGE_SIZE, after)
        prefixes = store.prefixes(db, looking.now_ms)
    shown = [marks.of(one) for one in found]
    return render_template(
        "annotations/page.html",
        annotations=found,
        spec=charts.strip(shown) if shown else None,
        prefixes=prefixes,
        given=given,
        earlier=None if last is None else {**given, "cursor": encode_cursor(*last)},
        values=values,
        problems=problems,
    )


def _entered(now_ms: int) -> dict[str, str]:
    """The fields of the form that are not empty; times may be relative to now."""
    fields = {name: value for name in _FIELDS if (value := request.form.get(name, "").strip())}
    for name in ("start_time", "end_time"):
        if name in fields:
            try:
                fields[name] = times.format_ms(times.parse_time(fields[name], now_ms))
            except ValueError as error:
                raise ma.ValidationError({name: [str(error)]}) from error
    return fields


def _problems(error: ma.ValidationError | ServiceError) -> dict[str, str]:
    """What is wrong, by field."""
    if isinstance(error, ServiceError):
        if error.status != 422 or not error.errors:
            raise error
        messages = error.errors["json"]
    else:
        messages = dict(error.messages_dict)
    return {field: " ".join(texts) for field, texts in messages.items()}


def _as_entered(annotation: Annotation) -> dict[str, str]:
    values = {name: getattr(annotation, name) for name in _FIELDS}
    for name in ("start_time", "end_time"):
        values[name] = times.format_optional_ms(values[name])
    return {name: value or "" for name, value in values.items()}
