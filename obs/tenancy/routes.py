"""Keys over HTTP: managing them, which needs the scope ``admin``, and what a key gives access to."""

from typing import Any

import marshmallow as ma

from obs.api import ROW_ID, Blueprint, Schema, Text, Time, list_of, schema_of
from obs.services import services
from obs.tenancy import service, store
from obs.tenancy.auth import caller, operation
from obs.tenancy.keys import ANY, DEFAULT_SCOPES, PING, ROLES, SCOPES, USER_NAME

blp = Blueprint("keys", __name__, url_prefix="/api/v1/keys", description="API keys of the organization.")
me_blp = Blueprint("me", __name__, url_prefix="/api/v1/me", description="The key of the request.")
_SCOPES = ma.fields.List(ma.fields.Str(), metadata={"example": ["heartbeat:write"]})
KeySchema = schema_of(store.Key, leave_out={"org", "key"}, scopes=_SCOPES)
NewKeySchema = schema_of(store.Key, "NewKey", {"org"}, scopes=_SCOPES)


class MeSchema(Schema):
    organization = ma.fields.Str(metadata={"example": "acme"})
    key = ma.fields.Nested(KeySchema)


class KeyRequestSchema(Schema):
    label = Text(1, 200, required=True, metadata={"example": "backup server"})
    scopes = ma.fields.List(
        ma.fields.Str(validate=ma.validate.OneOf((*SCOPES, PING))),
        load_default=list(DEFAULT_SCOPES),
        validate=ma.validate.Length(1, error="Choose at least one scope."),
        metadata={"description": "What the key may do. Default: only `heartbeat:write`.", "example": [*DEFAULT_SCOPES]},
    )
    expires_at = Time(load_default=None, allow_none=True, metadata={"description": "Default: the key never expires."})


class UserSchema(Schema):
    """The fields of a new user, or those that change."""

    name = ma.fields.Str(required=True, validate=ma.validate.Regexp(USER_NAME, error="Use a-z, 0-9 and ._@+-"))
    role = ma.fields.Str(validate=ma.validate.OneOf(ROLES))
    password = Text(8, 1_000)


@operation(me_blp, "GET", ANY, MeSchema)
def get_me() -> dict[str, Any]:
    """Get the organization and the key of the request"""
    keys = services().tenancy.keyring.keys_of(caller().org)
    return {"organization": caller().org.slug, "key": next(key for key in keys if key.id == caller().key_id)}


@operation(blp, "GET", "admin", list_of("keys", KeySchema))
def list_keys() -> dict[str, Any]:
    """List the organization's keys

    Includes revoked keys, oldest first. The keys themselves are not stored and cannot be shown.
    """
    return {"keys": services().tenancy.keyring.keys_of(caller().org)}


@operation(blp, "POST", "admin", NewKeySchema, status=201, body=KeyRequestSchema)
def create_key(fields: dict[str, Any]) -> store.Key:
    """Create a key. Only this response contains it."""
    return service.create_key(services().tenancy, caller().org, actor=caller().actor, **fields)


@operation(blp, f"DELETE /<{ROW_ID}:key_id>", "admin", status=204)
def revoke_key(key_id: int) -> None:
    """Revoke a key

    It is rejected immediately by this process, and within a second by any other.
    """
    service.revoke_key(services().tenancy, caller().org, key_id, actor=caller().actor)
