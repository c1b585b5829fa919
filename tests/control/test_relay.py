"""The relay's office: its couriers work while the term lasts, each for itself."""

import asyncio

from virtflow.control.relay import Relay
from virtflow.election import Term
from virtflow.election.alone import Alone
from virtflow.main.loops import Loops

SOON_S = 10.0


class Walker:
    """A courier that only shows whether it is on its way."""

    state = "ok"

    def __init__(self, name: str, *, stumbles: bool = False) -> None:
        self.name = name
        self.knocks = 0
        self.runs = 0
        self.is_out = asyncio.Event()
        self.is_back = asyncio.Event()
        self.is_closed = False
        self._stumbles = stumbles

    def knock(self) -> None:
        self.knocks += 1

    async def run(self, term: Term) -> None:
        assert term.is_valid()
        self.runs += 1
        if self._stumbles and self.runs == 1:
            raise OSError("a stone")
        self.is_out.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.is_back.set()

    async def close(self) -> None:
        self.is_closed = True


async def nothing() -> None:
    """Everything is in order already."""


async def test_every_courier_is_out_for_the_term_and_back_after_it() -> None:
    couriers = [Walker("nats"), Walker("kafka")]
    loops = Loops()
    relay, term = Relay(couriers, start=loops.start, settle=nothing), await Alone("relay").campaign()
    async with asyncio.timeout(SOON_S):
        working = asyncio.create_task(relay.work(term))
        for courier in couriers:
            await courier.is_out.wait()
        assert loops.report() == {"courier nats": "ok", "courier kafka": "ok"}
        await term.resign()
        await working
    assert all(courier.is_back.is_set() for courier in couriers)
    assert loops.report() == {}


async def test_a_courier_that_stumbles_sets_out_again_and_the_others_do_not_notice() -> None:
    stumbling, steady = Walker("nats", stumbles=True), Walker("kafka")
    relay, term = Relay([stumbling, steady], start=Loops().start, settle=nothing), await Alone("relay").campaign()
    async with asyncio.timeout(SOON_S):
        working = asyncio.create_task(relay.work(term))
        await stumbling.is_out.wait()
        await term.resign()
        await working
    assert (stumbling.runs, steady.runs) == (2, 1)


async def test_a_knock_reaches_all_and_what_is_wrong_with_one_is_told_by_its_name() -> None:
    couriers = [Walker("nats"), Walker("kafka")]
    relay = Relay(couriers, start=Loops().start, settle=nothing)
    relay.knock()
    assert [courier.knocks for courier in couriers] == [1, 1]
    assert relay.states == {"courier nats": "ok", "courier kafka": "ok"}
    couriers[1].state = "failing: nobody listens"
    assert relay.states == {"courier nats": "ok", "courier kafka": "failing: nobody listens"}
    await relay.close()
    assert all(courier.is_closed for courier in couriers)
