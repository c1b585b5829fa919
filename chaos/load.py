"""Clients under whom everything dies: they order, delete and read VMs, change hosts, and write down what happens."""

import asyncio
import contextlib
import random
import time
import uuid
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from chaos.history import History

CLIENTS = 4
#: between two operations of a client
THINK_S = 0.03
#: between two tries of one
AGAIN_S = 0.05
ANSWER_S_MAX = 15.0
#: an operation that finds no answer for so long is a failure of its own
PATIENCE_S = 120.0
CHANGED_HOSTS = 4
#: "in a moment"
LATER = (429, 503)
VM = {"cpu": 1000, "memory": 1024}
#: the deadline of who has one
DEADLINE_S = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How clients ask."""

    #: between two operations of a client
    think_s: float = THINK_S
    #: none holds more VMs than that, placed and waiting; None: as many as come
    vms_max: int | None = None
    #: parts of the orders: tried some times and then given up, or waiting until a deadline
    impatient: float = 0.0
    in_a_hurry: float = 0.0


@dataclass(slots=True)
class Tally:
    """What all clients together saw."""

    answered: int = 0
    #: answers to orders, and when the last one came, by the monotonic clock
    accepted: int = 0
    accepted_s: float = 0.0
    #: 503 and 429, which say "in a moment"
    put_off: int = 0
    #: tries without any answer
    unanswered: int = 0
    #: requests that found no answer at the second try either, though it went elsewhere
    failed: int = 0
    #: answers that nobody should get: 4xx to what is right, 5xx but 503
    wrong: list[str] = field(default_factory=list)
    slowest_s: float = 0.0


class Load:
    """`CLIENTS` of them, each in a closed loop, each with its file."""

    def __init__(
        self, urls: Sequence[str], folder: Path, *, clients: int = CLIENTS, seed: int = 1, manner: Manner | None = None
    ) -> None:
        self.urls = list(urls)
        self.manner = manner or Manner()
        self.tally = Tally()
        self.files = [folder / f"client-{number}.jsonl" for number in range(clients)]
        self._seed = seed
        self._working = asyncio.Event()
        self._busy: set[int] = set()
        self._idle = asyncio.Event()

    def go_on(self) -> None:
        self._working.set()

    async def pause(self) -> None:
        """Returns when every operation that was under way has ended."""
        self._working.clear()
        while self._busy:
            self._idle.clear()
            await self._idle.wait()

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            for number in range(len(self.files)):
                group.create_task(self._client(number))

    async def _client(self, number: int) -> None:
        chance = random.Random(f"{self._seed}-{number}")
        limits = httpx.Limits(max_keepalive_connections=4)
        with History(self.files[number], f"c{number}") as history:
            async with httpx.AsyncClient(timeout=ANSWER_S_MAX, limits=limits) as http:
                client = _Client(self, http, history, chance)
                while True:
                    await self._working.wait()
                    self._busy.add(number)
                    try:
                        await client.act()
                    finally:
                        self._busy.discard(number)
                        self._idle.set()
                    await asyncio.sleep(self.manner.think_s * chance.uniform(0.5, 1.5))


class _Client:
    def __init__(self, load: Load, http: httpx.AsyncClient, history: History, chance: random.Random) -> None:
        self._load = load
        self._http = http
        self._history = history
        self._chance = chance
        self._vms: list[str] = []
        #: these may be given up before somebody deletes them
        self._doubtful: set[str] = set()
        self._deleted: list[str] = []
        self._url = chance.randrange(len(load.urls))

    async def act(self) -> None:
        """One operation, tried until it is answered."""
        drawn = self._chance.random()
        readable = [name for name in self._vms + self._deleted[-5:] if name not in self._doubtful]
        if not self._vms or (drawn < 0.6 and self._wants_more()):
            await self._create()
        elif drawn < 0.8:
            await self._delete(self._vms.pop(self._chance.randrange(len(self._vms))))
        elif drawn < 0.95 and readable:
            await self._read(self._chance.choice(readable))
        else:
            await self._change(f"bm-{self._chance.randrange(CHANGED_HOSTS):03d}")

    def _wants_more(self) -> bool:
        most = self._load.manner.vms_max
        return most is None or len(self._vms) < most

    async def _create(self) -> None:
        key = str(uuid.UUID(int=self._chance.getrandbits(128), version=4))
        name = f"c-{key[:18]}"
        body = {"name": name, "resources": VM, **self._patience()}
        if len(body) > 2:
            self._doubtful.add(name)
        answer = await self._insist("create", "vm", name, "POST", "/v1/vms", key=key, body=body, right=(202,))
        if answer is not None:
            self._vms.append(name)
            self._load.tally.accepted += 1
            self._load.tally.accepted_s = time.monotonic()

    def _patience(self) -> dict[str, Any]:
        manner, drawn = self._load.manner, self._chance.random()
        if drawn < manner.impatient:
            return {"when_unplaceable": "fail"}
        return {"deadline_s": DEADLINE_S} if drawn < manner.impatient + manner.in_a_hurry else {}

    async def _delete(self, name: str) -> None:
        right = (204, 404) if name in self._doubtful else (204,)
        if await self._insist("delete", "vm", name, "DELETE", f"/v1/vms/{name}", right=right) is not None:
            self._deleted.append(name)

    async def _read(self, name: str) -> None:
        await self._insist("read", "vm", name, "GET", f"/v1/vms/{name}", right=(200, 404))

    async def _change(self, host: str) -> None:
        body = {"labels": {"touched": str(self._chance.getrandbits(62))}}
        # never repeated: a second one would be a second change
        await self._try("change", "host", host, "PATCH", f"/v1/hosts/{host}", body=body, right=(200, 412))

    async def _insist(self, do: str, kind: str, name: str, *request: Any, **more: Any) -> httpx.Response | None:
        """Until there is an answer that is not "in a moment". None: it was refused, which is told already."""
        tally = self._load.tally
        end_s = time.monotonic() + PATIENCE_S
        unanswered = 0
        while time.monotonic() < end_s:
            answer = await self._try(do, kind, name, *request, **more)
            if answer is not None and answer.status_code not in LATER:
                return answer if answer.status_code in more["right"] else None
            unanswered = unanswered + 1 if answer is None else 0
            tally.failed += unanswered == 2  # the second try went elsewhere
            await asyncio.sleep(AGAIN_S)
        tally.wrong.append(f"{do} of {kind} {name} found no answer within {PATIENCE_S:g} s")
        return None

    async def _try(
        self,
        do: str,
        kind: str,
        name: str,
        method: str,
        path: str,
        *,
        right: tuple[int, ...],
        key: str = "",
        body: Any = None,
    ) -> httpx.Response | None:
        """One request, written down. None: no answer."""
        tally = self._load.tally
        op = self._history.call(do, kind, name, key=key)
        began_s = time.monotonic()
        try:
            answer = await self._http.request(
                method,
                self._load.urls[self._url] + path,
                headers={"Idempotency-Key": key} if key else {},
                json=body,
            )
        except httpx.HTTPError as error:
            tally.unanswered += 1
            self._history.end(op, "fail" if isinstance(error, httpx.ConnectError) else "info")
            self._url = (self._url + 1) % len(self._load.urls)
            return None
        finally:
            tally.slowest_s = max(tally.slowest_s, time.monotonic() - began_s)
        tally.answered += 1
        phase, told = _end_of(answer, right, do)
        self._history.end(op, phase, **told)
        self._judge(answer, right, f"{do} of {kind} {name}")
        return answer

    def _judge(self, answer: httpx.Response, right: tuple[int, ...], what: str) -> None:
        tally = self._load.tally
        if answer.status_code in LATER:
            tally.put_off += 1
        elif answer.status_code not in right:
            tally.wrong.append(f"{what} was answered {answer.status_code}: {answer.text[:300]}")


def _end_of(answer: httpx.Response, right: tuple[int, ...], do: str) -> tuple[str, dict[str, Any]]:
    """How the history calls it, and what it tells."""
    status = answer.status_code
    if status == 404 and do == "read":
        return "ok", {"absent": True}
    if status == 204:
        return "ok", {}
    if status < 300:
        document = answer.json()
        return "ok", {"id": document.get("task_id", ""), "version": document["version"]}
    # who is put off by 503 may have been heard: the answer to a commit can be lost
    return ("fail" if status < 500 else "info"), {}


@contextlib.asynccontextmanager
async def load_on(
    urls: Sequence[str], folder: Path, *, clients: int = CLIENTS, seed: int = 1, manner: Manner | None = None
) -> AsyncIterator[Load]:
    """At work inside the block."""
    made = Load(urls, folder, clients=clients, seed=seed, manner=manner)
    made.go_on()
    running = asyncio.create_task(made.run())
    try:
        yield made
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
