"""Errors: the error codes of ``errors.toml``, the exception that carries one, and the handlers that respond with it.

The body is `ServiceError.body` as JSON under ``/api/``, but for clients of other services; elsewhere it is a page.
"""

import json
import logging
import tomllib
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from flask import Flask, Response, request
from werkzeug.exceptions import HTTPException
from werkzeug.http import HTTP_STATUS_CODES

_log = logging.getLogger(__name__)
T = TypeVar("T")

_CODES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
ERROR_CODES = {code: (int(status), about) for status, codes in _CODES.items() for code, about in codes.items()}
"""The HTTP status of each code, and what it means. docs/errors.md explains each."""

_RETRY_AFTER_SECONDS = {"storage_busy": 1, "shutting_down": 5, "storage_full": 30, "storage_unavailable": 60}

# The first code in the table with each status.
_CODE_OF_STATUS = {status: code for code, (status, _) in reversed(ERROR_CODES.items()) if status < 500}


@dataclass(eq=False)
class ServiceError(Exception):
    """A response with an error status."""

    error: str  # a key of ERROR_CODES, which determines the HTTP status
    message: str = ""
    _: KW_ONLY
    hint: str | None = None
    errors: Mapping[str, Any] | None = None  # details by place and field: {"json": {"end_time": ["..."]}}
    headers: dict[str, str] = field(default_factory=dict)  # are added to the response
    extra: Mapping[str, Any] = field(default_factory=dict)  # is added to the JSON object

    def __post_init__(self) -> None:
        self.status, meaning = ERROR_CODES[self.error]
        self.message, self.headers = self.message or meaning, dict(self.headers)
        if self.error in _RETRY_AFTER_SECONDS:
            self.headers["Retry-After"] = str(_RETRY_AFTER_SECONDS[self.error])
        if self.status in (401, 403, 405, 413, 429):  # granian closes the connection if the body was not read
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


def existing(thing: str, number: int, found: Iterable[T]) -> T:
    """The first of what was `found` for an id. Raises ServiceError (404) if there is no `thing` with this id."""
    for one in found:
        return one
    raise ServiceError(f"{thing}_not_found", f"There is no {thing} with id {number}.")


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
