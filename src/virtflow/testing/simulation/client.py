"""Clients who order, delete, cancel, read and rearrange hosts, repeat what was not answered, and write it all down."""

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import Any

from virtflow.api.idempotency import Key, answer, once
from virtflow.api.vms import VmWriter
from virtflow.control.house import House
from virtflow.control.orders import Rendered, VmOrder
from virtflow.model.errors import Busy, OutcomeUnknown, Unavailable, VirtflowError
from virtflow.model.host import HostSpec
from virtflow.model.pool import PoolSpec
from virtflow.model.shape import Shape, shape
from virtflow.model.task import WhenUnplaceable
from virtflow.model.views import VmView
from virtflow.testing.simulation.history import Call, History, Outcome
from virtflow.testing.simulation.network import Network, fulfil
from virtflow.testing.simulation.process import Process
from virtflow.testing.simulation.trace import Trace
from virtflow.testing.simulation.weather import Weather

TRIES_MAX = 8
CORE, GIB = 1000, 1024
_POOLS = ("default", "ai")
#: names that several clients want at once
_WANTED_NAMES = ("gold-1", "gold-2", "gold-3")

Do = Callable[[House], Awaitable[Any]]


class Client:
    def __init__(
        self,
        name: str,
        *,
        processes: Sequence[Process],
        network: Network,
        weather: Weather,
        history: History,
        trace: Trace,
        chance: Random,
        clock: Callable[[], float],
        hosts: int,
        likes: Sequence[float],
        patience_s: float,
        sizes: Sequence[int],
        think_s: float,
    ) -> None:
        """`likes`: how often it orders one, orders many, deletes, reads, cancels, and rearranges hosts."""
        self.name = name
        self._patience_s = patience_s
        self._sizes = sizes
        self._think_s = think_s
        self._likes = likes
        self._processes = processes
        self._network = network
        self._weather = weather
        self._history = history
        self._trace = trace
        self._chance = chance
        self._clock = clock
        self._hosts = hosts
        self._number = 0
        #: ours: name -> id
        self._vms: dict[str, str] = {}

    async def work(self, calls: int) -> None:
        verbs = (self.order, self.order_many, self.delete, self.read, self.cancel, self.arrange)
        for _ in range(calls):
            await self._chance.choices(verbs, weights=self._likes)[0]()
            await asyncio.sleep(self._chance.expovariate(1 / self._think_s))

    # ── verbs ─────────────────────────────────────────────────────────────────────────────────────

    async def order(self) -> None:
        chance = self._chance
        name: str | None = self._new_name("vm")
        if chance.random() < 0.15:
            name = chance.choice(_WANTED_NAMES)
        elif chance.random() < 0.15:
            name = None
        task_id = self._new_name("task") if chance.random() < 0.1 else None
        order = self._order(name, task_id)
        call = await self._create("order", (order,), together=False)
        if call.outcome is Outcome.DONE:
            self._vms.update({vm["name"]: vm["id"] for vm in call.result})

    async def order_many(self) -> None:
        first = self._new_name("lot")
        orders = tuple(self._order(f"{first}-{number}", None) for number in range(self._chance.randint(2, 6)))
        call = await self._create("order", orders, together=self._chance.random() < 0.5)
        if call.outcome is Outcome.DONE:
            self._vms.update({vm["name"]: vm["id"] for vm in call.result})

    async def delete(self) -> None:
        if not self._vms:
            return
        name = self._chance.choice(sorted(self._vms))
        vm_id = self._vms.pop(name)
        # repeated by a name that others want, it might hit the next who bears it
        which = vm_id if name in _WANTED_NAMES else name

        async def delete() -> None:
            call = await self._insist(
                "delete", name, lambda house: house.vms.delete(which, expected_version=None, actor=self.name)
            )
            call.result = vm_id

        times = 2 if self._chance.random() < 0.3 else 1  # at once: somebody clicked twice
        await asyncio.gather(*(delete() for _ in range(times)))

    async def cancel(self) -> None:
        if not self._vms:
            return
        name = self._chance.choice(sorted(self._vms))
        key = bytes.fromhex(self._vms[name].replace("-", "")) if len(self._vms[name]) == 36 else None
        if key is None:
            return
        call = await self._insist(
            "cancel", self._vms[name], lambda house: house.tasks.cancel(key, expected_version=None, actor=self.name)
        )
        if call.outcome is Outcome.DONE:
            self._vms.pop(name)

    async def read(self) -> None:
        if not self._vms:
            return
        name = self._chance.choice(sorted(self._vms))
        vm_id = self._vms[name]  # a request may arrive when we have given it up and deleted the VM

        async def read(house: House) -> Any:
            view = await house.vms.get(vm_id)
            return view.instance.version, view.instance.host, name

        await self._insist("read", vm_id, read)

    async def arrange(self) -> None:
        """Hosts and pools change under everybody's feet."""
        name = self.host_name(self._chance.randrange(self._hosts))
        kind = self._chance.randrange(10)
        if kind <= 1:
            cordoned = kind == 0
            await self._insist(
                "cordon",
                name,
                lambda house: house.hosts.cordon(name, cordoned=cordoned, expected_version=None, actor=self.name),
            )
        elif kind <= 7:
            spec = self.host_spec(name, cores=self._chance.choice(self._sizes))
            await self._insist(
                "arrange", name, lambda house: house.hosts.replace(spec, expected_version=None, actor=self.name)
            )
        elif kind == 8:
            await self._insist(
                "remove host", name, lambda house: house.hosts.delete(name, expected_version=None, actor=self.name)
            )
        else:
            pool = PoolSpec(name="ai", overcommit={"cpu": self._chance.choice((1.0, 1.5, 2.0))})
            await self._insist(
                "pool", "ai", lambda house: house.pools.put(pool, expected_version=None, actor=self.name)
            )

    async def register(self) -> None:
        """The fleet everybody works on; insists until it is there."""
        for number in range(self._hosts):
            spec = self.host_spec(self.host_name(number), cores=self._chance.choice((2, 4, 6)))
            for _ in range(20):
                call = await self._insist(
                    "arrange",
                    spec.name,
                    lambda house, spec=spec: house.hosts.replace(  # type: ignore[misc]
                        spec, expected_version=None, actor=self.name
                    ),
                )
                if call.outcome is Outcome.DONE:
                    break

    # ── how it asks ───────────────────────────────────────────────────────────────────────────────

    async def _create(self, verb: str, orders: tuple[VmOrder, ...], *, together: bool) -> Call:
        digest = hashlib.blake2b(repr((together, orders)).encode(), digest_size=16).digest()
        key = Key(self.name, self._new_name("key"), digest)

        async def do(house: House) -> Any:
            async def place() -> Rendered:
                receipt = key.receipt(_rendered)
                views = await house.vms.create(orders, together=together, actor=self.name, receipt=receipt)
                return answer(receipt, _rendered, views)

            rendered = await once(house.answers, key, place)
            return json.loads(rendered[1])["items"]

        call = await self._insist(verb, key.text, do)
        call.result = call.result or [{"name": order.name or "", "id": order.task_id or ""} for order in orders]
        return call

    async def _insist(self, verb: str, about: str, do: Do) -> Call:
        """Until there is an answer that is not "try again", or patience ends."""
        call = Call(self.name, verb, about, self._clock())
        self._history.calls.append(call)
        self._trace.say(self.name, f"{verb} {about}")
        for number in range(TRIES_MAX):
            call.tries, call.sent_s = call.tries + 1, self._clock()
            process = self._chance.choice(self._processes)
            result, error = await self._ask(process, do)
            call.answered_s = self._clock()
            if error is None:
                call.outcome, call.result = Outcome.DONE, result
                break
            if isinstance(error, VirtflowError) and not isinstance(error, Unavailable | Busy):
                call.outcome, call.code = Outcome.REFUSED, error.error_code
                break
            call.code = error.error_code if isinstance(error, VirtflowError) else type(error).__name__
            if isinstance(error, OutcomeUnknown):
                self._trace.sight("client told that the outcome is unknown")
            await asyncio.sleep(self._chance.uniform(0, 0.2 * (number + 1)))
        self._trace.say(self.name, f"{verb} {about}: {call.outcome.value} {call.code} after {call.tries}")
        self._trace.sight(f"{verb} {call.outcome.value}")
        return call

    async def _ask(self, process: Process, do: Do) -> tuple[Any, Exception | None]:
        """One request to one process, over ways that lose it or its answer."""
        heard: asyncio.Future[tuple[Any, Exception | None]] = asyncio.get_running_loop().create_future()
        serving: list[Any] = []

        def hear(result: Any, error: Exception | None) -> None:
            if self._comes("answer lost"):
                return
            self._network.later(lambda: fulfil(heard, (result, error)))

        if not self._comes("request lost"):
            self._network.later(lambda: serving.append(process.serve(do, hear)))
        patience_s = self._chance.uniform(0.001, 0.02) if self._comes("client gave up") else self._patience_s
        try:
            async with asyncio.timeout(patience_s):
                return await heard
        except TimeoutError as error:
            for task in serving:
                if task is not None:  # the connection is closed, and the server notices
                    self._network.run_at(process.place, task.cancel)
            return None, error

    def _comes(self, fault: str) -> bool:
        comes = self._weather.comes(fault)
        if comes:
            self._trace.fault(self.name, fault)
        return comes

    # ── what it asks for ──────────────────────────────────────────────────────────────────────────

    def _order(self, name: str | None, task_id: str | None) -> VmOrder:
        chance = self._chance
        return VmOrder(
            shape=self._shape(),
            name=name,
            task_id=task_id,
            when_unplaceable=chance.choice((WhenUnplaceable.WAIT, WhenUnplaceable.WAIT, WhenUnplaceable.FAIL)),
            priority=chance.choice((0, 0, 0, 5)),
            deadline_s=chance.choice((None, None, None, 3)),
        )

    def _shape(self) -> Shape:
        cores = self._chance.choice((1, 1, 1, 2, 2, 3))
        pool = "ai" if self._chance.random() < 0.2 else "default"
        return shape({"cpu": cores * CORE, "memory": cores * GIB}, pool=pool)

    @staticmethod
    def host_name(number: int) -> str:
        return f"bm-{number + 1}"

    @staticmethod
    def host_spec(name: str, *, cores: int) -> HostSpec:
        pool = _POOLS[int(name.removeprefix("bm-")) % 3 == 0]
        room = {"cpu": cores * CORE, "memory": cores * 2 * GIB, "disk": 100, "vms": 20}
        return HostSpec(name=name, address=f"10.0.0.{name.removeprefix('bm-')}", pool=pool, capacity=room)

    def _new_name(self, kind: str) -> str:
        self._number += 1
        return f"{self.name}-{kind}-{self._number}"


def _rendered(views: list[VmView]) -> Rendered:
    return 202, VmWriter().many(views), ()
