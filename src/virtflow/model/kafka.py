"""Kafka's brokers: where they are, and how they let us in."""

from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from virtflow.model.secret import Secret

PORT = 9092
MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")
SERVERS_RULE = "<host>:<port> with commas between, or kafka://… or kafka+ssl://… as docs/buses.md has them"
_SCHEMES = {"kafka": False, "kafka+ssl": True}
_FILES = ("cafile", "certfile", "keyfile")


class Servers(msgspec.Struct, frozen=True, kw_only=True):
    #: "host:port"
    addresses: tuple[str, ...]
    is_tls: bool = False
    #: empty: nobody asks who we are
    user: str = ""
    password: Secret = Secret("")
    mechanism: str = MECHANISMS[0]
    #: of the authority that vouches for them; empty: that of the system
    cafile: str = ""
    #: what we show ourselves
    certfile: str = ""
    keyfile: str = ""

    @property
    def protocol(self) -> str:
        """In Kafka's words."""
        return ("SASL_" if self.user else "") + ("SSL" if self.is_tls else "PLAINTEXT")


def read_servers(text: str) -> Servers:
    """ValueError when it cannot be read."""
    if "://" not in text:
        return Servers(addresses=_addresses(text, port=None))
    parts = urlsplit(text)
    given = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=True) if parts.query else []
    options = dict(given)
    _require(parts.scheme in _SCHEMES and parts.path in ("", "/") and not parts.fragment)
    _require(len(options) == len(given) and set(options) <= {"mechanism", *_FILES})
    who, at, where = parts.netloc.rpartition("@")
    user, colon, password = who.partition(":")
    is_tls = _SCHEMES[parts.scheme]
    _require(not at or (bool(user and colon and password)))
    _require("mechanism" not in options or (bool(at) and options["mechanism"] in MECHANISMS))
    _require(is_tls or not any(file in options for file in _FILES))
    _require(all(options.values()) and ("keyfile" not in options or "certfile" in options))
    return Servers(
        addresses=_addresses(where, port=PORT),
        is_tls=is_tls,
        user=unquote(user),
        password=Secret(unquote(password)),
        **options,
    )


def _addresses(text: str, *, port: int | None) -> tuple[str, ...]:
    return tuple(_address(one, port) for one in text.split(","))


def _address(text: str, port: int | None) -> str:
    host, colon, number = text.rpartition(":")
    if port is not None and (not colon or text.endswith("]")):
        host, number = text, str(port)
    _require(bool(host) and "@" not in host and number.isdecimal() and 0 < int(number) < 65_536)
    return f"{host}:{int(number)}"


def _require(holds: bool) -> None:
    if not holds:
        raise ValueError
