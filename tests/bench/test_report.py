"""Figures beside goals: nothing may look better than it is."""

import pytest
from bench.report import Figure, shown, table


def figure(measured: float, *, goal: float | None = 100, stretch: float | None = 300, less: bool = False) -> Figure:
    return Figure(
        key="k", what="something", measured=measured, unit="s", goal=goal, stretch=stretch, less_is_better=less
    )


@pytest.mark.parametrize(
    ("measured", "verdict"),
    [(50, "2.00× short"), (99, "1.01× short"), (100, "met"), (299, "met"), (300, "stretch met")],
)
def test_more_is_better(measured, verdict):
    assert figure(measured).verdict == verdict


@pytest.mark.parametrize(("measured", "verdict"), [(400, "2.00× short"), (200, "met"), (40, "stretch met")])
def test_less_is_better(measured, verdict):
    assert figure(measured, goal=200, stretch=40, less=True).verdict == verdict


def test_without_a_goal_there_is_no_verdict():
    assert figure(7, goal=None, stretch=None).verdict == ""
    assert figure(7, goal=None, stretch=None).is_met


def test_the_table_has_a_line_for_each_figure():
    lines = table([figure(50), figure(300)]).splitlines()

    assert len(lines) == 4
    assert len({len(line) for line in lines}) == 1
    assert "2.00× short" in lines[2]


@pytest.mark.parametrize(
    ("value", "text"),
    [(1_234_567, "1,234,567 B"), (999.94, "999.9 B"), (10, "10 B"), (0.0714, "0.0714 B"), (-0.01, "-0.01 B")],
)
def test_numbers_have_as_many_digits_as_mean_something(value, text):
    assert shown(value, "B") == text
