"""Which addresses a message to the outside may go to: our own list, after the registries of the IANA."""

import ipaddress
from collections.abc import Iterable

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

#: the only IPv6 addresses that are given to anybody; everything outside is refused
_GIVEN_OUT = ipaddress.IPv6Network("2000::/3")

#: network -> what it is. Python's own `is_global` lets some of these pass, and which ones depends on its version.
DENIED: dict[Network, str] = {
    ipaddress.ip_network(network): what
    for network, what in (
        ("0.0.0.0/8", "this network"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "shared by carriers"),
        ("127.0.0.0/8", "loopback"),
        ("168.63.129.16/32", "a cloud's own service"),
        ("169.254.0.0/16", "link-local, where clouds keep their metadata"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "protocol assignments"),
        ("192.0.2.0/24", "documentation"),
        ("192.31.196.0/24", "AS112"),
        ("192.52.193.0/24", "AMT"),
        ("192.88.99.0/24", "6to4 relays"),
        ("192.168.0.0/16", "private"),
        ("192.175.48.0/24", "AS112"),
        ("198.18.0.0/15", "benchmarks"),
        ("198.51.100.0/24", "documentation"),
        ("203.0.113.0/24", "documentation"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
        ("::/128", "unspecified"),
        ("::1/128", "loopback"),
        ("::/96", "IPv4 inside IPv6"),
        ("::ffff:0:0/96", "IPv4 inside IPv6"),
        ("::ffff:0:0:0/96", "IPv4 inside IPv6"),
        ("64:ff9b::/96", "NAT64, which leads to any IPv4 address"),
        ("64:ff9b:1::/48", "NAT64, which leads to any IPv4 address"),
        ("100::/64", "discarded"),
        ("2001::/23", "protocol assignments and tunnels"),
        ("2001:db8::/32", "documentation"),
        ("2002::/16", "6to4, which leads to any IPv4 address"),
        ("2620:4f:8000::/48", "AS112"),
        ("3fff::/20", "documentation"),
        ("5f00::/16", "segment routing"),
        ("fc00::/7", "private"),
        ("fe80::/10", "link-local"),
        ("fec0::/10", "site-local"),
        ("ff00::/8", "multicast"),
    )
}
#: an interface id that carries an IPv4 address (ISATAP): 0000:5efe or 0200:5efe, then 32 bits
_ISATAP = frozenset({0x00005EFE, 0x02005EFE})


def why_not(address: Address, allowed: Iterable[Network] = ()) -> str | None:
    """What is wrong with sending something there; None when nothing is. `allowed` are exceptions by setting."""
    if any(address in network for network in allowed):
        return None
    for network, what in DENIED.items():
        if address in network:
            return what
    if isinstance(address, ipaddress.IPv6Address):
        if address not in _GIVEN_OUT:
            return "not given out to anybody"
        if int(address) >> 32 & 0xFFFFFFFF in _ISATAP:
            return "a tunnel, which leads to any IPv4 address"
    return None
