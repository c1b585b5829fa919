"""Addresses of receivers: http and https only, spelled the one way that nobody can misread."""

import ipaddress
import re
from typing import Any

import msgspec

from virtflow.model.address import Address
from virtflow.model.limits import URL_LENGTH_MAX

URL_RULE = "http:// or https://, a host, perhaps a port, a path and a query"
#: a user, a fragment, a backslash, a space or a character beyond ASCII has no place here
_URL = re.compile(
    r"(?P<scheme>https?)://(?P<host>\[[0-9a-f:.]+\]|[a-z0-9_.-]+)(?::(?P<port>[0-9]{1,5}))?"
    r"(?P<path>/[!$%&'()*+,./0-9:;=@A-Z_a-z~-]*)?(?P<query>\?[!$%&'()*+,./0-9:;=?@A-Z_a-z~-]*)?",
    re.ASCII,
)
_BEGINNING = re.compile(r"[A-Za-z]+://[^/?#]*", re.ASCII)
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?", re.ASCII)
_HOST_LENGTH_MAX = 253
_PORTS = {"http": 80, "https": 443}


class Url(msgspec.Struct, frozen=True, kw_only=True):
    """Taken apart, and judged."""

    scheme: str
    #: a name, or an address without brackets
    host: str
    port: int
    #: path and query
    target: str
    #: when the host is written as one
    address: Any = None

    @property
    def authority(self) -> str:
        """Host and port as the Host header has them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        """Without what may be a secret."""
        return f"{self.scheme}://{self.authority}"


def read_url(text: str) -> Url:
    """ValueError says in words what is wrong."""
    if len(text) > URL_LENGTH_MAX:
        raise ValueError(f"must be at most {URL_LENGTH_MAX} characters long, not {len(text)}")
    # scheme and host may be written in capitals, the rest means what it says
    found = _URL.fullmatch(_BEGINNING.sub(lambda beginning: beginning[0].lower(), text, count=1))
    if found is None:
        raise ValueError(f"must be {URL_RULE}; no user, no fragment")
    scheme, host = found["scheme"], found["host"]
    port = int(found["port"]) if found["port"] else _PORTS[scheme]
    if not 0 < port < 65_536:
        raise ValueError("must name a port from 1 to 65535")
    address = _address(host)
    if address is None and not _is_host_name(host):
        raise ValueError("must name a host by its name, or by its address in the usual form")
    return Url(
        scheme=scheme,
        host=str(address) if address is not None else host,
        port=port,
        target=(found["path"] or "/") + (found["query"] or ""),
        address=address,
    )


def _address(host: str) -> Address | None:
    """Of a host written as an address, in the usual form."""
    try:
        return ipaddress.IPv6Address(host[1:-1]) if host.startswith("[") else ipaddress.IPv4Address(host)
    except ValueError:
        return None


def _is_host_name(host: str) -> bool:
    """Names whose last label is a number are addresses in disguise: 127.1, 0x7f000001, 2130706433."""
    labels = host.split(".")
    last = labels[-1]
    disguised = last.isdecimal() or re.fullmatch(r"0x[0-9a-f]*", last) is not None
    return len(host) <= _HOST_LENGTH_MAX and all(map(_LABEL.fullmatch, labels)) and not disguised
