"""The format of keys, scopes, slugs and names of users. Pure."""

import hashlib
import re
import secrets
import string
from collections.abc import Collection

SCOPES = ("heartbeat:write", "annotations:read", "annotations:write", "query:read", "admin")
DEFAULT_SCOPES = SCOPES[:1]  # enough for heartbeats: a key is often in a crontab, where others may read it
PING = "ping"  # the only scope of a key that is sent in URLs, in the protocols of other monitors
ANY = "any"  # what a request needs that every other key may make
ROLES = {"reader": frozenset({"query:read"}), "admin": frozenset({"admin"})}  # of users, with their scopes
USER_NAME = re.compile(r"[a-z0-9][a-z0-9._@+-]{0,99}\Z", re.ASCII | re.IGNORECASE)
SLUG = re.compile(r"[a-z0-9][a-z0-9-]{0,62}", re.ASCII)


def new_key(org: str, scopes: Collection[str]) -> str:
    """Generate a key: ``obs_<org>_<32 random base62 characters>``; for pings 32 hexadecimal digits, as Sentry's are."""
    if PING in scopes:
        return secrets.token_hex(16)
    return f"obs_{org}_{''.join(secrets.choice(string.digits + string.ascii_letters) for _ in range(32))}"  # 190 bits


def digest(secret: str) -> bytes:
    """The SHA-256 under which a secret is stored. A plain hash is enough for one that is long and random."""
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()


def allows(scopes: Collection[str], scope: str) -> bool:
    return scope in scopes or "admin" in scopes or (scope == ANY and PING not in scopes)
