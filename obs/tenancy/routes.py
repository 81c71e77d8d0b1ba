"""Keys over HTTP: managing them, which needs the scope ``admin``, and what a key gives access to."""

from typing import Any

from obs.api import Blueprint
from obs.services import services
from obs.tenancy import schemas, service, store
from obs.tenancy.auth import caller, requires
from obs.tenancy.keys import ANY

blp = Blueprint("keys", __name__, url_prefix="/api/v1/keys", description="API keys of the organization.")
me_blp = Blueprint("me", __name__, url_prefix="/api/v1/me", description="The key of the request.")


@me_blp.route("", methods=["GET"])
@requires(ANY)
@me_blp.response(200, schemas.MeSchema)
def get_me() -> dict[str, Any]:
    """Get the organization and the key of the request"""
    with services().tenancy.control.read() as db:
        key = next(key for key in store.keys_of(db, caller().org) if key.id == caller().key_id)
    return {"organization": caller().org.slug, "key": key}


@blp.route("", methods=["GET"])
@requires("admin")
@blp.response(200, schemas.KeyListSchema)
def list_keys() -> dict[str, Any]:
    """List the organization's keys

    Includes revoked keys, oldest first. The keys themselves are not stored and cannot be shown.
    """
    tenancy = services().tenancy
    with tenancy.control.read() as db:
        keys = store.keys_of(db, caller().org)
    return {"keys": tenancy.keyring.with_last_use(keys)}


@blp.route("", methods=["POST"])
@requires("admin")
@blp.arguments(schemas.KeyRequestSchema)
@blp.response(201, schemas.NewKeySchema)
def create_key(fields: dict[str, Any]) -> service.NewKey:
    """Create a key

    The response contains the key itself. It cannot be shown again.
    """
    return service.create_key(services().tenancy, caller().org, actor=caller().actor, **fields)


@blp.route("/<int(max=9223372036854775807):key_id>", methods=["DELETE"])
@requires("admin")
@blp.response(204)
def revoke_key(key_id: int) -> None:
    """Revoke a key

    It is rejected immediately by this process, and within a second by any other.
    """
    service.revoke_key(services().tenancy, caller().org, key_id, actor=caller().actor)
