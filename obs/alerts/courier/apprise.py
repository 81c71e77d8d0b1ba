"""The channel ``apprise``: about 180 services behind the URLs of the Apprise library."""

import logging
import re
from io import StringIO
from typing import Any
from urllib.parse import unquote, urlsplit

import apprise as library

from . import Order, RefusedError

LOCAL_SCHEMAS = frozenset({"syslog", "dbus", "qt", "kde", "glib", "gio", "gnome", "macosx", "windows", "blink1"})
"""Services of the machine itself, which no channel may use."""
REFUSED_PARAMETERS = frozenset(  # of a URL: they open files or change timeouts
    {"template", "keyfile", "pgppub", "pgpprv", "subfile", "cto", "rto", "retry", "wait", "store", "config"}
)
_LOG = StringIO()
_MEMORY = library.PersistentStoreMode.MEMORY
_DISABLED: dict[str, Any] = {
    **dict.fromkeys(("async_mode", "http_redirects", "pgp_autogen", "pem_autogen"), False),
    **dict.fromkeys(("app_url", "image_url_mask", "image_url_logo"), ""),
}
_ASSET = library.AppriseAsset(app_id="obs", app_desc="obs", service_timeout=0, storage_mode=_MEMORY, **_DISABLED)


def send(order: Order) -> tuple[bool, str, int]:
    """Send the message in the format that the service prefers, or as the beginning of the plain text if it is long."""
    service, message = _service(order["address"]), order["message"]
    formats = service.notify_format  # one, or several in the order of preference
    wanted = library.NotifyFormat(formats[0] if isinstance(formats, tuple | list) else formats)
    # Without a field for the title, the library puts it into the text as it is, whatever the format.
    title, texts = (message["title"], message) if service.title_maxlen > 0 else ("", message["titled"])
    text, room = texts.get(wanted.value, texts["plain"]), service.body_maxlen - len(title)
    if len(text) > room:  # half of it: the library may escape each character
        text, wanted = texts["plain"][: room // 2].rpartition("\n")[0] + "\n...", library.NotifyFormat.TEXT
    kind = library.NotifyType.SUCCESS if order["is_good"] else library.NotifyType.FAILURE
    sender = library.Apprise(asset=_ASSET)
    sender.add(service)
    if sender.notify(body=text, title=title, notify_type=kind, body_format=wanted):
        return True, "Accepted.", 0
    return False, _said() or "The service did not accept the message.", 0


def check(address: str) -> tuple[str, str | None]:
    """The schema, and the host where such a URL names one; anything else may be a secret. Raises RefusedError."""
    schema = address.partition("://")[0].strip().lower()
    if not any("{host}" in template for template in _service(address).templates):
        return f"{schema}://***", None
    host = urlsplit(address).hostname
    if host is None or not ("." in host or ":" in host):  # such as ntfy://topic, whose host is the topic
        return f"{schema}://***", host
    user = "***@" if "@" in address.partition("://")[2].partition("?")[0] else ""
    return f"{schema}://{user}{f'[{host}]' if ':' in host else host}/***", host


def _service(address: str) -> Any:
    """The service behind an address. Raises RefusedError."""
    schema, separator, rest = address.partition("://")
    schema = schema.strip().lower()
    if not separator or not schema:
        raise RefusedError("Not an Apprise URL such as ntfy://ntfy.sh/my-topic.")
    if schema in LOCAL_SCHEMAS:
        raise RefusedError(f"{schema}:// shows messages on the server itself and is not allowed.")
    for name in re.findall(r"(?:^|&)\s*([^=&]*)", rest.partition("?")[2]):
        if unquote(name).strip().lower().lstrip("+-:") in REFUSED_PARAMETERS:
            raise RefusedError(f"The parameter {name.strip()} is not allowed in the address.")
    service = library.Apprise.instantiate(address, asset=_ASSET)
    if not isinstance(service, library.NotifyBase):
        raise RefusedError(_said() or f"Apprise does not know a service {schema}://, or the URL is incomplete.")
    if getattr(service, "topics", None) == []:
        raise RefusedError("The URL has no topic, such as my-topic in ntfy://ntfy.sh/my-topic.")
    return service


def _said() -> str:
    """What Apprise has logged in this process, in a line."""
    return " ".join(_LOG.getvalue().split())


_handler = logging.StreamHandler(_LOG)  # what a mail server said is logged for debugging only
_handler.addFilter(lambda r: r.levelno >= logging.WARNING or ("/email/" in r.pathname and "Exception" in str(r.msg)))
logging.getLogger("apprise").addHandler(_handler)
logging.getLogger("apprise").setLevel(logging.DEBUG)
# Apprise loads its 150 modules with the first address: once, and not in the process of each attempt.
library.Apprise.instantiate("json://example.com")
