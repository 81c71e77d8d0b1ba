"""One shape for every error: the table of error codes, the exception that carries one, and the one handler.

Everything under ``/api/`` that is not 2xx is answered as JSON::

    {"code": 422, "status": "Unprocessable Entity", "error": "invalid_field",
     "message": "...", "errors": {...}, "hint": "..."}

``code``, ``status``, ``message`` and ``errors`` are flask-smorest's; ``error`` is a stable word that programs may
test; ``hint`` is there where something can be done. Other paths are pages for people and get their own page.
"""

import json
import logging
import uuid
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from flask import Flask, Response, request
from flask.typing import ResponseReturnValue
from werkzeug.exceptions import HTTPException
from werkzeug.http import HTTP_STATUS_CODES

_log = logging.getLogger(__name__)


class ErrorCode(NamedTuple):
    """A stable error code: the HTTP status it is answered with, and what it means (shown in docs/errors.md)."""

    status: int
    meaning: str


ERROR_CODES: Mapping[str, ErrorCode] = {
    "bad_request": ErrorCode(400, "The request could not be understood."),
    "invalid_json": ErrorCode(400, "The body is not JSON, or not a JSON object."),
    "oql_syntax": ErrorCode(400, "The statement does not follow the grammar of OQL."),
    "oql_unknown_source": ErrorCode(400, "FROM names something that is not a source."),
    "oql_unknown_column": ErrorCode(400, "The source has no column of that name."),
    "oql_unknown_function": ErrorCode(400, "There is no function of that name."),
    "oql_type_mismatch": ErrorCode(400, "A value has a type that cannot stand there."),
    "oql_no_time_window": ErrorCode(400, "The statement has no time window (LAST, BETWEEN or SINCE)."),
    "oql_duplicate_clause": ErrorCode(400, "A clause, or the time window, is given twice."),
    "oql_duplicate_column": ErrorCode(400, "Two columns of the answer would have the same name."),
    "oql_not_grouped": ErrorCode(400, "A column stands beside an aggregate and is not in BY."),
    "oql_bad_duration": ErrorCode(400, "A duration is not one, or is out of range."),
    "oql_bad_time": ErrorCode(400, "A time is not one, or the window ends before it starts."),
    "oql_bad_timezone": ErrorCode(400, "TIMEZONE names no known time zone."),
    "oql_too_long": ErrorCode(400, "The statement is too long or nested too deeply."),
    "incomplete_body": ErrorCode(400, "The body broke off before its end."),
    "unauthorized": ErrorCode(401, "X-API-Key is missing, or is not a valid key."),
    "missing_scope": ErrorCode(403, "The key is valid and lacks the scope that this call needs."),
    "wrong_organization": ErrorCode(403, "The key belongs to another organization than the ingest address."),
    "not_found": ErrorCode(404, "There is no such path."),
    "organization_not_found": ErrorCode(404, "There is no organization of that name."),
    "annotation_not_found": ErrorCode(404, "There is no annotation of that id."),
    "job_not_found": ErrorCode(404, "There is no job of that name."),
    "run_not_found": ErrorCode(404, "There is no run of that id."),
    "window_not_found": ErrorCode(404, "There is no maintenance window of that id."),
    "key_not_found": ErrorCode(404, "There is no key of that id."),
    "method_not_allowed": ErrorCode(405, "The path exists and does not take this method."),
    "body_timeout": ErrorCode(408, "The body of the request did not come in time."),
    "conflict": ErrorCode(409, "What was asked for clashes with what is there."),
    "precondition_failed": ErrorCode(412, "If-Match names another version than the current one."),
    "body_too_large": ErrorCode(413, "The request body is larger than 1 MB."),
    "log_too_large": ErrorCode(413, "The log message is larger than 10 KB."),
    "unsupported_media_type": ErrorCode(415, "A JSON endpoint was sent a body of another type."),
    "invalid_field": ErrorCode(422, "A field is missing, unknown, of the wrong type or out of range."),
    "query_limit_exceeded": ErrorCode(422, "The query breaks a limit on rows, bytes or time."),
    "rate_limited": ErrorCode(429, "Too many requests in the last minute."),
    "internal_error": ErrorCode(500, "A fault of the service; the request id is in its log too."),
    "too_many_bodies": ErrorCode(503, "Too many requests wait for bodies that do not come."),
    "query_busy": ErrorCode(503, "Other queries take all the processes there are for them; try again."),
    "storage_busy": ErrorCode(503, "The organization's file is busy; try again."),
    "storage_full": ErrorCode(503, "The disk is full; nothing was recorded."),
    "storage_unavailable": ErrorCode(503, "The organization's file cannot be used."),
    "shutting_down": ErrorCode(503, "The service is stopping; try again in a moment."),
}

_WORD_OF_STATUS = {
    400: "bad_request",
    404: "not_found",
    405: "method_not_allowed",
    413: "body_too_large",
    415: "unsupported_media_type",
    422: "invalid_field",
    429: "rate_limited",
}


class ServiceError(Exception):
    """An answer other than 2xx.

    ``error`` is a key of ERROR_CODES and decides the status. ``errors`` holds details by place
    (``{"json": {"end_time": ["..."]}}``), ``headers`` go into the answer, ``extra`` adds fields beside ``hint``.
    """

    def __init__(
        self,
        error: str,
        message: str | None = None,
        *,
        hint: str | None = None,
        errors: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        self.error = error
        self.status, meaning = ERROR_CODES[error]
        self.message = message or meaning
        self.hint = hint
        self.errors = errors
        self.headers = dict(headers or {})
        self.extra = dict(extra or {})
        super().__init__(self.message)

    def __reduce__(self) -> tuple[Any, ...]:
        """For pickle: queries run in other processes."""
        return _rebuild, (self.error, self.message, self.hint, self.errors, self.headers, self.extra)

    def body(self) -> dict[str, Any]:
        """The JSON object that is sent."""
        body: dict[str, Any] = {
            "code": self.status,
            "status": HTTP_STATUS_CODES[self.status],
            "error": self.error,
            "message": self.message,
        }
        if self.errors:
            body["errors"] = self.errors
        body.update(self.extra)
        if self.hint:
            body["hint"] = self.hint
        return body


def _rebuild(error: str, message: str, hint: Any, errors: Any, headers: Any, extra: Any) -> ServiceError:
    return ServiceError(error, message, hint=hint, errors=errors, headers=headers, extra=extra)


def invalid_field(place: str, field: str, message: str, *, hint: str | None = None) -> ServiceError:
    """A 422 that names one field; ``place`` is ``json``, ``query``, ``path`` or ``headers``."""
    return ServiceError("invalid_field", f"{field}: {message}", errors={place: {field: [message]}}, hint=hint)


def register(app: Flask, page: Callable[[ServiceError], Response]) -> None:
    """Answer every error of `app` in the one shape; paths outside ``/api/`` are answered by `page`."""

    def answer(error: ServiceError) -> Response:
        if request.path.startswith("/api/"):
            return Response(as_json(error), error.status, error.headers, content_type="application/json")
        response = page(error)
        response.headers.extend(error.headers)
        return response

    def service_error(error: ServiceError) -> ResponseReturnValue:
        return answer(error)

    def http_exception(error: HTTPException) -> ResponseReturnValue:
        if error.code is None or error.code < 400:
            return error.get_response()
        return answer(from_http_exception(error))

    def unexpected(error: Exception) -> ResponseReturnValue:
        return answer(from_fault(error, request.method, request.path))

    app.register_error_handler(ServiceError, service_error)
    app.register_error_handler(HTTPException, http_exception)
    app.register_error_handler(Exception, unexpected)


def as_json(error: ServiceError) -> str:
    """What is sent of `error` under ``/api/``."""
    return json.dumps(error.body(), separators=(",", ":"))


def from_fault(error: Exception, method: str, path: str) -> ServiceError:
    """The 500 for a fault of ours, which goes to the log with the id that the client is told."""
    request_id = uuid.uuid4().hex
    _log.error("request %s failed: %s %s", request_id, method, path, exc_info=error)
    return ServiceError(
        "internal_error",
        f"A fault of the service, not of the request. Request id: {request_id}",
        headers={"X-Request-Id": request_id},
        extra={"request_id": request_id},
    )


def from_http_exception(error: HTTPException) -> ServiceError:
    """The ServiceError that says the same as an exception of Werkzeug, webargs or flask-smorest."""
    data: Mapping[str, Any] = getattr(error, "data", None) or {}
    details = data.get("errors") or data.get("messages")
    code = error.code or 500
    word = _WORD_OF_STATUS.get(code, "bad_request" if code < 500 else "internal_error")
    message = data.get("message")
    hint = None
    headers = dict(data.get("headers") or {})
    match word:
        case "invalid_field":
            message = message or _first_field_message(details)
        case "body_too_large":
            limit = request.max_content_length
            message = f"The body has {request.content_length or 'more than ' + str(limit)} bytes; {limit} are allowed."
        case "method_not_allowed":
            allowed = sorted(getattr(error, "valid_methods", None) or ())
            message = f"{request.path} does not take {request.method}."
            if allowed:
                headers["Allow"] = ", ".join(allowed)
                hint = f"It takes {', '.join(allowed)}."
        case "not_found":
            message = f"There is no path {request.path}."
            hint = "The paths are listed at /api/docs."
        case "bad_request":
            message = message or error.description
    return ServiceError(word, message, errors=details, hint=hint, headers=headers)


def _first_field_message(details: Any) -> str | None:
    """``"end_time: Must not be before start_time."`` out of nested marshmallow messages."""
    path: list[str] = []
    while isinstance(details, Mapping) and details:
        name, details = next(iter(details.items()))
        path.append(str(name))
    if isinstance(details, list) and details:
        field = ".".join(name for name in path[1:] if name != "_schema")
        return f"{field}: {details[0]}" if field else str(details[0])
    return None
