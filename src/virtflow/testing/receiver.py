"""A receiver of webhooks: a friendly one that shows what it verified, or one that behaves as badly as receivers do.

`python -m virtflow.testing.receiver --port 9000` prints a line for each message; the secret is in `WEBHOOK_SECRET`.
"""

import argparse
import asyncio
import contextlib
import enum
import json
import os
import socket
import struct
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from virtflow.events.signature import is_signed
from virtflow.model.secret import Secret
from virtflow.model.webhook import secret_key

HOST, PORT = "127.0.0.1", 9000
SECRET_VARIABLE = "WEBHOOK_SECRET"  # noqa: S105  # the variable's name, not a secret
EXIT_CONFIGURATION = 78
_HEAD_BYTES_MAX = 64 * 2**10
_DRIP_S = 1.0


class Behaviour(enum.StrEnum):
    """What it does with a message. Each of these has been met in the wild."""

    OK = "ok"
    #: answers, after `delay_s`
    SLOW = "slow"
    #: takes the message and never answers
    SILENT = "silent"
    ERROR = "error"
    #: 429 with Retry-After
    BUSY = "busy"
    RESET = "reset"
    #: one byte of the answer's head each second
    DRIP = "drip"
    #: 200, and a body that never ends
    ENDLESS = "endless"
    #: 302 to where the clouds keep their secrets
    REDIRECT = "redirect"
    GONE = "gone"
    #: what it answers is not HTTP
    NOISE = "noise"


_PLAIN = {
    Behaviour.OK: b"HTTP/1.1 204 No Content\r\n\r\n",
    Behaviour.SLOW: b"HTTP/1.1 204 No Content\r\n\r\n",
    Behaviour.ERROR: b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n",
    Behaviour.REDIRECT: (
        b"HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/latest/meta-data/\r\nContent-Length: 0\r\n\r\n"
    ),
    Behaviour.GONE: b"HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n",
    Behaviour.NOISE: b"I am no web server, and I say so.\r\n\r\n",
}


class Message(NamedTuple):
    """One message as it arrived."""

    at_s: float
    path: str
    headers: Mapping[str, str]
    body: bytes
    #: None: no secret is known here
    is_genuine: bool | None

    @property
    def id(self) -> str:
        return self.headers.get("webhook-id", "")

    @property
    def event(self) -> dict[str, Any]:
        found = json.loads(self.body)
        return found if isinstance(found, dict) else {}

    def line(self) -> str:
        verdict = {True: "verified", False: "FORGED", None: "unchecked"}[self.is_genuine]
        event = self.event
        return f"{verdict} {event.get('type')} {event.get('subject')} {self.id}"


class Receiver:
    """Behaves as it is told, and remembers what came. Its behaviour may change while it runs."""

    def __init__(
        self,
        *,
        secrets: Sequence[Secret] = (),
        behaviour: Behaviour = Behaviour.OK,
        delay_s: float = 0.0,
        retry_after_s: int = 1,
        hear: Callable[[Message], None] | None = None,
    ) -> None:
        self.secrets = list(secrets)
        self.behaviour = behaviour
        self.delay_s = delay_s
        self.retry_after_s = retry_after_s
        self._hear = hear
        #: everything that came, whatever was answered
        self.messages: list[Message] = []
        #: connections that were made to it
        self.connections = 0
        #: paths that behave otherwise than the rest
        self.by_path: dict[str, Behaviour] = {}
        self._came = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}/hook"

    @property
    def ids(self) -> list[str]:
        return [message.id for message in self.messages]

    async def start(self, host: str = HOST, port: int = 0) -> None:
        self._server = await asyncio.start_server(self._begin, host, port, limit=_HEAD_BYTES_MAX)
        self.port = self._server.sockets[0].getsockname()[1]

    async def serve_forever(self) -> None:
        assert self._server is not None
        await self._server.serve_forever()

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._serving:
            task.cancel()
        if self._serving:
            await asyncio.wait(self._serving)

    async def until(self, holds: Callable[["Receiver"], bool], *, within_s: float = 30.0) -> None:
        """Returns when what came makes that true."""
        async with asyncio.timeout(within_s):
            while not holds(self):
                self._came.clear()
                await self._came.wait()

    def _begin(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while await self._answer_one(reader, writer):
                pass
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
            pass  # a client that went away, or speaks something else
        finally:
            writer.transport.abort()

    async def _answer_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Says whether the connection serves on."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        request, *lines = head.rstrip().split("\r\n")
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        path = request.split(" ")[1]
        message = Message(time.time(), path, headers, body, self._is_genuine(headers, body))
        self.messages.append(message)
        self._came.set()
        if self._hear is not None:
            self._hear(message)
        return await self._behave(self.by_path.get(path, self.behaviour), writer)

    def _is_genuine(self, headers: Mapping[str, str], body: bytes) -> bool | None:
        if not self.secrets:
            return None
        return is_signed(
            self.secrets,
            message_id=headers.get("webhook-id", ""),
            timestamp=headers.get("webhook-timestamp", ""),
            signature=headers.get("webhook-signature", ""),
            body=body,
            now_s=time.time(),
        )

    async def _behave(self, behaviour: Behaviour, writer: asyncio.StreamWriter) -> bool:
        if self.delay_s:
            await asyncio.sleep(self.delay_s)
        match behaviour:
            case Behaviour.SILENT:
                await asyncio.Event().wait()
            case Behaviour.RESET:
                at_once = struct.pack("ii", 1, 0)  # no good-bye: what is not sent yet is thrown away
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
                return False
            case Behaviour.BUSY:
                head = (
                    f"HTTP/1.1 429 Too Many Requests\r\nRetry-After: {self.retry_after_s}\r\nContent-Length: 0\r\n\r\n"
                )
                writer.write(head.encode())
            case Behaviour.DRIP:
                for byte in _PLAIN[Behaviour.OK]:
                    writer.write(bytes([byte]))
                    await writer.drain()
                    await asyncio.sleep(_DRIP_S)
            case Behaviour.ENDLESS:
                writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                while True:
                    writer.write(b"4000\r\n" + b"x" * 0x4000 + b"\r\n")
                    await writer.drain()
            case _:
                writer.write(_PLAIN[behaviour])
        await writer.drain()
        return behaviour is not Behaviour.NOISE


@contextlib.asynccontextmanager
async def receiver(**settings: Any) -> AsyncIterator[Receiver]:
    """Listening inside the block, on `receiver.url`."""
    made = Receiver(**settings)
    await made.start()
    try:
        yield made
    finally:
        await made.close()


def _record(message: Message) -> str:
    """One message as a line of JSON."""
    return json.dumps(
        {
            "at": message.at_s,
            "id": message.id,
            "path": message.path,
            "verified": message.is_genuine,
            "event": message.event,
        }
    )


async def _run(options: argparse.Namespace, secrets: Sequence[Secret], file: TextIO | None) -> None:
    def hear(message: Message) -> None:
        with contextlib.suppress(ValueError):  # what is no JSON was not sent by us
            print(message.line(), flush=True)
            if file is not None:
                print(_record(message), file=file, flush=True)

    made = Receiver(
        secrets=secrets,
        behaviour=options.behaviour,
        delay_s=options.delay,
        retry_after_s=options.retry_after,
        hear=hear,
    )
    await made.start(options.host, options.port)
    print(f"receiving at http://{options.host}:{made.port}/ (Ctrl-C ends)", flush=True)
    try:
        await made.serve_forever()
    finally:
        await made.close()


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m virtflow.testing.receiver", description=__doc__)
    parser.add_argument("--host", default=HOST, help="the address to listen on (default %(default)s)")
    parser.add_argument("--port", type=int, default=PORT, help="the port; 0 takes any (default %(default)s)")
    parser.add_argument("--behaviour", type=Behaviour, choices=list(Behaviour), default=Behaviour.OK)
    parser.add_argument("--delay", type=float, default=0.0, metavar="S", help="seconds before it answers")
    parser.add_argument("--retry-after", type=int, default=1, metavar="S", help="what a busy one asks for")
    parser.add_argument("--record", type=Path, metavar="FILE", help="append each message as a line of JSON")
    options = parser.parse_args(argv)
    secrets = [Secret(text) for text in os.environ.get(SECRET_VARIABLE, "").split()]
    try:
        for secret in secrets:
            secret_key(secret.reveal())
        with contextlib.ExitStack() as stack:
            file = stack.enter_context(options.record.open("a")) if options.record else None
            asyncio.run(_run(options, secrets, file))
    except ValueError as error:
        print(f"virtflow: {SECRET_VARIABLE} {error}", file=sys.stderr)
        return EXIT_CONFIGURATION
    except OSError as error:
        print(f"virtflow: {error.strerror or error}: {options.record or options.port}", file=sys.stderr)
        return EXIT_CONFIGURATION
    except KeyboardInterrupt:
        return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
