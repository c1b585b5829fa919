"""A gate before brokers that let everybody in: it speaks TLS, asks for name and password as Kafka does, and passes on.

Written from Kafka's protocol and RFC 5802, and from nothing of ours: whoever comes through has done it right.
"""

import asyncio
import base64
import contextlib
import hashlib
import hmac
import os
import ssl
import struct
from collections.abc import AsyncIterator, Callable

_HANDSHAKE, _API_VERSIONS, _AUTHENTICATE = 17, 18, 36
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_NOT_KNOWN, _REFUSED = 33, 58
_ITERATIONS = 4096
_FRAME_BYTES_MAX = 100 * 2**20
_HEADER = struct.Struct(">hhi")


class Refused(Exception):
    """Who comes is not who he says."""


#: what the client said → what is answered; the last answer is empty or final
Exchange = Callable[[bytes], bytes]


class KafkaGate:
    """`servers`: the brokers behind it, which call themselves 127.0.0.1. `servers` of the gate are for clients."""

    def __init__(self, servers: str, *, user: str = "", password: str = "", tls: ssl.SSLContext | None = None) -> None:
        self._ports = [int(server.rpartition(":")[2]) for server in servers.split(",")]
        self._user, self._password = user, password
        self._tls = tls
        self._gates: list[tuple[int, asyncio.Server]] = []
        self._serving: set[asyncio.Task[None]] = set()
        #: mechanisms by which somebody came in
        self.came_in_by: list[str] = []

    @property
    def servers(self) -> str:
        return ",".join(f"127.0.0.1:{gate.sockets[0].getsockname()[1]}" for _, gate in self._gates)

    async def start(self) -> None:
        for port in self._ports:
            gate = await asyncio.start_server(self._meeter(port), "127.0.0.1", 0, ssl=self._tls)
            self._gates.append((port, gate))

    async def close(self) -> None:
        for _, gate in self._gates:
            gate.close()
        for task in self._serving:
            task.cancel()
        if self._serving:
            await asyncio.wait(self._serving)

    def _meeter(self, port: int) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], None]:
        def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.create_task(self._serve(port, reader, writer))
            self._serving.add(task)
            task.add_done_callback(self._serving.discard)

        return meet

    async def _serve(self, port: int, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        try:
            broker, to_broker = await asyncio.open_connection("127.0.0.1", port)
            try:
                await self._let_in(client, to_client, broker, to_broker)
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._pass_on(client, to_broker))
                    group.create_task(self._pass_on(broker, to_client, self._with_our_ports))
            finally:
                to_broker.close()
                to_client.close()
        except* (OSError, EOFError):
            pass  # one of them has gone

    async def _pass_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, change: Callable[[bytes], bytes] = bytes
    ) -> None:
        try:
            while True:
                _write(writer, change(await _frame(reader)))
                await writer.drain()
        finally:
            writer.close()

    def _with_our_ports(self, answer: bytes) -> bytes:
        """Brokers say where all of them are; who goes there would walk around the gate."""
        for port, gate in self._gates:
            ours = gate.sockets[0].getsockname()[1]
            answer = answer.replace(_address(port), _address(ours))
        return answer

    # ── who are you ───────────────────────────────────────────────────────────────────────────────

    async def _let_in(
        self,
        client: asyncio.StreamReader,
        to_client: asyncio.StreamWriter,
        broker: asyncio.StreamReader,
        to_broker: asyncio.StreamWriter,
    ) -> None:
        """Returns when he may speak to the broker; EOFError when he is sent away."""
        mechanism, exchange = "", None
        while self._user:
            request = await _frame(client)
            key, _, number = _HEADER.unpack_from(request)
            body = _body(request)
            if key == _API_VERSIONS:
                _write(to_broker, request)
                _write(to_client, _with_ours(await _frame(broker)))
            elif key == _HANDSHAKE:
                mechanism = _string(body)
                exchange = self._exchange_by(mechanism)
                error = 0 if exchange else _NOT_KNOWN
                _write(to_client, struct.pack(">ih", number, error) + _strings(_MECHANISMS))
            elif key == _AUTHENTICATE and exchange:
                try:
                    said = exchange(_bytes(body))
                except Refused:
                    _write(to_client, struct.pack(">ihh", number, _REFUSED, -1) + struct.pack(">i", 0))
                    await to_client.drain()
                    raise EOFError from None
                _write(to_client, struct.pack(">ihhi", number, 0, -1, len(said)) + said)
                if mechanism == "PLAIN" or said.startswith(b"v="):
                    self.came_in_by.append(mechanism)
                    return
            else:
                raise EOFError  # who does not say who he is hears nothing

    def _exchange_by(self, mechanism: str) -> Exchange | None:
        if mechanism == "PLAIN":
            return self._plain
        if mechanism in _MECHANISMS:
            return Scram(mechanism.removeprefix("SCRAM-"), self._user, self._password).step
        return None

    def _plain(self, said: bytes) -> bytes:
        _, user, password = said.decode().split("\0")  # first on whose behalf, which is himself or nobody
        if (user, password) != (self._user, self._password):
            raise Refused
        return b""


class Scram:
    """The server's side of RFC 5802, without channel binding."""

    def __init__(self, hashing: str, user: str, password: str) -> None:
        self._hash = hashing.replace("-", "").lower()
        self._user = user
        self._salt = os.urandom(16)
        self._salted = hashlib.pbkdf2_hmac(self._hash, password.encode(), self._salt, _ITERATIONS)
        self._nonce = base64.b64encode(os.urandom(18)).decode()
        self._first = self._challenge = ""

    def step(self, said: bytes) -> bytes:
        return (self._end if self._first else self._begin)(said.decode()).encode()

    def _begin(self, said: str) -> str:
        self._first = said.removeprefix("n,,")
        fields = _fields(self._first)
        if fields["n"] != self._user:
            raise Refused
        self._nonce = fields["r"] + self._nonce
        self._challenge = f"r={self._nonce},s={base64.b64encode(self._salt).decode()},i={_ITERATIONS}"
        return self._challenge

    def _end(self, said: str) -> str:
        without_proof, _, proof = said.rpartition(",p=")
        message = ",".join((self._first, self._challenge, without_proof)).encode()
        client_key = self._sign(self._salted, b"Client Key")
        stored = hashlib.new(self._hash, client_key).digest()
        signature = self._sign(stored, message)
        expected = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        if base64.b64decode(proof) != expected or _fields(without_proof)["r"] != self._nonce:
            raise Refused
        return "v=" + base64.b64encode(self._sign(self._sign(self._salted, b"Server Key"), message)).decode()

    def _sign(self, key: bytes, message: bytes) -> bytes:
        return hmac.new(key, message, self._hash).digest()


def _fields(text: str) -> dict[str, str]:
    return dict(field.split("=", 1) for field in text.split(","))


# ── frames ────────────────────────────────────────────────────────────────────────────────────────


async def _frame(reader: asyncio.StreamReader) -> bytes:
    (length,) = struct.unpack(">i", await reader.readexactly(4))
    if not 0 <= length <= _FRAME_BYTES_MAX:
        raise EOFError  # whoever speaks something else is hung up on, as by Kafka
    return await reader.readexactly(length)


def _write(writer: asyncio.StreamWriter, frame: bytes) -> None:
    writer.write(struct.pack(">i", len(frame)) + frame)


def _body(request: bytes) -> bytes:
    """After the header: who the client calls himself is of no interest."""
    (length,) = struct.unpack_from(">h", request, _HEADER.size)
    return request[_HEADER.size + 2 + max(0, length) :]


def _string(body: bytes) -> str:
    (length,) = struct.unpack_from(">h", body)
    return body[2 : 2 + length].decode()


def _bytes(body: bytes) -> bytes:
    (length,) = struct.unpack_from(">i", body)
    return body[4 : 4 + length]


def _strings(texts: tuple[str, ...]) -> bytes:
    return struct.pack(">i", len(texts)) + b"".join(struct.pack(">h", len(text)) + text.encode() for text in texts)


def _address(port: int) -> bytes:
    return b"127.0.0.1" + struct.pack(">i", port)


def _with_ours(answer: bytes) -> bytes:
    """What the broker can do, and what the gate can: number, error, then (what, from, to)."""
    number, error, count = struct.unpack_from(">ihi", answer)
    ours = struct.pack(">hhhhhh", _HANDSHAKE, 0, 1, _AUTHENTICATE, 0, 0)
    return struct.pack(">ihi", number, error, count + 2) + ours + answer[10:]


@contextlib.asynccontextmanager
async def kafka_gate(
    servers: str, *, user: str = "", password: str = "", tls: ssl.SSLContext | None = None
) -> AsyncIterator[KafkaGate]:
    gate = KafkaGate(servers, user=user, password=password, tls=tls)
    await gate.start()
    try:
        yield gate
    finally:
        await gate.close()
