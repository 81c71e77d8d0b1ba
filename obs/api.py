"""Shared by the routes of all areas: blueprints, requests, the OpenAPI document, fields, cursors, compression."""

import json
import tomllib
import unicodedata
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import fields
from functools import cache, partial
from importlib.metadata import version
from threading import Lock
from typing import Any, NoReturn, get_args, get_type_hints

import flask
import marshmallow as ma
from apispec import APISpec
from flask import Flask, current_app, g
from flask_compress import Compress
from flask_smorest import Api as SmorestApi, Blueprint as SmorestBlueprint
from flask_smorest.spec.plugins import FlaskPlugin
from itsdangerous import BadData, URLSafeSerializer
from webargs.flaskparser import FlaskParser

from obs import times
from obs.errors import ServiceError, invalid_field, invalid_fields
from obs.server.bodies import read_body

ENDPOINT = "obs.endpoint"  # in the WSGI environment: the endpoint of a request that is handled before Flask
ROW_ID = "int(max=9223372036854775807)"  # in a rule: the id of a row, up to the largest that SQLite has
PLACE = ("host", "service", "project")  # the fields that say where a job runs
Describe = Callable[[APISpec], None]  # adds operations to the OpenAPI document that are handled before Flask
Field = ma.fields.Field[Any]
_compress = Compress()
SECURITY: list[dict[str, list[str]]] = [{"ApiKey": []}, {"Bearer": []}]  # a key in either header


def json_object(body: bytes, content_type: str) -> dict[str, Any]:
    """Parse a body as a JSON object, ``{}`` if it is empty and not declared as JSON. Raises ServiceError (400, 415)."""
    mimetype = content_type.partition(";")[0].strip().lower()
    if mimetype != "application/json" and not (mimetype.startswith("application/") and mimetype.endswith("+json")):
        if body:
            message = f"The body is {mimetype or 'of an undeclared type'}; it must be application/json."
            hint = "Send the header Content-Type: application/json."
            raise ServiceError("unsupported_media_type", message, hint=hint)
        return {}
    try:
        value = json.loads(body, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError is a ValueError
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error).partition(";")[0]
        raise ServiceError("invalid_json", f"The body is not valid JSON: {reason}.") from error
    if not isinstance(value, dict):
        hint = 'Send an object such as {"name": ...}.'
        raise ServiceError("invalid_json", "The body is not a JSON object.", hint=hint)
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


class _Parser(FlaskParser):
    """webargs ignores a body that is not declared as JSON, and repeated query parameters; this parser rejects both."""

    def load_json(self, req: flask.Request, schema: ma.Schema) -> Any:
        return json_object(read_body(req.environ), req.content_type or "")

    def load_querystring(self, req: flask.Request, schema: ma.Schema) -> Any:
        for name, values in req.args.lists():
            if len(values) > 1:
                raise invalid_field("query", name, "Appears more than once.")
        return super().load_querystring(req, schema)

    def handle_error(self, error: ma.ValidationError, *args: Any, **kwargs: Any) -> NoReturn:
        raise invalid_fields(error.messages_dict) from error

    DEFAULT_UNKNOWN_BY_LOCATION = {**FlaskParser.DEFAULT_UNKNOWN_BY_LOCATION, "query": ma.RAISE}  # noqa: RUF012


class Blueprint(SmorestBlueprint):  # type: ignore[misc]
    ARGUMENTS_PARSER = _Parser()


class _PathPlugin(FlaskPlugin):  # type: ignore[misc]
    def path_helper(self, rule: Any = None, **kwargs: Any) -> str | None:
        return None if rule is None else super().path_helper(rule, **kwargs)  # None: not a route of Flask


def init_app(app: Flask, blueprints: Sequence[SmorestBlueprint], describe: Describe) -> None:
    """Register the areas' routes, and at /api/openapi.json the document of them and of what `describe` adds."""
    app.json.sort_keys = False  # type: ignore[attr-defined]
    app.url_map.merge_slashes = False
    _compress.init_app(app)
    for blueprint in blueprints:
        app.register_blueprint(blueprint)
    document = cache(partial(_document, app.url_map.converters, blueprints, describe))
    building = Lock()  # the document, when somebody first asks for it: that takes longer than the rest of a start

    @app.get("/api/openapi.json")
    def openapi() -> flask.Response:
        with building:  # once, however many ask for it at the same time
            return app.response_class(document(), mimetype="application/json")


def _document(converters: Mapping[str, Any], blueprints: Sequence[SmorestBlueprint], describe: Describe) -> str:
    app = Flask(__name__, static_folder=None)  # of its own: flask-smorest adds routes and handlers of errors
    app.url_map.converters.update(converters)
    app.config.from_file("openapi.toml", tomllib.load, text=False)
    app.config["API_VERSION"] = version("obs")
    documented = SmorestApi(spec_kwargs={"flask_plugin": _PathPlugin()})
    documented.ERROR_SCHEMA = "Error"  # in openapi.toml
    documented.init_app(app)
    documented.register_field(Time, "string", "date-time")
    for converter in converters.values():
        if hasattr(converter, "openapi"):
            documented.register_converter(converter, lambda instance: instance.openapi)
    describe(documented.spec)
    for blueprint in blueprints:
        documented.register_blueprint(blueprint)
    for name, schema in documented.spec.components.schemas.items():
        if name.endswith("Changes"):  # a change needs at least one field, which marshmallow cannot express
            schema["minProperties"] = 1
    return json.dumps(documented.spec.to_dict(), indent=2)


class Schema(ma.Schema):
    """A schema that rejects unknown fields, so that a typo such as ``endtime`` is not silently ignored."""

    class Meta:
        unknown = ma.RAISE


class ChangesSchema(Schema):
    """The fields to change; the others stay as they are."""

    @ma.validates_schema
    def _changes_something(self, data: dict[str, Any], **_: Any) -> None:
        if not data:
            names = (field.data_key or name for name, field in self.fields.items())
            raise ma.ValidationError(f"Send at least one of {', '.join(names)}.")


class PageSchema(Schema):
    limit = ma.fields.Int(load_default=100, validate=ma.validate.Range(1, 1_000))
    cursor = ma.fields.Str(load_default=None, metadata={"description": "next_cursor of the previous page."})


def load(schema: type[ma.Schema], fields: Mapping[str, Any]) -> dict[str, Any]:
    """`fields` checked by `schema`, for what does not come in the body of a request. Raises ServiceError (422)."""
    try:
        return dict(schema().load(fields))
    except ma.ValidationError as error:
        raise invalid_fields({"json": error.messages_dict}) from error


def about(description: str, *example: Any) -> dict[str, Any]:
    """The metadata of a field for the OpenAPI document: its description, and perhaps an example."""
    return {"description": description, **({"example": example[0]} if example else {})}


def schema_of(row: type, name: str = "", leave_out: Container[str] = (), **others: Field) -> type[ma.Schema]:
    """The schema of a dataclass in responses: its fields with their metadata; `others` replace some, or are added.

    An integer is a time if its name ends as those of times do. `name` is that of the schema, if not the dataclass's.
    """
    found, types = dict[str, Field](), get_type_hints(row)
    for one in fields(row):
        kind, *optional = get_args(types[one.name]) or (types[one.name],)
        if one.name in others:
            found[one.name] = others[one.name]
        elif one.name not in leave_out:
            shape = Time if kind is int and one.name.endswith(("_at", "_until", "time")) else Schema.TYPE_MAPPING[kind]
            found[one.name] = shape(allow_none=bool(optional), metadata=dict(one.metadata))
    return Schema.from_dict({**found, **others}, name=f"{name or row.__name__}Schema")


def list_of(name: str, item: type[ma.Schema], *, paged: bool = False) -> type[ma.Schema]:
    """The schema of a list of `item` under `name`, and if it is `paged`, of the cursor for the next page."""
    fields: dict[str, Field] = {name: ma.fields.List(ma.fields.Nested(item))}
    if paged:
        description = "Send it as cursor to get the next page; null on the last page."
        fields["next_cursor"] = ma.fields.Str(allow_none=True, metadata=about(description))
    return Schema.from_dict(fields, name=f"{item.__name__.removesuffix('Schema')}ListSchema")


def page_of(name: str, query: Mapping[str, Any], read: Callable[..., Sequence[Any]], *position: str) -> dict[str, Any]:
    """The page of a list that a `query`, as PageSchema loads it, asks for; `position` has the attributes in its cursor.

    `read` gets the query, with `after` for the cursor: its values, or its value. Raises ServiceError (422).
    """
    cursor, limit, cursors = query["cursor"], query["limit"], URLSafeSerializer(str(current_app.secret_key), name)
    try:  # it is signed, so that no other values than those of a row arrive
        after = None if cursor is None else tuple(cursors.loads(cursor))
    except BadData as error:
        message, hint = "Not a valid cursor for this list.", "Send the value of next_cursor unchanged."
        raise invalid_field("query", "cursor", message, hint=hint) from error
    filters = {field: value for field, value in query.items() if field != "cursor"}
    found = read(**{**filters, "limit": limit + 1, "after": after[0] if after and len(after) == 1 else after})
    last = [getattr(found[limit - 1], part) for part in position] if len(found) > limit else None
    return {name: found[:limit], "next_cursor": last and cursors.dumps(last)}


def compressed(response: flask.Response) -> flask.Response:
    """The handler that a blueprint registers with `after_request` to have its large responses compressed.

    Compressing a page that contains both a secret and text from the request can reveal the secret (BREACH). The CSRF
    token of Flask-WTF is signed again every second, so it is not constant. A page that shows a new key stays as it is.
    """
    if response.is_streamed and (response.mimetype or "").startswith("text/"):
        # Flask-Compress does not close a file that it streams: read a style sheet or script into memory first.
        response.direct_passthrough = False
        response.get_data()
    return response if "shows_new_key" in g else _compress.after_request(response)


def is_storable(text: str) -> bool:
    """Whether `text` can be encoded as UTF-8, which half of a surrogate pair cannot."""
    return text.encode(errors="ignore").decode() == text


def normalized(name: str) -> str:
    """`name` in the Unicode form NFC, in which jobs are stored: the same text can be typed in several forms."""
    return name if name.isascii() else unicodedata.normalize("NFC", name)


def check_zone(zone: str) -> None:
    if times.find_zone(zone) is None:
        raise ma.ValidationError(f'"{zone}" is not a known time zone. Use a name such as Europe/Berlin.')


class Text(ma.fields.String):
    """Text of `shortest` to `longest` characters (None: any number) that can be encoded as UTF-8."""

    def __init__(self, shortest: int, longest: int | None, **kwargs: Any) -> None:
        super().__init__(validate=ma.validate.Length(shortest, longest), **kwargs)

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> str:
        text: str = super()._deserialize(value, attr, data, **kwargs)
        if not is_storable(text):
            raise ma.ValidationError("Not valid Unicode.")
        return text


class JobFilterSchema(Schema):
    """What limits something to some jobs: those that match all fields that are not null."""

    _PREFIX = about("Only jobs whose name begins like this; null for all.", None)
    job_prefix = Text(1, 200, allow_none=True, post_load=normalized, metadata=_PREFIX)
    host, service, project = (
        Text(1, 200, allow_none=True, metadata=about(f"Only jobs of this {what}; null for all.", None))
        for what in PLACE
    )


class Flag(ma.fields.Bool):
    """true or false; marshmallow's also accepts 1, "yes" and others."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> bool:
        if not isinstance(value, bool):
            raise self.make_error("invalid", input=value)
        return value


class WholeNumber(ma.fields.Integer):
    """A whole number in JSON; 5.0 is accepted as 5, but text and booleans are not."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> int:
        if isinstance(value, str) or (isinstance(value, float) and not value.is_integer()):
            raise self.make_error("invalid", input=value)
        return int(super()._deserialize(value, attr, data, **kwargs))


class Time(ma.fields.Field[int]):
    """A time: ISO 8601 in JSON, milliseconds since the epoch in Python."""

    def _serialize(self, value: int | None, attr: str | None, obj: Any, **kwargs: Any) -> str | None:
        return times.format_optional_ms(value)

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> int:
        try:
            return times.parse_iso(value)
        except ValueError as error:
            raise ma.ValidationError(str(error)) from error


def time_of_query(name: str, text: str | None, now_ms: int) -> int | None:
    """Parse the query parameter `name`: ISO 8601, or relative to now such as ``-24h``. Raises ServiceError (422)."""
    if text is None:
        return None
    try:
        return times.parse_time(text, now_ms)
    except ValueError as error:
        raise invalid_field("query", name, str(error)) from error
