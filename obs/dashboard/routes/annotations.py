"""Annotations: the list with its filters; adding, editing, ending and deleting them."""

from functools import partial
from typing import Any

from flask import Blueprint, render_template, request
from flask.typing import ResponseReturnValue

from obs.annotations import schemas, service, store
from obs.annotations.rules import Annotation, version
from obs.api import ROW_ID, load, page_of
from obs.dashboard import forms
from obs.dashboard.sessions import viewer
from obs.times import WEEK_MS

blp = Blueprint("annotations", __name__, url_prefix="/annotations")
_PAGE_SIZE = 50
_REQUIRED = ("name", "title")
_OPTIONAL = ("end_time", "description", "url")
_FIELDS = (*_REQUIRED, "start_time", *_OPTIONAL)
_NUMBER = f"<{ROW_ID}:number>"


@blp.get("")
def page(form: forms.Form | None = None) -> tuple[str, int]:
    caller = viewer()
    filters = {name: request.args.get(name, "").strip() for name in ("name_prefix", "q", "start", "end")}
    query: dict[str, Any] = {**filters, "limit": _PAGE_SIZE, "cursor": request.args.get("cursor") or None}
    problems = dict[str, str]()
    for name in ("start", "end"):
        text = filters[name] + ("T23:59:59.999" if name == "end" and len(filters[name]) == 10 else "")  # all of a day
        try:
            query[name] = forms.parse_typed(text, forms.form_zone(), caller.now_ms) if text else None
        except ValueError as error:
            query[name], problems[name] = None, str(error)
    if query["start"] is not None and query["end"] is not None and query["end"] < query["start"]:
        problems["end"] = "Must not be before the start."
    with caller.read() as db:
        shown = page_of("annotations", query, partial(store.page, db, caller.now_ms), "start_time", "id")
        shown["prefixes"] = store.prefixes(db, caller.now_ms)
    shown |= {"filters": forms.Form(filters, problems), "is_filtered": any(filters.values())}
    shown["longest_to_end_ms"] = WEEK_MS  # ended by mistake, an old point would tint every chart
    return render_template("annotations/page.html", form=form or forms.Form({}), **shown), 422 if problems else 200


@blp.post("")
@forms.shown_again(page)
def add() -> ResponseReturnValue:
    annotation, _ = service.create(viewer(), load(schemas.AnnotationRequestSchema, forms.entered(_FIELDS)))
    return forms.saved(f"Added {annotation.title}.", "dashboard.annotations.page")


@blp.get(f"/{_NUMBER}")
def edit(number: int, form: forms.Form | None = None) -> ResponseReturnValue:
    found = service.get(viewer(), number)
    return render_template("annotations/edit.html", annotation=found, form=form or forms.Form(_as_typed(found)))


@blp.post(f"/{_NUMBER}")
@forms.shown_again(edit)
def change(number: int) -> ResponseReturnValue:
    """Set all fields to those of the form. A time that was not edited stays as it is, to the millisecond."""
    empty = {**dict.fromkeys(_REQUIRED, ""), **dict.fromkeys(_OPTIONAL)}
    shown = _as_typed(service.get(viewer(), number))
    fields: dict[str, Any] = {**empty, **forms.entered(_FIELDS)}
    for name in forms.TIMES:
        if request.form.get(name) == shown[name]:
            fields.pop(name, None)
    changes, versions = load(schemas.AnnotationChangesSchema, fields), request.form.getlist("version")
    service.update(viewer(), number, changes, versions or None)  # so that nobody undoes what somebody saved meanwhile
    return forms.saved("Annotation saved.", "dashboard.annotations.page")


@blp.post(f"/{_NUMBER}/end")
def end_now(number: int) -> ResponseReturnValue:
    if (found := service.get(viewer(), number)).end_time is None:  # else somebody has ended it meanwhile
        service.update(viewer(), number, {"end_time": viewer().now_ms}, [version(found)])
    return forms.saved("Annotation ended.", "dashboard.annotations.page")


@blp.post(f"/{_NUMBER}/delete")
def delete(number: int) -> ResponseReturnValue:
    deleted = service.delete(viewer(), number)
    return forms.saved(f"Deleted {deleted.title}.", "dashboard.annotations.page")


def _as_typed(annotation: Annotation) -> dict[str, str]:
    values = {name: getattr(annotation, name) or "" for name in _FIELDS} | {"version": version(annotation)}
    return {**values, **{name: forms.as_input(getattr(annotation, name), forms.form_zone()) for name in forms.TIMES}}
