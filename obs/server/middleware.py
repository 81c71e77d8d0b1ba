"""The layers of the WSGI stack for trusted proxies and for ingest addresses."""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any
from urllib.parse import urlsplit

from obs.config import ConfigError

Wsgi = Callable[[dict[str, Any], Any], Iterable[bytes]]
Layer = Callable[[Wsgi, dict[str, Any], Any], Iterable[bytes]]  # gets the application behind it first
ENVIRON_ORG = "obs.ingest_org"  # in the WSGI environment: the organization whose ingest address was used
SIGNED_IN_AS = "obs.signed_in_as"  # in the WSGI environment: the user whom a trusted proxy has signed in
_CLIENT = "obs.client_address"
_PORT = re.compile(r"^\[(.*)\](?::\d+)?$|^([\d.]+):\d+$")  # Azure and IIS add it to the address


def utf8(text: str) -> str:
    """A text of a WSGI environment as the client sent it: WSGI decodes it as Latin-1, clients send UTF-8."""
    return text if text.isascii() else text.encode("latin-1").decode("utf-8", "replace")


def client_address(environ: Mapping[str, Any]) -> str:
    """The IP address of the client of a WSGI request. A trusted proxy reports it; else it is the address that sends."""
    return str(environ.get(_CLIENT) or environ.get("REMOTE_ADDR", ""))


def client_network(environ: Mapping[str, Any]) -> str:
    """The network that limits count as one client: the IPv4 address, or the /64 of the IPv6 address."""
    address = _parse(client_address(environ))
    return str(ip_network((address, 64), strict=False) if isinstance(address, IPv6Address) else address)


def trust_proxies(setting: str, auth_header: str) -> Layer:
    """The middleware for TRUSTED_PROXIES: IP addresses and networks, separated by spaces or commas.

    Only in requests from these, the client, the scheme and the host come from the X-Forwarded- headers, and the user
    from `auth_header`, if any. The client is the last untrusted address in X-Forwarded-For. Raises ConfigError.
    """
    try:
        networks = [ip_network(text) for text in setting.replace(",", " ").split()]
    except ValueError as error:
        raise ConfigError(f"TRUSTED_PROXIES must be IP addresses or networks: {error}") from error
    if auth_header and not networks:
        raise ConfigError("TRUSTED_AUTH_HEADER needs the addresses of the proxies that set it: TRUSTED_PROXIES")
    user = "HTTP_" + auth_header.upper().replace("-", "_")

    @lru_cache(maxsize=1_000)
    def trusts(text: str) -> bool:
        address = _parse(text)
        return address is not None and any(address in network for network in networks)

    def forwarded(app: Wsgi, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        client = environ.get("REMOTE_ADDR", "")
        if networks and trusts(client):
            *_, scheme = environ.get("HTTP_X_FORWARDED_PROTO", "").split(",")
            *_, host = environ.get("HTTP_X_FORWARDED_HOST", "").split(",")
            environ["HTTP_HOST"] = host.strip() or environ.get("HTTP_HOST", "")
            if scheme.strip() in ("http", "https"):
                environ["wsgi.url_scheme"] = scheme.strip()
            hops = environ.get("HTTP_X_FORWARDED_FOR", "").split(",")
            while trusts(client) and hops and (address := _parse(hops.pop().strip())):
                client = str(address)
            environ[_CLIENT] = client
            environ[SIGNED_IN_AS] = environ.get(user, "")
        return app(environ, start_response)

    return forwarded


def _parse(text: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(_PORT.sub(r"\1\2", text))
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


class IngestAddress:
    """The ingest address of each organization: by path (``/in/<org>``) or by host name, as INGEST_URL_TEMPLATE says."""

    def __init__(self, template: str, base_url: str) -> None:
        """`base_url` has no trailing slash. Raises ConfigError for a template that does not contain ``{org}`` once."""
        self._url = template.replace("{base_url}", base_url)
        url = urlsplit(self._url)
        if template.count("{org}") != 1 or "{org}" not in url.netloc + url.path or not url.scheme:
            raise ConfigError(f"INGEST_URL_TEMPLATE must be a URL that contains {{org}} once, not {self._url!r}")
        self._is_host = "{org}" in url.netloc
        path = url.path.removeprefix(urlsplit(base_url).path) if "{base_url}" in template else url.path
        pattern = re.escape(url.hostname or "") + r"\Z" if self._is_host else re.escape(path.rstrip("/")) + "(?=/)"
        self._pattern = re.compile(pattern.replace(re.escape("{org}"), r"(?P<org>[^/.]+)"))

    def url(self, org: str) -> str:
        """The ingest address of `org`. Clients append the paths of the API to it."""
        return self._url.replace("{org}", org).rstrip("/")

    def recognize(self, app: Wsgi, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """The layer that notes the organization of the address, and passes only the path after it to `app`."""
        address = environ.get("HTTP_HOST", "").partition(":")[0].lower() if self._is_host else environ["PATH_INFO"]
        if match := self._pattern.match(address):
            environ[ENVIRON_ORG] = match["org"]
            if not self._is_host:
                environ["SCRIPT_NAME"] = environ.get("SCRIPT_NAME", "") + match[0]
                environ["PATH_INFO"] = environ["PATH_INFO"][match.end() :]
        return app(environ, start_response)
