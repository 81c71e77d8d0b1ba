"""The client of a request: its address, also behind proxies that the operator trusts."""

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any

from obs.config import ConfigError
from obs.server.middleware import Wsgi

_CLIENT = "obs.client_address"


def client_address(environ: Mapping[str, Any]) -> str:
    """The IP address of the client of a WSGI request. A trusted proxy reports it; else it is the address that sends."""
    address: str = environ.get(_CLIENT) or environ.get("REMOTE_ADDR", "")
    return address


def client_network(environ: Mapping[str, Any]) -> str:
    """The network that limits count as one client: the IPv4 address, or the /64 of the IPv6 address."""
    address = _parse(client_address(environ))
    return str(ip_network((address, 64), strict=False) if isinstance(address, IPv6Address) else address)


def trust_proxies(setting: str) -> Callable[[Wsgi], Wsgi]:
    """The middleware for TRUSTED_PROXIES: IP addresses and networks, separated by spaces or commas.

    In requests from these, the client, the scheme and the host come from the X-Forwarded- headers. The client is the
    last address in X-Forwarded-For that is not trusted: what precedes it is the client's own claim. In all other
    requests the headers are ignored. Raises ConfigError.
    """
    try:
        networks = [ip_network(text) for text in setting.replace(",", " ").split()]
    except ValueError as error:
        raise ConfigError(f"TRUSTED_PROXIES must be IP addresses or networks: {error}") from error

    @lru_cache(maxsize=1_000)
    def trusts(text: str) -> bool:
        address = _parse(text)
        return address is not None and any(address in network for network in networks)

    def layer(app: Wsgi) -> Wsgi:
        def forwarded(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
            client = environ.get("REMOTE_ADDR", "")
            if trusts(client):
                *_, scheme = environ.get("HTTP_X_FORWARDED_PROTO", "").split(",")
                *_, host = environ.get("HTTP_X_FORWARDED_HOST", "").split(",")
                environ["HTTP_HOST"] = host.strip() or environ.get("HTTP_HOST", "")
                if scheme.strip() in ("http", "https"):
                    environ["wsgi.url_scheme"] = scheme.strip()
                hops = environ.get("HTTP_X_FORWARDED_FOR", "").split(",")
                while trusts(client) and hops and (address := _parse(hops.pop().strip())):
                    client = str(address)
                environ[_CLIENT] = client
            return app(environ, start_response)

        return forwarded if networks else app

    return layer


def _parse(text: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
