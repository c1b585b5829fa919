"""Ids sort by time, never repeat, and look like version 4 UUIDs."""

import os
import uuid

from virtflow.control.ids import Ids
from virtflow.model.names import id_to_text
from virtflow.testing.clock import ManualClock


def test_ids_are_in_order_and_unique_even_when_the_clock_stands_still_or_goes_back() -> None:
    clock = ManualClock()
    ids = Ids(clock, os.urandom)
    made = [ids.next() for _ in range(10_000)]
    clock.set_wall(clock.now_ms() - 60_000)
    made += [ids.next() for _ in range(100)]
    assert made == sorted(set(made))


def test_ids_run_after_one_that_was_made_by_a_clock_that_is_ahead() -> None:
    ahead, clock = ManualClock(), ManualClock()
    ahead.advance(86_400)
    of_others = Ids(ahead, os.urandom)
    known = [of_others.next() for _ in range(2)]
    ids = Ids(clock, os.urandom)
    ids.run_after(known[-1])
    after = [ids.next() for _ in range(3)]
    assert known + after == sorted(known + after)
    ids.run_after(None)
    assert ids.next() > after[-1]


def test_an_id_passes_for_a_version_4_uuid() -> None:
    found = uuid.UUID(id_to_text(Ids(ManualClock(), os.urandom).next()))
    assert (found.version, found.variant) == (4, uuid.RFC_4122)
