"""The ingest address of an organization: by path (``/in/<org>``) or by host name, as INGEST_URL_TEMPLATE says."""

import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

from obs.config import ConfigError
from obs.server.middleware import Wsgi

ENVIRON_ORG = "obs.ingest_org"
"""The key in the WSGI environment for the organization whose ingest address a request used."""

_ORG = r"(?P<org>[^/.]+)"


class IngestAddress:
    """Builds the ingest addresses of organizations, and recognizes them in requests."""

    def __init__(self, template: str, base_url: str) -> None:
        """`base_url` has no trailing slash. Raises ConfigError for a template that does not contain ``{org}`` once."""
        url = urlsplit(template.replace("{base_url}", base_url))
        if template.count("{org}") != 1 or "{org}" not in url.netloc + url.path or not url.scheme:
            raise ConfigError(f"INGEST_URL_TEMPLATE must be a URL that contains {{org}} once, not {template!r}")
        self._template = template
        self._base_url = base_url
        self._host = self._path = None
        if "{org}" in url.netloc:
            host = re.escape(url.hostname or "").replace(re.escape("{org}"), _ORG)
            self._host = re.compile(host, re.IGNORECASE)
        else:
            path = url.path.removeprefix(urlsplit(base_url).path) if "{base_url}" in template else url.path
            self._path = re.compile(re.escape(path.rstrip("/")).replace(re.escape("{org}"), _ORG) + r"(?=/)")

    def url(self, org: str) -> str:
        """The ingest address of `org`. Clients append the paths of the API to it."""
        return self._template.replace("{base_url}", self._base_url).replace("{org}", org).rstrip("/")

    def recognize(self, app: Wsgi) -> Wsgi:
        """The WSGI application that notes the organization of the address, and passes the path after it to `app`."""

        in_path, in_host = self._path, self._host

        def noted(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
            if in_path is not None and (match := in_path.match(environ["PATH_INFO"])):
                environ[ENVIRON_ORG] = match["org"]
                environ["SCRIPT_NAME"] = environ.get("SCRIPT_NAME", "") + match[0]
                environ["PATH_INFO"] = environ["PATH_INFO"][match.end() :]
            if in_host is not None and (match := in_host.fullmatch(environ.get("HTTP_HOST", "").partition(":")[0])):
                environ[ENVIRON_ORG] = match["org"].lower()
            return app(environ, start_response)

        return noted
