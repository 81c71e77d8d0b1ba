"""Errors: the table of error codes, the exception that carries one, and the handlers that respond with it.

Under ``/api/`` every response with a status other than 2xx is `ServiceError.body` as JSON; elsewhere it is a page.
"""

import json
import logging
import uuid
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field, fields
from functools import partial
from typing import Any

from flask import Flask, Response, request
from werkzeug.exceptions import HTTPException
from werkzeug.http import HTTP_STATUS_CODES

_log = logging.getLogger(__name__)

ERROR_CODES = {
    "bad_request": (400, "The request is malformed."),
    "invalid_json": (400, "The body is not valid JSON, or not a JSON object."),
    "oql_syntax": (400, "The statement does not follow the OQL grammar."),
    "oql_unknown_source": (400, "FROM names an unknown source."),
    "oql_unknown_column": (400, "The source has no column with this name."),
    "oql_unknown_function": (400, "There is no function with this name."),
    "oql_type_mismatch": (400, "A value has the wrong type."),
    "oql_no_time_window": (400, "The statement has no time window (LAST, BETWEEN or SINCE)."),
    "oql_duplicate_clause": (400, "A clause or the time window appears twice."),
    "oql_duplicate_column": (400, "Two columns of the result have the same name."),
    "oql_not_grouped": (400, "A column that is used next to an aggregate is not in BY."),
    "oql_bad_duration": (400, "A duration is invalid or out of range."),
    "oql_bad_parameter": (400, "A parameter has no value, or the statement does not use it."),
    "oql_bad_time": (400, "A time is invalid, or the window ends before it starts."),
    "oql_bad_timezone": (400, "TIMEZONE names an unknown time zone."),
    "oql_too_long": (400, "The statement is too long or nested too deeply."),
    "incomplete_body": (400, "The connection ended before the whole body arrived."),
    "unauthorized": (401, "The X-API-Key header is missing, or the key is not valid."),
    "missing_scope": (403, "The key is valid but lacks the scope that this request needs."),
    "wrong_organization": (403, "The key belongs to a different organization than the ingest address."),
    "not_found": (404, "The path does not exist."),
    "organization_not_found": (404, "There is no organization with this name."),
    "annotation_not_found": (404, "There is no annotation with this id."),
    "job_not_found": (404, "There is no job with this name."),
    "run_not_found": (404, "There is no run with this id."),
    "incident_not_found": (404, "There is no incident with this id."),
    "window_not_found": (404, "There is no maintenance window with this id."),
    "channel_not_found": (404, "There is no channel with this id."),
    "alert_not_found": (404, "There is no alert with this id."),
    "delivery_not_found": (404, "There is no delivery with this id."),
    "key_not_found": (404, "There is no valid key with this id."),
    "user_not_found": (404, "There is no user with this name."),
    "method_not_allowed": (405, "The path exists but does not support this method."),
    "body_timeout": (408, "The body did not arrive in time."),
    "conflict": (409, "The request conflicts with the current data."),
    "precondition_failed": (412, "If-Match does not name the current version."),
    "body_too_large": (413, "The request body is larger than 1 MB."),
    "log_too_large": (413, "The log message is larger than 10 KB."),
    "unsupported_media_type": (415, "The type, charset or encoding of the body is not supported."),
    "invalid_field": (422, "A field is missing, unknown, of the wrong type or out of range."),
    "query_limit_exceeded": (422, "The query exceeds a limit on rows, bytes or time."),
    "rate_limited": (429, "Too many requests, or too many wrong keys, in this minute."),
    "internal_error": (500, "An unexpected error; the service's log has the details under the request id."),
    "too_many_bodies": (503, "Too many requests are waiting for their bodies to arrive; nothing was recorded."),
    "query_busy": (503, "All query processes are busy; try again."),
    "query_process_died": (503, "The process that runs the query was killed twice, or cannot be started."),
    "storage_busy": (503, "The organization's file is busy; try again."),
    "storage_full": (503, "The disk is full; nothing was recorded."),
    "storage_unavailable": (503, "The organization's file cannot be used."),
    "shutting_down": (503, "The service is shutting down; try again shortly."),
    "quota_exceeded": (507, "The organization has reached a limit on jobs, annotations or stored bytes."),
    "storage_low": (507, "The disk has little free space, which is reserved for heartbeats."),
}
"""The HTTP status of each code, and what it means. docs/errors.md explains each."""

_RETRY_AFTER_SECONDS = {"storage_busy": 1, "shutting_down": 5, "storage_full": 30, "storage_unavailable": 60}

# The first code in the table with each status.
_CODE_OF_STATUS = {status: code for code, (status, _) in reversed(ERROR_CODES.items()) if status < 500}


@dataclass(eq=False)
class ServiceError(Exception):
    """A response with an error status.

    `error` is a key of ERROR_CODES and determines the HTTP status. `errors` contains details by place and field
    (``{"json": {"end_time": ["..."]}}``). `headers` are added to the response, `extra` to the JSON object.
    """

    error: str
    message: str = ""
    _: KW_ONLY
    hint: str | None = None
    errors: Mapping[str, Any] | None = None
    headers: dict[str, str] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.status, meaning = ERROR_CODES[self.error]
        self.message = self.message or meaning
        if self.error in _RETRY_AFTER_SECONDS:
            self.headers["Retry-After"] = str(_RETRY_AFTER_SECONDS[self.error])
        if self.status == 413:  # granian closes the connection if the body was not read to its end: clients must know
            self.headers["Connection"] = "close"
        super().__init__(self.message)

    def __reduce__(self) -> tuple[Any, ...]:
        """For pickle: query processes send their errors to the service."""
        return partial(ServiceError, **{one.name: getattr(self, one.name) for one in fields(self)}), ()

    def body(self) -> dict[str, Any]:
        body = {
            "code": self.status,
            "status": HTTP_STATUS_CODES[self.status],
            "error": self.error,
            "message": self.message,
            "errors": self.errors or None,
            **self.extra,
            "hint": self.hint or None,
        }
        return {name: value for name, value in body.items() if value is not None}


def invalid_field(place: str, field: str, message: str, *, hint: str | None = None) -> ServiceError:
    """The 422 for one field. `place` is ``json``, ``query``, ``path`` or ``headers``."""
    return ServiceError("invalid_field", f"{field}: {message}", errors={place: {field: [message]}}, hint=hint)


def invalid_fields(details: Mapping[str, Any]) -> ServiceError:
    """The 422 for what a schema has found, by place and field. The first message is also that of the error."""
    path, found = list[str](), details
    while isinstance(found, Mapping):
        name, found = next(iter(found.items()))
        path.append(str(name))
    field = ".".join(name for name in path[1:] if name != "_schema")
    message = f"{field}: {found[0]}" if field else str(found[0])
    return ServiceError("invalid_field", message, errors=details)


def register(app: Flask, page: Callable[[ServiceError], Response]) -> None:
    """Register the error handlers of `app`; outside ``/api/`` the response is what `page` returns."""

    def respond(error: ServiceError) -> Response:
        if request.path.startswith("/api/"):
            return Response(json.dumps(error.body()), error.status, error.headers, content_type="application/json")
        response = page(error)
        response.headers.extend(error.headers)
        return response

    app.register_error_handler(ServiceError, respond)
    app.register_error_handler(HTTPException, lambda error: respond(from_http_exception(error)))
    app.register_error_handler(Exception, lambda error: respond(internal_error(error, request.method, request.path)))


def internal_error(error: Exception, method: str, path: str) -> ServiceError:
    """The 500 for an unexpected exception; logs it under the request id that the client receives."""
    request_id = uuid.uuid4().hex
    _log.error("request %s failed: %s %s", request_id, method, path, exc_info=error)
    message = f"An unexpected error occurred in the service. Request id: {request_id}"
    extra = {"request_id": request_id}
    return ServiceError("internal_error", message, headers={"X-Request-Id": request_id}, extra=extra)


def from_http_exception(error: HTTPException) -> ServiceError:
    code = error.code or 500
    error_code = _CODE_OF_STATUS.get(code, "bad_request" if code < 500 else "internal_error")
    match error_code:
        case "method_not_allowed":
            allowed = ", ".join(sorted(getattr(error, "valid_methods", None) or ()))
            message = f"{request.path} does not support {request.method}."
            hint = f"Supported methods: {allowed}."
            return ServiceError(error_code, message, hint=hint, headers={"Allow": allowed})
        case "not_found":
            hint = "See /api/docs for all paths."
            return ServiceError(error_code, f"The path {request.path} does not exist.", hint=hint)
        case "bad_request":
            return ServiceError(error_code, error.description or "")
    return ServiceError(error_code)
