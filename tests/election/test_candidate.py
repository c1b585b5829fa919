"""Candidates in a time of their own: never two valid terms at once, whatever is late, lost, stopped or too fast."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs
from tests.election.virtual import LoopClock, VirtualLoop, run

from virtflow.election import Term
from virtflow.election.candidate import Candidate
from virtflow.election.judge import KEPT, LOOKS_APART_S
from virtflow.model.errors import Busy, Unavailable
from virtflow.testing.ballot import MemoryBallot, Urn, Way

LEASE_S = 2.0
A_MOMENT_S = 1e-6  # sums of floats
DEAD = Way(is_question_lost=True)


class Stand:
    """One candidate, its ballot and its term."""

    def __init__(self, urn: Urn, me: str, *, speed: float = 1.0) -> None:
        self.me = me
        self.ballot: MemoryBallot = urn.ballot(me, call_s=LEASE_S / 4)
        self.election = Candidate(self.ballot, office="scheduler", me=me, lease_s=LEASE_S, clock=LoopClock(speed))
        self.term: Term | None = None

    def leads(self) -> bool:
        return self.term is not None and self.term.is_valid()

    def cut_off(self) -> None:
        self.ballot.way = lambda: DEAD

    async def campaign(self) -> Term:
        self.term = await self.election.campaign()
        return self.term

    async def hold_for_ever(self) -> None:
        """As an office does: until the term ends, and again."""
        while True:
            await (await self.campaign()).ended()


@contextlib.asynccontextmanager
async def holding(*stands: Stand) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(stand.hold_for_ever()) for stand in stands]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for stand in stands:
            await stand.election.close()


def now_s() -> float:
    return asyncio.get_running_loop().time()


def test_a_term_lasts_as_long_as_its_beats() -> None:
    async def told() -> None:
        one = Stand(Urn(), "one")
        async with holding(one):
            await asyncio.sleep(100 * LEASE_S)
            assert one.leads()
            assert one.term is not None
            assert one.term.number == 1
            assert one.election.state == "leading"

    run(told())


def test_who_is_cut_off_stops_at_four_fifths_of_the_lease_and_the_next_begins_after_all_of_it() -> None:
    async def told() -> None:
        urn = Urn()
        one, two = Stand(urn, "one"), Stand(urn, "two")
        first = await one.campaign()
        second = asyncio.create_task(two.campaign())
        await asyncio.sleep(10)
        one.cut_off()
        cut_s = now_s()
        await first.ended()
        assert not first.is_valid()
        assert now_s() - cut_s <= KEPT * LEASE_S + A_MOMENT_S
        stopped_s = now_s()
        await second
        assert now_s() >= stopped_s + (1 - KEPT) * LEASE_S - A_MOMENT_S
        assert now_s() - cut_s <= LEASE_S + 2 * two.ballot.look_s + A_MOMENT_S
        assert two.leads()
        await two.election.close()

    run(told())


def test_who_lost_one_beat_leads_on() -> None:
    async def told() -> None:
        one = Stand(Urn(), "one")
        first = await one.campaign()
        ways = iter([DEAD, *[Way()] * 100])
        one.ballot.way = lambda: next(ways)
        await asyncio.sleep(10 * LEASE_S)
        assert first.is_valid()
        await one.election.close()

    run(told())


def test_who_lost_the_answer_to_a_beat_leads_on() -> None:
    async def told() -> None:
        one = Stand(Urn(), "one")
        first = await one.campaign()
        ways = iter([Way(is_answer_lost=True), *[Way()] * 100])
        one.ballot.way = lambda: next(ways)
        await asyncio.sleep(10 * LEASE_S)
        assert first.is_valid()
        await one.election.close()

    run(told())


def test_who_lost_the_answer_to_his_own_election_takes_it_at_the_next_look() -> None:
    async def told() -> None:
        urn = Urn()
        one = Stand(urn, "one")
        ways = iter([Way(), Way(is_answer_lost=True), *[Way()] * 100])
        one.ballot.way = lambda: next(ways)
        began_s = now_s()
        term = await one.campaign()
        assert term.number == 2
        assert now_s() - began_s < LEASE_S
        await one.election.close()

    run(told())


def test_a_term_counts_from_before_the_question_was_sent_however_late_the_answer() -> None:
    async def told() -> None:
        one = Stand(Urn(), "one")
        one.ballot.call_s = LEASE_S
        ways = iter([Way(), Way(back_s=1.5), *[DEAD] * 100])
        one.ballot.way = lambda: next(ways)
        began_s = now_s()
        term = await one.campaign()
        assert now_s() - began_s == pytest.approx(1.5)
        assert term.is_valid()
        await term.ended()
        assert now_s() - began_s == pytest.approx(KEPT * LEASE_S)
        await one.election.close()

    run(told())


def test_a_beat_counts_from_before_it_was_sent_however_late_the_answer() -> None:
    async def told() -> None:
        one = Stand(Urn(), "one")
        one.ballot.call_s = LEASE_S
        ways = iter([Way(), Way(), Way(back_s=0.8), *[DEAD] * 100])
        one.ballot.way = lambda: next(ways)
        term = await one.campaign()
        began_s = now_s()
        await term.ended()
        assert now_s() - began_s == pytest.approx(LEASE_S / 3 + KEPT * LEASE_S)
        await one.election.close()

    run(told())


def test_who_was_stopped_knows_it_before_anything_else_of_him_runs() -> None:
    async def told() -> None:
        one = Stand(Urn(), "one")
        term = await one.campaign()
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        loop.jump(KEPT * LEASE_S)
        assert not term.is_valid()
        await term.ended()
        await one.election.close()

    run(told())


def test_who_resigns_is_followed_within_a_look() -> None:
    async def told() -> None:
        urn = Urn()
        one, two = Stand(urn, "one"), Stand(urn, "two")
        first = await one.campaign()
        second = asyncio.create_task(two.campaign())
        await asyncio.sleep(5)
        began_s = now_s()
        await first.resign()
        assert not first.is_valid()
        assert (await second).number == first.number + 1
        assert now_s() - began_s <= two.ballot.look_s + A_MOMENT_S
        await first.resign()  # once more does nothing
        await first.ended()
        assert two.leads()
        await two.election.close()

    run(told())


def test_who_is_seen_as_dead_is_followed_within_two_looks() -> None:
    async def told() -> None:
        urn = Urn()
        one, two = Stand(urn, "one"), Stand(urn, "two")
        await one.campaign()
        second = asyncio.create_task(two.campaign())
        await asyncio.sleep(5)
        one.cut_off()
        urn.dead.add("one")
        began_s = now_s()
        await second
        assert now_s() - began_s <= LOOKS_APART_S + two.ballot.look_s + A_MOMENT_S
        await one.election.close()
        await two.election.close()

    run(told())


def test_who_may_be_seen_as_dead_stops_at_once() -> None:
    async def told() -> None:
        one = Stand(Urn(), "one")
        first = await one.campaign()
        one.ballot.gone().set()
        assert not first.is_valid()
        await first.ended()
        one.ballot.gone().clear()
        again = await one.campaign()
        assert again.number == 2
        await one.election.close()

    run(told())


def test_who_meets_another_holder_stops_although_the_lease_is_not_over() -> None:
    async def told() -> None:
        urn = Urn()
        one = Stand(urn, "one")
        first = await one.campaign()
        urn.change(urn.vote, holder="stranger", term=9)
        began_s = now_s()
        await first.ended()
        assert now_s() - began_s <= LEASE_S / 3
        assert urn.vote is not None
        assert urn.vote.holder == "stranger"

    run(told())


def test_what_is_wrong_is_said_and_forgotten() -> None:
    async def told() -> None:
        one = Stand(Urn(), "one")
        states = []

        def broken() -> Way:
            states.append(one.election.state)
            if len(states) < 3:
                raise Unavailable("the database is on fire")
            return Way()

        one.ballot.way = broken
        await one.campaign()
        assert states == ["following", *["the database is on fire"] * 3]
        assert one.election.state == "leading"
        await one.election.close()
        assert one.election.state == "following"

    run(told())


def test_what_is_wrong_in_several_words_is_one_line_until_it_works() -> None:
    async def told() -> None:
        one = Stand(Urn(), "one")
        words = ["it is on fire", "nobody listens there", "it is on fire"]

        def broken() -> Way:
            if words:
                raise Unavailable(words.pop())
            return Way()

        one.ballot.way = broken
        await one.campaign()
        await one.election.close()

    with capture_logs() as lines:
        run(told())
    said = [line["event"] for line in lines if line["event"].startswith("election.")]
    assert said == ["election.failed", "election.works"]


def test_who_is_asked_to_come_back_later_does() -> None:
    async def told() -> None:
        one = Stand(Urn(), "one")
        asked_s: list[float] = []

        def busy() -> Way:
            asked_s.append(now_s())
            if len(asked_s) == 1:
                raise Busy("too many requests", retry_after_s=3)
            return Way()

        one.ballot.way = busy
        await one.campaign()
        assert asked_s[1] - asked_s[0] == pytest.approx(3)
        await one.election.close()

    run(told())


_late_s = st.sampled_from([0.0, 0.0, 0.05, 0.3, 0.9, 1.5, 2.1, 4.0])
#: so long it goes so well with everything that a candidate asks
_spells = st.tuples(
    st.sampled_from([0.5, 1.0, 2.0, 3.0, 5.0]),
    st.sampled_from([Way(), DEAD]) | st.builds(Way, there_s=_late_s, back_s=_late_s, is_answer_lost=st.booleans()),
)
TROUBLED_S, A_WHILE_S = 20.0, 0.1


def ways_of(spells: Sequence[tuple[float, Way]]) -> Callable[[], Way]:
    """One after the other, and then all is well."""
    began_s = now_s()

    def way() -> Way:
        at_s = now_s() - began_s
        for length_s, spell in spells:
            if at_s < length_s:
                return spell
            at_s -= length_s
        return Way()

    return way


@given(
    fates=st.lists(st.lists(_spells, max_size=8), min_size=2, max_size=4),
    # nearly as far apart as the part of the lease that the holder does not use
    speeds=st.lists(st.sampled_from([0.9, 1.0, 1.1]), min_size=4, max_size=4),
)
def test_there_are_never_two_valid_terms_at_once(
    fates: Sequence[Sequence[tuple[float, Way]]], speeds: Sequence[float]
) -> None:
    """A process that is stopped is one whose questions and answers are late: its clock goes on."""

    async def told() -> None:
        urn = Urn()
        stands = [Stand(urn, f"c{n}", speed=speeds[n]) for n in range(len(fates))]
        for stand, spells in zip(stands, fates, strict=True):
            stand.ballot.call_s = LEASE_S
            stand.ballot.way = ways_of(spells)
        numbers: list[int] = []
        async with holding(*stands):
            for _ in range(int(2 * TROUBLED_S / A_WHILE_S)):
                await asyncio.sleep(A_WHILE_S)
                leading = [stand for stand in stands if stand.leads()]
                assert len(leading) <= 1, [stand.me for stand in leading]
                numbers += [stand.term.number for stand in leading if stand.term]
            assert numbers == sorted(numbers)
            assert sum(stand.leads() for stand in stands) == 1  # once all is well again, somebody does

    run(told())
