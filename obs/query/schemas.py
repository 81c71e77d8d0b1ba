"""What the query endpoint takes and gives."""

from typing import Any

import marshmallow as ma

from obs.api import Schema, is_storable


class _Statement(ma.fields.String):
    """An OQL statement; how long it may be is checked later, because that is an error of the language."""

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


class AnswerSchema(Schema):
    """The answer to a statement."""

    output_type = ma.fields.String(
        metadata={"description": "The natural shape: timeseries, table, single_value or bar."},
        validate=ma.validate.OneOf(["timeseries", "table", "single_value", "bar"]),
    )
    columns = ma.fields.List(ma.fields.String(), metadata={"description": "The names of the columns."})
    rows = ma.fields.List(
        ma.fields.List(ma.fields.Raw(allow_none=True)),
        metadata={"description": "A list of cells for each row: text, number, boolean or null."},
    )
