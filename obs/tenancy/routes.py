"""Keys over HTTP, for keys with the scope ``admin``."""

from typing import Any

from obs.api import Blueprint
from obs.services import services
from obs.tenancy import schemas, service, store
from obs.tenancy.auth import caller, requires

blp = Blueprint("keys", __name__, url_prefix="/api/v1/keys", description="API keys of the organization.")


@blp.route("", methods=["GET"])
@requires("admin")
@blp.response(200, schemas.KeyListSchema)
def list_keys() -> dict[str, Any]:
    """List the organization's keys

    The revoked ones too, oldest first. The keys themselves are not stored and not shown.
    """
    tenancy = services().tenancy
    with tenancy.control.read() as db:
        keys = store.keys_of(db, caller().org)
    return {"keys": tenancy.keyring.with_last_use(keys)}


@blp.route("", methods=["POST"])
@requires("admin")
@blp.arguments(schemas.KeyRequestSchema)
@blp.response(201, schemas.NewKeySchema)
def create_key(fields: dict[str, Any]) -> dict[str, Any]:
    """Make a key

    The answer holds the key itself, this once.
    """
    created = service.create_key(services().tenancy, caller().org, **fields)
    return {
        "key": created.secret,
        **fields,
        "id": created.id,
        "scopes": created.scopes,
        "created_at": created.created_at,
    }


@blp.route("/<int(max=9223372036854775807):key_id>", methods=["DELETE"])
@requires("admin")
@blp.response(204)
def revoke_key(key_id: int) -> None:
    """Revoke a key

    It is refused from now on, by this process at once and by any other within a second.
    """
    service.revoke_key(services().tenancy, caller().org, key_id)
