"""Where messages may go: a host is resolved once, every address of it is judged, and only such a one is connected."""

import asyncio
import functools
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from virtflow.model.address import Network, why_not
from virtflow.model.errors import Unavailable
from virtflow.model.url import Url

#: names are looked up beside each other: one that nobody answers for must not hold up the rest
LOOKUPS_MAX = 16
ADDRESSES_MAX = 16

#: host -> its addresses as text; OSError when there are none
Resolve = Callable[[str], Awaitable[Sequence[str]]]


class Forbidden(Unavailable):
    """An address to which nothing may be sent."""

    code = "forbidden_address"


class Unresolved(Unavailable):
    """No address to be had for the host."""

    code = "resolve_failed"


class Guard:
    """`allowed`: networks that may be reached although they are not public."""

    def __init__(self, *, allowed: Sequence[Network] = (), resolve: Resolve | None = None) -> None:
        self._allowed = tuple(allowed)
        self._resolve = resolve or _Resolver()

    async def addresses(self, url: Url) -> Sequence[str]:
        """Those of the host, each of them judged: Forbidden when one of them is, Unresolved when there is none."""
        found = [str(url.address)] if url.address is not None else await self._look_up(url.host)
        for text in found:
            self._judge(url.host, text)
        return found

    def judge_literal(self, url: Url) -> None:
        """What can be said without asking anybody: Forbidden when the URL names such an address itself."""
        if url.address is not None:
            self._judge(url.host, str(url.address))

    async def _look_up(self, host: str) -> Sequence[str]:
        try:
            found = list(dict.fromkeys(await self._resolve(host)))
        except (OSError, UnicodeError) as error:
            raise Unresolved(f"no address is known for {host}", remedy="check its name") from error
        if not found:
            raise Unresolved(f"no address is known for {host}", remedy="check its name")
        return found[:ADDRESSES_MAX]

    def _judge(self, host: str, text: str) -> None:
        try:
            reason = why_not(ipaddress.ip_address(text), self._allowed)
        except ValueError:  # a zone, or nothing that we understand
            reason = "not an address"
        if reason is not None:
            where = text if host == text else f"{host} is at {text}, which"
            raise Forbidden(
                f"{where} is not to be reached from here: {reason}",
                remedy="name a public address, or allow the network in VIRTFLOW_WEBHOOK_ALLOW",
            )


class _Resolver:
    """The system's, in threads of its own."""

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None

    async def __call__(self, host: str) -> Sequence[str]:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(LOOKUPS_MAX, thread_name_prefix="resolve")
        looking = functools.partial(socket.getaddrinfo, host, None, type=socket.SOCK_STREAM)
        found = await asyncio.get_running_loop().run_in_executor(self._threads, looking)
        return [str(entry[4][0]) for entry in found]
