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

    def read_headers(environ: dict[str, Any]) -> None:
        client = environ["REMOTE_ADDR"]
        for text in reversed(environ.get("HTTP_X_FORWARDED_FOR", "").split(",")):
            address = _parse(text.strip())
            if address is None or not trusts(client):
                break
            client = str(address)
        environ[_CLIENT] = client
        scheme, host = (_last(environ, f"HTTP_X_FORWARDED_{name}") for name in ("PROTO", "HOST"))
        if scheme in ("http", "https"):
            environ["wsgi.url_scheme"] = scheme
        if host:
            environ["HTTP_HOST"] = host

    def layer(app: Wsgi) -> Wsgi:
        def forwarded(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
            if trusts(environ.get("REMOTE_ADDR", "")):
                read_headers(environ)
            return app(environ, start_response)

        return forwarded if networks else app

    return layer


def _parse(text: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _last(environ: Mapping[str, Any], name: str) -> str:
    """The last value of a header: the one that the nearest proxy added."""
    return str(environ.get(name, "")).rpartition(",")[2].strip()
