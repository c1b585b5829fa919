"""Who is at our port: nobody, a virtflow that is well, or somebody else?"""

import errno
import socket
from collections.abc import Sequence

import httpx
import msgspec

from virtflow.client.records import Record, Unwell
from virtflow.config import Config
from virtflow.main.checkup.beside import beside
from virtflow.model.finding import Finding, bad, ok, warn
from virtflow.model.health import Status

PART = "server"


class _Health(Record, frozen=True, kw_only=True):
    """Of any version that we may find there."""

    ok: bool
    unwell: tuple[Unwell, ...] = ()


async def check_server(config: Config, *, wait_s: float) -> Sequence[Finding]:
    problem = await beside(lambda: _try_to_listen(config.host, config.port))
    if problem is None:
        return [ok(PART, f"{config.host}:{config.port} is free")]
    if problem.errno == errno.EADDRINUSE:
        return await _ask(config, wait_s)
    what = problem.strerror or str(problem)
    return [bad(PART, f"{config.host}:{config.port} cannot be listened on: {what}", "name another host or port")]


def _try_to_listen(host: str, port: int) -> OSError | None:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        return error
    return None


async def _ask(config: Config, wait_s: float) -> Sequence[Finding]:
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(config.host, config.host)  # noqa: S104  # not listened on here
    url = f"http://{host}:{config.port}/healthz"
    try:
        async with httpx.AsyncClient(timeout=wait_s, trust_env=False) as client:
            report = msgspec.json.decode((await client.get(url)).content, type=_Health)
    except (httpx.HTTPError, msgspec.MsgspecError):
        return [bad(PART, f"somebody else is at {host}:{config.port}", "stop that program, or name another port")]
    if report.unwell:
        return [_finding(url, one) for one in report.unwell]
    if not report.ok:
        return [bad(PART, f"the virtflow at {url} is not well", "see its log")]
    return [ok(PART, f"the virtflow at {url} is well")]


def _finding(url: str, one: Unwell) -> Finding:
    """What a process says of a part of its own."""
    since = f" since {one.since:%Y-%m-%d %H:%M:%S} UTC" if one.since else ""
    text = f"the virtflow at {url} says that its {one.part} is {one.status}{since}: {one.cause}"
    return (bad if one.status == Status.FAILING else warn)(PART, text, one.remedy or "see its log")
