"""The request and the response of the query endpoint."""

from typing import Any

import marshmallow as ma

from obs.api import Schema, is_storable


class _Statement(ma.fields.String):
    """An OQL statement. Its length is checked later: a statement that is too long is an error of the language."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> str:
        text: str = super()._deserialize(value, attr, data, **kwargs)
        if not is_storable(text):
            raise ma.ValidationError("Not valid Unicode.")
        return text


class QuerySchema(Schema):
    """The body of POST /api/v1/dsl."""

    query = _Statement(
        required=True,
        metadata={"description": "An OQL statement.", "example": "SELECT count(*) FROM runs EVERY 1h LAST 1d"},
    )


class QueryResultSchema(Schema):
    """The result of a statement."""

    output_type = ma.fields.String(
        metadata={"description": "The natural presentation: timeseries, table, single_value or bar."},
        validate=ma.validate.OneOf(["timeseries", "table", "single_value", "bar"]),
    )
    columns = ma.fields.List(ma.fields.String(), metadata={"description": "The names of the columns."})
    rows = ma.fields.List(
        ma.fields.List(ma.fields.Raw(allow_none=True)),
        metadata={"description": "One list of cells per row. A cell is a text, a number, a boolean or null."},
    )
