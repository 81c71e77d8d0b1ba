"""Forms: the values that a page shows in them, how their times are read, and why a submitted form was refused."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import wraps
from typing import Any
from zoneinfo import ZoneInfo

from flask import flash, make_response, redirect, request, url_for
from flask.typing import ResponseReturnValue
from werkzeug.wrappers import Response

from obs.dashboard.sessions import viewer
from obs.errors import ServiceError, invalid_field
from obs.times import find_zone, format_ms, parse_iso, parse_time

View = Callable[..., ResponseReturnValue]
TIMES = ("start_time", "end_time")
_PLAINER = (
    (re.compile(r"Missing data for required field\."), "Enter a value."),
    (re.compile(r"Length must be between 0 and (\d+)\."), r"Enter at most \1 characters."),
    (re.compile(r"Length must be between (\d+) and (\d+)\."), r"Enter \1 to \2 characters."),
    (re.compile(r"Not a valid (number|integer)\."), "Enter a number, e.g. 30."),
    (re.compile(r'^"" is not a cron expression\..*'), "Enter a cron expression, e.g. 0 2 * * *."),
    (re.compile(r"\b(start|end)_time\b"), r"the \1"),
)


def parse_typed(text: str, zone: ZoneInfo, now_ms: int) -> int:
    """A time that a person typed or picked, in milliseconds; without an offset it is in `zone`, or such as ``-2h``.

    Of an hour that occurs twice the first is meant; a skipped 02:30 becomes 03:30. Raises a readable ValueError.
    """
    try:
        try:
            typed = datetime.fromisoformat(text)
        except ValueError:
            return parse_time(text, now_ms)
        moment = (typed if typed.tzinfo else typed.replace(tzinfo=zone)).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise ValueError("Enter a date and time, e.g. 2026-06-21 10:00.") from error
    return parse_iso(moment.isoformat())


def as_input(moment_ms: int | None, zone: ZoneInfo) -> str:
    """A moment as the value of ``<input type="datetime-local">``: without an offset, and without seconds that are 0."""
    if moment_ms is None:
        return ""
    try:
        local = datetime.fromtimestamp(moment_ms // 1000, zone).replace(tzinfo=None)
    except (ValueError, OverflowError):  # a moment of the year 9999 that is in the year 10000 there
        return format_ms(moment_ms)
    return local.isoformat(timespec="seconds" if local.second else "minutes")


def form_zone() -> ZoneInfo:
    return find_zone(request.form.get("zone", "")) or find_zone(request.cookies.get("obs_zone", "")) or ZoneInfo("UTC")


@dataclass(frozen=True, slots=True)
class Form:
    """`values` and `problems` are by field; a problem of the field "" is one of the form as a whole."""

    values: Mapping[str, Any]
    problems: Mapping[str, str] = field(default_factory=dict)
    zone: ZoneInfo = field(default_factory=form_zone)


def shown_again(page: View, otherwise: str = "", **names: str) -> Callable[[View], View]:
    """If the decorated view of a form raises ServiceError (not 403 or 404), it responds with `page` of its arguments.

    `page` also gets the submitted `form` with the messages. `names` maps names of the API to other names in the form.
    Messages about anything else go to `otherwise`.
    """

    def decorate(view: View) -> View:
        @wraps(view)
        def submitted(**arguments: Any) -> ResponseReturnValue:
            try:
                return view(**arguments)
            except ServiceError as error:
                if error.status in (403, 404):
                    raise
                problems = dict[str, str]()
                hint = f" {error.hint}" if error.status == 429 else ""  # other hints are for programs
                for name, message in _messages((error.errors or {}).get("json") or [error.message + hint]):
                    place = names.get(name, name if name in request.form else otherwise)
                    problems[place] = f"{problems[place]} {message}" if place in problems else message
                response = make_response(page(form=Form(request.form, problems), **arguments))
                response.status_code = error.status
                response.headers.extend(error.headers)
                return response

        return submitted

    return decorate


def entered(names: Iterable[str]) -> dict[str, str]:
    """The fields that are not empty; those in TIMES are read in the zone of the form. Raises ServiceError (422)."""
    fields = {name: text for name in names if (text := request.form.get(name, "").strip())}
    problems: dict[str, list[str]] = {}
    for name in fields.keys() & set(TIMES):
        try:
            fields[name] = format_ms(parse_typed(fields[name], form_zone(), viewer().now_ms))
        except ValueError as error:
            problems[name] = [str(error)]
    if problems:
        raise ServiceError("invalid_field", errors={"json": problems})
    return fields


def seconds(field: str, unit: str, unit_seconds: int, default: str = "") -> int:
    """A number of hours or minutes in the form as seconds. Raises ServiceError (422)."""
    try:
        return round(float(request.form.get(field, "").strip() or default) * unit_seconds)
    except (ValueError, OverflowError):
        raise invalid_field("json", field, f"Enter a number of {unit}, e.g. 30.") from None


def chosen_time(name: str, options: Iterable[str]) -> str | None:
    """The time that was chosen of `options`, which are relative to now, or "" for none. Raises ServiceError (422)."""
    chosen = request.form.get(name, "")
    if chosen not in options:
        raise invalid_field("json", name, "Choose one of the options.")
    return format_ms(parse_time(chosen, viewer().now_ms)) if chosen else None


def saved(message: str, endpoint: str, **values: Any) -> Response:
    flash(message)
    return redirect(url_for(endpoint, **values))


def _messages(details: Any, name: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(details, Mapping):
        for key, inner in details.items():
            yield from _messages(inner, key if isinstance(key, str) else name)
    else:
        for message in details:
            for pattern, replacement in _PLAINER:
                message = pattern.sub(replacement, message)
            yield name, message
