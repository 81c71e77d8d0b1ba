"""Keys as JSON. The limits here are for the OpenAPI document: `obs.tenancy.service` enforces them."""

import marshmallow as ma

from obs.api import Schema, Time
from obs.tenancy.keys import DEFAULT_SCOPES, PING, SCOPES
from obs.tenancy.service import LONGEST_LABEL


class KeySchema(Schema):
    id = ma.fields.Int(metadata={"description": "Used to revoke the key.", "example": 7})
    label = ma.fields.Str(metadata={"description": "What the key is for.", "example": "backup server"})
    scopes = ma.fields.List(ma.fields.Str(), metadata={"example": ["heartbeat:write"]})
    created_at = Time()
    expires_at = Time(allow_none=True)
    revoked_at = Time(allow_none=True)
    last_used_at = Time(allow_none=True)


class NewKeySchema(KeySchema):
    key = ma.fields.Str(metadata={"description": "The key. It is not stored and cannot be shown again."})


class MeSchema(Schema):
    organization = ma.fields.Str(metadata={"example": "acme"})
    key = ma.fields.Nested(KeySchema)


class KeyListSchema(Schema):
    keys = ma.fields.List(ma.fields.Nested(KeySchema))


class KeyRequestSchema(Schema):
    label = ma.fields.Str(
        required=True, metadata={"minLength": 1, "maxLength": LONGEST_LABEL, "example": "backup server"}
    )
    scopes = ma.fields.List(
        ma.fields.Str(metadata={"enum": [*SCOPES, PING]}),
        load_default=list(DEFAULT_SCOPES),
        metadata={
            "minItems": 1,
            "description": "What the key may do. Default: only `heartbeat:write`.",
            "example": ["heartbeat:write"],
        },
    )
    expires_at = Time(load_default=None, allow_none=True, metadata={"description": "Default: the key never expires."})
