"""Hosts from a node API: `GET <url>` answers a JSON list of nodes."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from typing import NamedTuple, Self

import httpx
import msgspec

from virtflow.inventory.contract import INVENTORY_BYTES_MAX, TIMEOUT_S, Fetched, no_knocks
from virtflow.inventory.records import json_integer, read_node, read_records
from virtflow.model.errors import Unavailable
from virtflow.model.host import Source
from virtflow.model.secret import Secret, without_secrets

#: Under which names an answer may carry its list.
ENVELOPES = ("nodes", "items")
_ACCEPT = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "virtflow"}
_START_SHOWN = 60


class _Answer(NamedTuple):
    body: bytes
    etag: str


class HttpInventory:
    """One node API. Remembers its last good answer, so that an unchanged one need not be sent again."""

    source = Source.HTTP

    def __init__(
        self,
        url: str,
        *,
        token: Secret | None = None,
        timeout_s: float = TIMEOUT_S,
        bytes_max: int = INVENTORY_BYTES_MAX,
    ) -> None:
        self.location = without_secrets(url)
        self._url = url
        self._timeout_s = timeout_s
        self._bytes_max = bytes_max
        self._etag = ""
        self._last = Fetched()
        headers = {**_ACCEPT, **({"Authorization": f"Bearer {token.reveal()}"} if token else {})}
        # The certificates of the system, and no proxy: a node API is a neighbour, a proxy mostly knows the way out.
        trust = ssl.create_default_context() if url.startswith("https:") else False
        self._client = httpx.AsyncClient(
            headers=headers,
            timeout=timeout_s,
            follow_redirects=False,
            trust_env=False,
            verify=trust,
            # a connection kept from the last poll is one that the other side may be closing just now
            limits=httpx.Limits(max_keepalive_connections=0),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._client.aclose()

    def changes(self) -> AsyncIterator[None]:
        return no_knocks()

    async def fetch(self) -> Fetched:
        try:
            # in total: a server that sends a byte now and then keeps every shorter time-out happy
            async with asyncio.timeout(self._timeout_s):
                answer = await self._ask()
        except TimeoutError as error:
            raise self._unavailable(f"no whole answer within {self._timeout_s:g} s") from error
        except httpx.TimeoutException as error:
            raise self._unavailable(f"no answer within {self._timeout_s:g} s") from error
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            raise self._unavailable(str(error) or type(error).__name__) from error
        return await self._remember(answer) if answer else self._last

    async def _ask(self) -> _Answer | None:
        """What it answered, or None when that is what it answered before."""
        headers = {"If-None-Match": self._etag} if self._etag else {}
        async with self._client.stream("GET", self._url, headers=headers) as response:
            if response.status_code == httpx.codes.NOT_MODIFIED and headers:
                return None
            self._check(response)
            return _Answer(body=await self._body(response), etag=response.headers.get("ETag", ""))

    async def _remember(self, answer: _Answer) -> Fetched:
        try:
            # beside the loop: a large fleet takes a second to read
            fetched = await asyncio.to_thread(read_nodes, answer.body)
        except ValueError as error:
            raise self._unavailable(str(error)) from error
        self._etag, self._last = answer.etag, fetched
        return fetched

    def _check(self, response: httpx.Response) -> None:
        if response.has_redirect_location:
            # not followed: whoever answers there would be believed, and would be shown our token
            target = response.headers.get("Location", "")[:_START_SHOWN]
            raise self._unavailable(f"it redirects to {target!r}; name the final URL in VIRTFLOW_INVENTORY_URL")
        if response.status_code != httpx.codes.OK:
            raise self._unavailable(f"it answered {response.status_code} {response.reason_phrase}".rstrip())
        if response.headers.get("Content-Encoding", "identity") != "identity":
            raise self._unavailable("it answered compressed, which was not asked for")

    async def _body(self, response: httpx.Response) -> bytes:
        body = bytearray()
        async for chunk in response.aiter_raw():
            body += chunk
            if len(body) > self._bytes_max:
                raise self._unavailable(f"its answer is larger than {self._bytes_max} bytes")
        return bytes(body)

    def _unavailable(self, problem: str) -> Unavailable:
        return Unavailable(
            f"inventory {self.location}: {problem}",
            code="inventory_unavailable",
            remedy="the hosts last heard of stay in use; it is asked again",
        )


def read_nodes(body: bytes) -> Fetched:
    return read_records(records_of(read_json(body)), read=read_node)


def read_json(body: bytes) -> object:
    """The document, or a ValueError that says where it breaks. NaN is read as such: it spoils its record alone."""
    if not body.strip():
        raise ValueError("its answer is empty")
    try:
        return msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _read_json_leniently(body)


def _read_json_leniently(body: bytes) -> object:
    try:
        return json.loads(body.decode("utf-8-sig"), parse_int=json_integer)
    except UnicodeDecodeError as error:
        raise ValueError(f"its answer is not UTF-8 at byte {error.start}") from error
    except json.JSONDecodeError as error:
        start = error.doc[:_START_SHOWN]
        where = f"line {error.lineno}, column {error.colno}"
        raise ValueError(f"its answer is not JSON: {error.msg} at {where}; it begins with {start!r}") from error
    except RecursionError as error:
        raise ValueError("its answer is nested too deeply") from error


def records_of(document: object) -> list[object]:
    """The list itself, or the one in an envelope; a ValueError for anything else."""
    if isinstance(document, dict):
        for name in ENVELOPES:
            if isinstance(document.get(name), list):
                document = document[name]
                break
    if isinstance(document, list):
        return document
    names = " or ".join(f'{{"{name}": […]}}' for name in ENVELOPES)
    raise ValueError(f"its answer is JSON, but neither a list of nodes nor {names}")
