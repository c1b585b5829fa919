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


def test_an_id_passes_for_a_version_4_uuid() -> None:
    found = uuid.UUID(id_to_text(Ids(ManualClock(), os.urandom).next()))
    assert (found.version, found.variant) == (4, uuid.RFC_4122)
