"""Keys over HTTP, for keys with the scope ``admin``."""

from typing import Any

from obs.api import Blueprint
from obs.errors import ServiceError, invalid_field
from obs.tenancy import schemas, store
from obs.tenancy.auth import caller, requires, tenancy

blp = Blueprint("keys", __name__, url_prefix="/api/v1/keys", description="API keys of the organization.")


@blp.route("", methods=["GET"])
@requires("admin")
@blp.response(200, schemas.KeyListSchema)
def list_keys() -> dict[str, Any]:
    """List the organization's keys

    The revoked ones too, oldest first. The keys themselves are not stored and not shown.
    """
    with tenancy().control.read() as db:
        keys = store.keys_of(db, caller().org)
    return {"keys": tenancy().keyring.with_last_use(keys)}


@blp.route("", methods=["POST"])
@requires("admin")
@blp.arguments(schemas.KeyRequestSchema)
@blp.response(201, schemas.NewKeySchema)
def create_key(fields: dict[str, Any]) -> dict[str, Any]:
    """Make a key

    The answer holds the key itself, this once.
    """
    now_ms, org = caller().now_ms, caller().org
    if fields["expires_at"] is not None and fields["expires_at"] <= now_ms:
        raise invalid_field("json", "expires_at", "Must be in the future.")
    scopes = tuple(dict.fromkeys(fields["scopes"]))
    added = tenancy().control.write(
        lambda db: store.add_key(db, org, fields["label"], scopes, fields["expires_at"], now_ms)
    )
    if added is None:
        raise ServiceError("unauthorized", "The organization is gone.", headers={"WWW-Authenticate": "ApiKey"})
    tenancy().keyring.reload()
    key_id, secret = added
    return {"id": key_id, "key": secret, **fields, "scopes": scopes, "created_at": now_ms}


@blp.route("/<int(max=9223372036854775807):key_id>", methods=["DELETE"])
@requires("admin")
@blp.response(204)
def revoke_key(key_id: int) -> None:
    """Revoke a key

    It is refused from now on, by this process at once and by any other within a second.
    """
    context, now_ms = caller(), caller().now_ms
    if not tenancy().control.write(lambda db: store.revoke_key(db, context.org, key_id, now_ms)):
        raise ServiceError("key_not_found", f"There is no valid key of the id {key_id}.")
    tenancy().keyring.reload()
