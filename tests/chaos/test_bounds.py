"""What a number of rounds proves."""

import pytest
from chaos.bounds import percentile, upper_bound


@pytest.mark.parametrize("rounds", [20, 100, 500, 10_000])
def test_without_a_violation_the_rule_of_three_holds(rounds: int) -> None:
    assert upper_bound(0, rounds) == pytest.approx(1 - 0.05 ** (1 / rounds))
    assert upper_bound(0, rounds) == pytest.approx(3 / rounds, rel=0.1)


def test_violations_raise_the_bound() -> None:
    """As the tables of Clopper and Pearson say, one-sided."""
    assert upper_bound(1, 20) == pytest.approx(0.2161, abs=1e-4)
    assert upper_bound(2, 100) == pytest.approx(0.0616, abs=1e-4)


def test_nothing_is_proved_by_no_rounds_or_by_nothing_but_violations() -> None:
    assert upper_bound(0, 0) == 1.0
    assert upper_bound(3, 3) == 1.0


def test_a_percentile_is_a_value_that_was_measured() -> None:
    values = [float(number) for number in range(1, 101)]
    assert (percentile(values, 50), percentile(values, 99), percentile(values, 100)) == (50.0, 99.0, 100.0)
    assert percentile([7.0], 50) == 7.0
    assert percentile([], 99) is None
