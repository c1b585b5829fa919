"""One POST to a receiver: signed, without redirects and proxies, and over in ten seconds whatever the receiver does."""

import asyncio
import contextlib
import email.utils
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from virtflow import __version__
from virtflow.events.cloudevents import STRUCTURED
from virtflow.events.guard import Guard
from virtflow.events.signature import sign
from virtflow.model.clock import Clock
from virtflow.model.errors import Unavailable
from virtflow.model.limits import WEBHOOK_ANSWER_BYTES_MAX, WEBHOOK_TIMEOUT_S
from virtflow.model.secret import Secret
from virtflow.model.url import Url, read_url

if TYPE_CHECKING:
    from virtflow.events.wire import Wires

#: what is left of an answer after its status is read for so long, so that the connection serves again
REST_S_MAX = 1.0
RETRY_AFTER_S_MAX = 24 * 3600
GONE = 410
#: a receiver that has no time now may say when it has
ASKS_TO_WAIT = frozenset({429, 503})

DELIVERED = ""
#: it was not sent, because it was not ours to send any more
KEPT = "kept"


#: says whether a message may still be sent
MayLeave = Callable[[], bool]


def always() -> bool:
    return True


class Post(msgspec.Struct, frozen=True, kw_only=True):
    """What is sent, and where."""

    url: str
    message_id: str
    body: bytes
    #: all that are valid now
    secrets: tuple[Secret, ...] = ()
    #: a `traceparent` to hand on, so that the receiver's own spans join the trace
    trace: str = ""


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """What became of it. Nothing of the answer's body is kept: it could tell what only we can reach."""

    #: empty: delivered; else what went wrong as a word
    code: str = DELIVERED
    #: HTTP's, 0 when there was none
    status: int = 0
    #: one sentence
    text: str = ""
    #: the receiver asks for so much time
    retry_after_s: float | None = None
    duration_ms: int = 0

    @property
    def is_delivered(self) -> bool:
        return self.code == DELIVERED


class Mailer:
    """Sends posts. Each line has connections of its own, so that none waits for another's."""

    def __init__(self, guard: Guard, *, clock: Clock, timeout_s: float = WEBHOOK_TIMEOUT_S) -> None:
        self.guard = guard
        self._clock = clock
        self._timeout_s = timeout_s
        self._wires: Wires | None = None

    async def send(self, post: Post, *, line: str, may_leave: MayLeave = always) -> Reply:
        """Never raises for what a receiver does. `may_leave` is asked at the last moment, on an open connection."""
        began_s = time.monotonic()
        try:
            async with asyncio.timeout(self._timeout_s):
                reply = await self._exchange(post, line, may_leave)
        except TimeoutError:
            reply = Reply(code="timeout", text=f"no answer within {self._timeout_s:g} s")
        except Unavailable as error:
            reply = Reply(code=error.error_code, text=error.detail)
        return msgspec.structs.replace(reply, duration_ms=round((time.monotonic() - began_s) * 1000))

    async def _exchange(self, post: Post, line: str, may_leave: MayLeave) -> Reply:
        from virtflow.events.wire import Kept, Wires  # httpcore is loaded when something is sent

        if self._wires is None:
            self._wires = Wires(self.guard)
        url = read_url(post.url)
        try:
            async with self._wires.exchange(
                line, url, self._headers(post, url), post.body, may_leave=may_leave
            ) as answer:
                reply = judged(answer.status, answer.retry_after)
                with contextlib.suppress(TimeoutError, Unavailable):
                    async with asyncio.timeout(REST_S_MAX):
                        await answer.drain(WEBHOOK_ANSWER_BYTES_MAX)
        except Kept:
            return Reply(code=KEPT)
        return reply

    def _headers(self, post: Post, url: Url) -> Sequence[tuple[str, str]]:
        timestamp = self._clock.now_ms() // 1000
        signature = sign(post.secrets, message_id=post.message_id, timestamp=timestamp, body=post.body)
        return (
            ("Host", url.authority),
            ("User-Agent", f"virtflow/{__version__}"),
            ("Content-Type", STRUCTURED),
            ("Content-Length", str(len(post.body))),
            ("Accept", "*/*"),
            ("webhook-id", post.message_id),
            ("webhook-timestamp", str(timestamp)),
            *([("webhook-signature", signature)] if signature else []),
            *([("traceparent", post.trace)] if post.trace else []),
        )

    async def forget(self, line: str) -> None:
        """Its connections are closed."""
        if self._wires is not None:
            await self._wires.forget(line)

    async def close(self) -> None:
        if self._wires is not None:
            await self._wires.close()


def judged(status: int, retry_after: str) -> Reply:
    """The status decides."""
    if 200 <= status < 300:
        return Reply(status=status)
    if status == GONE:
        return Reply(code="gone", status=status, text="the receiver says that it is gone for ever")
    if 300 <= status < 400:
        return Reply(code="redirect_refused", status=status, text=f"it answered {status}; redirects are not followed")
    wait_s = _seconds(retry_after) if status in ASKS_TO_WAIT else None
    return Reply(code="http_error", status=status, text=f"it answered {status}", retry_after_s=wait_s)


def _seconds(retry_after: str) -> float | None:
    """Of a Retry-After, in seconds or as a date; None when it says nothing that can be obeyed."""
    if retry_after.isascii() and retry_after.isdecimal():
        return min(float(retry_after), RETRY_AFTER_S_MAX)
    with contextlib.suppress(ValueError, TypeError, OverflowError):
        wait_s = email.utils.parsedate_to_datetime(retry_after).timestamp() - time.time()
        return min(max(0.0, wait_s), RETRY_AFTER_S_MAX)
    return None
