"""Whose use is it that an inventory reports?"""

from hypothesis import given
from hypothesis import strategies as st

from virtflow.inventory import UsageMode, foreign_use

amounts = st.dictionaries(st.sampled_from(["cpu", "memory", "vms"]), st.integers(0, 1000))


def test_by_default_all_reported_use_is_by_others() -> None:
    assert foreign_use({"cpu": 300, "vms": 5}, {"cpu": 200}, UsageMode.FOREIGN) == {"cpu": 300, "vms": 5}


def test_of_a_total_our_own_share_is_taken_off() -> None:
    assert foreign_use({"cpu": 300, "vms": 5}, {"cpu": 200, "vms": 9}, UsageMode.TOTAL) == {"cpu": 100}


def test_it_can_be_ignored() -> None:
    assert foreign_use({"cpu": 300}, {}, UsageMode.IGNORE) == {}


@given(amounts, amounts, st.sampled_from(UsageMode))
def test_use_by_others_is_never_negative_and_never_more_than_reported(
    reported: dict[str, int], ours: dict[str, int], mode: UsageMode
) -> None:
    foreign = foreign_use(reported, ours, mode)
    assert all(0 < amount <= reported[name] for name, amount in foreign.items())
