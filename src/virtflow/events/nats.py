"""NATS JetStream: a stream of all events, where each is stored once however often it is sent."""

import asyncio
from collections.abc import Sequence

from nats.aio.client import Client
from nats.errors import AuthorizationError, Error, MaxPayloadError, NoServersError
from nats.js import JetStreamContext, api
from nats.js.errors import APIError, NoStreamResponseError, NotFoundError, ServiceUnavailableError

from virtflow.events.cloudevents import STRUCTURED, CloudEvent, as_json
from virtflow.events.line import CONNECT_S_MAX, Explained, LineSink
from virtflow.model.secret import Secret

NAME = "nats"
#: a stream that we make forgets what is older; an existing one stays as it is
KEEP_S = 7 * 86_400
#: an event that is sent again within this time is stored once
DEDUPLICATE_S = 120
#: how soon a broken connection is noticed while something is on its way
LOOK_S = 0.1
_TYPES = "virtflow."


def nats_sink(url: Secret, *, prefix: str) -> LineSink:
    async def connect() -> "_Line":
        return await _connect(url, prefix)

    return LineSink(NAME, connect=connect, explain=_explain)


def stream_name(prefix: str) -> str:
    """Streams are named without dots."""
    return f"{prefix}-events".replace(".", "-")


def subject_of(event: CloudEvent, prefix: str) -> str:
    return f"{prefix}.events.{event.type.removeprefix(_TYPES)}"


async def _connect(url: Secret, prefix: str) -> "_Line":
    client = await _client(url)
    line = _Line(client, client.jetstream(timeout=CONNECT_S_MAX / 2), prefix)
    try:
        await line.declare()
    except BaseException:
        await client.close()
        raise
    return line


async def _client(url: Secret) -> Client:
    client, troubles = Client(), list[Exception]()

    async def remember(trouble: Exception) -> None:
        troubles[:] = [trouble]

    try:
        await client.connect(
            url.reveal(),
            name="virtflow",
            allow_reconnect=False,  # coming back is the courier's: it knows what was not acknowledged
            connect_timeout=int(CONNECT_S_MAX / 2),
            max_reconnect_attempts=1,
            reconnect_time_wait=0,
            error_cb=remember,
        )
    except BaseException as error:
        await client.close()
        if isinstance(error, NoServersError) and troubles:
            raise troubles[0] from error  # which only says that it gave up
        raise
    return client


class _Line:
    def __init__(self, client: Client, stream: JetStreamContext, prefix: str) -> None:
        self._client = client
        self._stream = stream
        self._prefix = prefix

    async def declare(self) -> None:
        name = stream_name(self._prefix)
        try:
            await self._stream.stream_info(name)
        except NotFoundError as error:
            if error.err_code not in (None, _NO_STREAM):
                raise
            await self._stream.add_stream(
                api.StreamConfig(
                    name=name,
                    subjects=[f"{self._prefix}.events.>"],
                    storage=api.StorageType.FILE,
                    max_age=KEEP_S,
                    duplicate_window=DEDUPLICATE_S,
                )
            )

    async def send(self, wave: Sequence[CloudEvent]) -> None:
        acknowledged = [
            await self._stream.publish_async(
                subject_of(event, self._prefix),
                as_json(event),
                headers={"Nats-Msg-Id": event.id, "Content-Type": STRUCTURED},
            )
            for event in wave
        ]
        try:
            await self._until_all(acknowledged)
        finally:
            for each in acknowledged:
                each.cancel()

    async def _until_all(self, acknowledged: Sequence[asyncio.Future[api.PubAck]]) -> None:
        waiting: set[asyncio.Future[api.PubAck]] = set(acknowledged)
        while waiting:
            # nobody tells the acknowledgements that their connection is gone
            if self._client.is_closed:
                raise Explained("the connection broke", remedy="see whether it runs, and what its log says")
            _, waiting = await asyncio.wait(waiting, timeout=LOOK_S)
        refused = [error for each in acknowledged if (error := each.exception())]
        if refused:
            raise refused[0]

    async def close(self) -> None:
        await self._client.close()


_NO_STREAM = 10059
_REFUSED = Explained("it refuses our name and password", remedy="check them in VIRTFLOW_EVENTS_NATS_URL")


def _explain(error: Exception) -> Explained:
    match error:
        case AuthorizationError():
            return _REFUSED
        case ServiceUnavailableError():
            return Explained("it has no JetStream", remedy="start nats-server with -js, or give this account JetStream")
        case NoStreamResponseError():
            return Explained(
                "no stream takes our subjects", remedy="let the stream have the subjects <events_prefix>.events.>"
            )
        case MaxPayloadError():
            return Explained("an event is larger than it takes", remedy="raise max_payload of the server")
        case APIError():
            return Explained(f"it refuses: {error.description}", remedy="see what the stream's limits are")
        case NoServersError() | OSError():
            return Explained("nobody listens there", remedy="see whether it runs, and VIRTFLOW_EVENTS_NATS_URL")
        case Error() if "authorization violation" in str(error).lower():
            return _REFUSED
        case Error():
            return Explained(str(error).removeprefix("nats: "), remedy="see what its log says")
    return Explained(f"{type(error).__name__}: {error}")
