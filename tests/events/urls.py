"""URLs that must never be connected: every way to spell an address that is not public."""

import ipaddress
import itertools
from collections.abc import Iterator

#: what somebody would like to reach from inside: (address, what it is)
INSIDE = (
    "127.0.0.1", "127.8.9.10", "10.0.0.1", "10.255.255.255", "172.16.0.1", "172.31.255.254", "192.168.0.1",
    "192.168.255.255", "169.254.169.254", "169.254.170.2", "100.64.0.1", "100.100.100.200", "0.0.0.0", "0.1.2.3",
    "192.0.0.9", "192.0.0.192", "192.0.2.1", "192.88.99.1", "198.18.0.1", "198.19.255.255", "198.51.100.7",
    "203.0.113.9", "224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255", "168.63.129.16", "192.31.196.1",
    "192.52.193.1", "192.175.48.1",
)  # fmt: skip
INSIDE_6 = (
    "::", "::1", "fe80::1", "fec0::1", "fc00::1", "fd00:ec2::254", "ff02::1", "100::1", "2001::1", "2001:0:1::2",
    "2001:10::1", "2001:20::1", "2001:db8::1", "2620:4f:8000::1", "3fff::1", "5f00::1", "64:ff9b:1::1", "4000::1",
    "1::1", "8000::1",
)  # fmt: skip
OUTSIDE = ("1.1.1.1", "8.8.8.8", "93.184.215.14", "100.128.0.1", "172.32.0.1", "192.0.1.1", "198.20.0.1")
OUTSIDE_6 = ("2606:4700:4700::1111", "2a00:1450:4001:81b::200e", "2001:4860:4860::8888", "2600::1")


def spellings(address: str) -> Iterator[str]:
    """One IPv4 address in all the forms that some library understands."""
    number = int(ipaddress.IPv4Address(address))
    a, b, c, d = address.split(".")
    yield address
    yield str(number)
    yield hex(number)
    yield hex(number).upper().replace("0X", "0X")
    yield oct(number).replace("0o", "0")
    yield f"{a}.{b}.{int(c) * 256 + int(d)}"
    yield f"{a}.{number & 0xFFFFFF}"
    yield ".".join(hex(int(part)) for part in (a, b, c, d))
    yield ".".join(f"0{int(part):o}" for part in (a, b, c, d))
    yield ".".join(f"{int(part):03d}" for part in (a, b, c, d))
    yield f"{hex(int(a))}.{b}.{c}.{d}"
    yield f"{a}.{b}.{c}.{d}."
    yield "".join(chr(0xFF10 + int(digit)) if digit.isdigit() else digit for digit in address)
    yield address.replace(".", "。")
    yield address.replace(".", "%2e")
    yield f"{a}.{b}.{c}.{d}%00.example.com"
    yield from (f"[{one}]" for one in embedded(address))


def embedded(address: str) -> Iterator[str]:
    """The IPv4 address inside IPv6 ones."""
    number = int(ipaddress.IPv4Address(address))
    high, low = f"{number >> 16:x}", f"{number & 0xFFFF:x}"
    yield f"::{high}:{low}"
    yield f"::ffff:{high}:{low}"
    yield f"::ffff:{address}"
    yield f"::ffff:0:{high}:{low}"
    yield f"64:ff9b::{high}:{low}"
    yield f"64:ff9b:1::{high}:{low}"
    yield f"2002:{high}:{low}::1"
    yield f"2001:0:{high}:{low}::1"
    yield f"fe80::5efe:{high}:{low}"
    yield f"2606:4700::5efe:{high}:{low}"
    yield f"2606:4700::200:5efe:{high}:{low}"


def hosts() -> list[str]:
    """Hosts of URLs, none of which may be connected."""
    found = [host for address in INSIDE for host in spellings(address)]
    found += [f"[{address}]" for address in INSIDE_6] + [f"[{address}%25eth0]" for address in INSIDE_6]
    return found


def corpus() -> list[str]:
    """Thousands of URLs, none of which may be connected."""
    frames = (
        "http://{}/", "https://{}/", "http://{}:80/latest/meta-data/", "HTTP://{}/", "http://user@{}/",
        "http://user:secret@{}/", "http://example.com@{}/", "http://{}#@example.com/", "http://{}\\@example.com/",
        "http:\\\\{}/", "//{}/", "file://{}/etc/passwd", "gopher://{}:70/", "ftp://{}/", "dict://{}:11211/",
        "http://\t{}/", "http://{}\n/", " http://{}/", "http:/{}/", "http:///{}/",
    )  # fmt: skip
    return [frame.format(host) for frame, host in itertools.product(frames, hosts())]
