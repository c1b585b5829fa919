"""RabbitMQ carries the knocks: durable, confirmed, and never waited for by a request.

Publishing and listening have a connection each: a broker short of memory stops reading from those who publish, and
acknowledgements must not be stuck behind that.
"""

from collections.abc import Sequence

from virtflow.model.secret import Secret
from virtflow.queue.consumer import Consumer
from virtflow.queue.contract import LookAt, Observer, SetAside
from virtflow.queue.link import Link
from virtflow.queue.publisher import Publisher
from virtflow.queue.trouble import Trouble


class RabbitmqQueue:
    def __init__(self, url: Secret, *, prefetch: int, timeout_s: float, observer: Observer) -> None:
        self._out = Link(url, name="virtflow publishes", timeout_s=timeout_s)
        self._in = Link(url, name="virtflow listens", timeout_s=timeout_s)
        self._publisher = Publisher(self._out, observer=observer)
        self._consumer = Consumer(self._in, prefetch=prefetch, observer=observer)

    @property
    def state(self) -> str:
        return next((link.state for link in (self._out, self._in) if link.state != "ok"), "ok")

    async def open(self) -> None:
        try:
            await self._out.channel()
        except Trouble as trouble:
            self._out.failed(trouble)

    def call(self, ids: Sequence[bytes]) -> None:
        self._publisher.put(self._publisher.called, ids)

    def bury(self, ids: Sequence[bytes]) -> None:
        self._publisher.put(self._publisher.buried, ids)

    async def publish(self) -> None:
        await self._publisher.run()

    async def flush(self) -> None:
        await self._publisher.flush()

    async def listen(self, look_at: LookAt, set_aside: SetAside) -> None:
        await self._consumer.run(look_at, set_aside)

    async def close(self) -> None:
        await self._out.close()
        await self._in.close()
