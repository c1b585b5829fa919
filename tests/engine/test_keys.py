"""One whole number to compare hosts by."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from virtflow.engine.keys import IMPOSSIBLE, INSTANCES_COMPARED_MAX, STEPS, STEPS_MAX, key_of, keys_of, score_of

scores = st.floats(-(2.0**50), 2.0**50) | st.floats(-4, 4)
counts = st.integers(0, 2**21)


@given(st.lists(st.tuples(scores, counts), min_size=1), st.sampled_from((STEPS, 1.0)))
def test_many_keys_at_once_are_the_same_as_one_by_one(hosts: list[tuple[float, int]], steps: float) -> None:
    at_once = keys_of(np.array([score for score, _ in hosts]), np.array([count for _, count in hosts]), steps)

    assert at_once.tolist() == [key_of(score, count, steps) for score, count in hosts]


@given(st.floats(-4, 4), counts, st.floats(-4, 4), counts)
def test_the_score_decides_then_fewer_instances(score: float, count: int, other: float, others: int) -> None:
    if other > score + 2 / STEPS:
        assert key_of(score, count, STEPS) < key_of(other, others, STEPS)
    if count < others <= INSTANCES_COMPARED_MAX:
        assert key_of(score, count, STEPS) < key_of(score, others, STEPS)


@pytest.mark.parametrize(("left", "right"), [(0.1 + 0.2, 0.3), (1 - 0.9, 0.1), (0.7 + 0.1 + 0.1 + 0.1, 1.0)])
def test_the_noise_of_floating_point_decides_nothing(left: float, right: float) -> None:
    assert left != right
    assert key_of(left, 3, STEPS) == key_of(right, 3, STEPS)


@given(scores, counts, st.sampled_from((STEPS, 1.0)))
def test_no_possible_host_looks_impossible(score: float, count: int, steps: float) -> None:
    assert key_of(score, count, steps) < IMPOSSIBLE


@given(st.floats(-1000, 1000), counts)
def test_the_score_can_be_read_back_to_nine_digits(score: float, count: int) -> None:
    assert score_of(key_of(score, count, STEPS), STEPS) == pytest.approx(score, abs=1e-9)


def test_scores_beyond_the_range_are_all_alike() -> None:
    assert key_of(1e30, 0, STEPS) == key_of(1e10, 0, STEPS) == STEPS_MAX << 20
    assert key_of(-1e30, 0, STEPS) == key_of(-1e10, 0, STEPS)
