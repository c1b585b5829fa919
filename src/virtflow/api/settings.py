"""What the API is told by whoever starts it."""

import dataclasses
import itertools
import secrets
from collections.abc import Callable

from virtflow.model.limits import BODY_BYTES_MAX, STREAMS_MAX
from virtflow.model.secret import Secret

#: the role that serves everything below
API = "api"


def numbered_request_ids() -> Callable[[], str]:
    """Drawn once, then counted: unlike a draw for each request, that costs nothing."""
    beginning, number = secrets.token_hex(4), itertools.count(1)
    return lambda: f"{beginning}-{next(number)}"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ApiSettings:
    """Limits and flags of one process."""

    #: for `/v1/info`
    version: str = ""
    database: str = ""
    #: of this process; without the role `api` it answers to whoever watches it, and to nobody else
    roles: frozenset[str] = frozenset({API})
    #: when given, every route but the probes needs it
    token: Secret | None = None
    #: names and addresses a Host header may bear; empty: any. Keeps web pages from reaching a loopback service
    allowed_hosts: frozenset[str] = frozenset()
    body_bytes_max: int = BODY_BYTES_MAX
    #: all bodies together that are being received
    bodies_bytes_max: int = 32 * BODY_BYTES_MAX
    #: from the first to the last byte of one body
    body_s_max: float = 30.0
    #: after a refusal, the rest of a body is still taken for so long
    linger_s_max: float = 2.0
    streams_max: int = STREAMS_MAX
    #: an idle stream says so often that it lives
    heartbeat_s: float = 15.0
    new_request_id: Callable[[], str] = dataclasses.field(default_factory=numbered_request_ids)
