"""What a process that sends a message may do: connect to allowed addresses, read Python's own files, nothing else.

The rules apply to whatever library sends it: an audit hook (PEP 578) sees each resolved address, and each file to open.
"""

import ipaddress
import os
import socket
import sys
import sysconfig
from typing import Any

from . import RefusedError

_SETTING = "OBS_ALLOW_PRIVATE_TARGETS=1"
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_PYTHON = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
_SYSTEM = ["/etc/ssl", "/etc/hosts", "/etc/resolv.conf", "/etc/mime.types", "/usr/share/zoneinfo", "/dev/urandom"]
_READABLE = tuple(map(os.path.realpath, [*_PYTHON, os.path.dirname(__file__), *_SYSTEM]))
_STARTS = ("subprocess.Popen", "os.exec", "os.posix_spawn", "os.spawn", "os.system", "os.fork", "ctypes.dlopen")
_CHANGES = ("os.mkdir", "os.remove", "os.rename", "os.symlink", "os.link", "os.kill", "sqlite3.connect", "socket.bind")
_WRITE_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def is_public(address: str) -> bool:
    """Whether an IP address is on the public internet: not local, private, reserved, or one for metadata.

    Raises ValueError for anything else, such as a name, which could be resolved to something else after the check.
    """
    ip: ipaddress.IPv4Address | ipaddress.IPv6Address = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        translated = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF) if ip in _NAT64 else None
        ip = ip.ipv4_mapped or ip.sixtofour or translated or ip
    return ip.is_global and not ip.is_multicast


def check_host(host: str) -> None:
    """Raise RefusedError where `host` is, or is known under, an address that is not public."""
    try:
        found = {str(info[4][0]) for info in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
    except (OSError, UnicodeError):
        return  # not known now: the hook decides when a message is sent
    if not all(map(is_public, found)):
        raise RefusedError(f"{host} is on this machine or on a private network. Set {_SETTING} to allow this.")


def restrict(*, allow_private: bool) -> None:
    """Apply the rules to this process from now on. With `allow_private`, it may connect to any IP address."""

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event in ("socket.connect", "socket.sendto", "socket.sendmsg") and (address := arguments[1]) is not None:
            if not isinstance(address, tuple) or not (allow_private or is_public(str(address[0]))):
                raise PermissionError(f"{address} is not a public address. Set {_SETTING} to allow this.")
        elif event == "open" and not isinstance(arguments[0], int):
            path, mode, flags = os.fsdecode(arguments[0]), str(arguments[1]), arguments[2]
            writes = bool(flags & _WRITE_FLAGS) if isinstance(flags, int) else any(sign in mode for sign in "wax+")
            real = os.path.realpath(path)
            if real != os.devnull and (writes or not real.startswith(_READABLE)):
                raise PermissionError(f"The file {path} may not be opened.")
        elif event in _STARTS + _CHANGES:
            raise PermissionError(f"{event} is not allowed")

    sys.addaudithook(hook)
