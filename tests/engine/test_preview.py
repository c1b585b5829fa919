"""The dry run promises what `decide` does, and shows why."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.engine.random_fleets import fleets, shapes

from virtflow.engine import strategies
from virtflow.engine.decide import decide
from virtflow.engine.preview import preview, preview_all, preview_each
from virtflow.model.host import Host
from virtflow.model.plan import Placement
from virtflow.model.shape import Shape
from virtflow.testing.builders import fleet, host, requests, shape


@given(fleets(), st.lists(shapes(), min_size=1, max_size=6), st.sampled_from([{}, {"a": "h20"}]))
def test_the_winner_is_the_one_that_decide_chooses(
    some: list[Host], live: list[Shape], cursors: dict[str, str]
) -> None:
    made = fleet(some)
    asked = [requests(1, wanted, start=number)[0] for number, wanted in enumerate(live)]

    seen = preview_all(made, asked, cursors=cursors)
    plan = decide(made, asked, cursors=cursors)

    for one, outcome in zip(seen, plan.outcomes, strict=True):
        if isinstance(outcome, Placement):
            assert one.winner is not None
            assert (one.winner.host, one.winner.score) == (outcome.host, outcome.score)
            assert one.explanation is None
            assert one.hosts_possible >= 1 + len(one.runners_up)
        else:
            assert one.winner is None
            assert one.explanation is not None


@pytest.mark.parametrize("name", strategies.names())
def test_weight_times_value_over_the_parts_is_the_score(name: str) -> None:
    some = [host(f"h{number}", cores=8 + number, used={"cpu": 700 * number}, instances=number) for number in range(5)]

    seen = preview(fleet(some), requests(1, shape(disk_gib=3, strategy=name))[0])

    for one in (seen.winner, *seen.runners_up):
        assert sum(part.weight * part.value for part in one.parts) == pytest.approx(one.score, abs=1e-8)


def test_the_runners_up_are_those_that_would_win_if_the_winner_were_gone() -> None:
    made, asked = fleet([host(f"h{n}", used={"cpu": 1000 * (n * 3 % 7)}) for n in range(7)]), requests(1, shape())[0]

    seen = preview(made, asked, runners_up=10)

    for expected in (seen.winner, *seen.runners_up):
        assert preview(made, asked).winner.host == expected.host
        made.remove_host(expected.host)
    assert preview(made, asked).winner is None


def test_the_runners_up_of_a_turn_come_next() -> None:
    made = fleet([host(name) for name in "abcd"], default_strategy="round_robin")

    seen = preview(made, requests(1, shape())[0], cursors={"default": "b"})

    assert [seen.winner.host, *(one.host for one in seen.runners_up)] == ["c", "d", "a", "b"]


def test_a_dry_run_takes_no_room() -> None:
    made = fleet([host("a", cores=1)])
    asked = requests(2, shape(cores=1))

    assert [one.winner is not None for one in preview_all(made, asked)] == [True, False]
    assert made.host("a").used["cpu"] == 0
    assert next(preview_each(made, asked)).winner.host == "a"


def test_an_unknown_strategy_is_named_and_explained() -> None:
    seen = preview(fleet(1), requests(1, shape(strategy="bestfit"))[0])

    assert (seen.strategy, seen.winner, seen.explanation.code) == ("bestfit", None, "invalid_strategy")
