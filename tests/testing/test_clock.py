"""The clock that is turned by hand."""

import pytest

from virtflow.model.clock import Clock
from virtflow.testing.clock import ManualClock


def test_both_times_advance_together_and_only_when_told() -> None:
    clock: Clock = (manual := ManualClock(1000))
    assert (clock.now_ms(), clock.monotonic_s()) == (1000, 0.0)
    manual.advance(1.5)
    assert (clock.now_ms(), clock.monotonic_s()) == (2500, 1.5)


def test_the_wall_clock_may_jump_back_while_the_other_goes_on() -> None:
    clock = ManualClock(1000)
    clock.advance(1)
    clock.set_wall(0)
    assert (clock.now_ms(), clock.monotonic_s()) == (0, 1.0)


def test_time_does_not_go_backwards() -> None:
    with pytest.raises(ValueError, match="backwards"):
        ManualClock().advance(-1)
