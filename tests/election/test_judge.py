"""A candidate's opinion of the holder, by his own clock alone."""

from virtflow.election.ballot import Vote
from virtflow.election.judge import LOOKS_APART_S, Judge, kept_until_s, next_beat_s

LEASE_S = 2.0


def judge() -> Judge:
    return Judge("me", LEASE_S)


def vote(holder: str = "her", mark: int = 1, *, attended: bool = True) -> Vote:
    return Vote(holder, 1, mark, attended)


def test_what_nobody_holds_is_free() -> None:
    assert judge().is_free(None, 0)
    assert judge().is_free(vote(""), 0)


def test_what_bears_my_name_is_free_for_me() -> None:
    assert judge().is_free(vote("me"), 0)


def test_a_holder_is_left_alone_for_a_whole_lease_after_the_newest_beat_that_i_saw() -> None:
    mine = judge()
    assert not mine.is_free(vote(mark=1), 10.0)
    assert not mine.is_free(vote(mark=1), 10.0 + LEASE_S - 0.01)
    assert not mine.is_free(vote(mark=2), 10.0 + LEASE_S)
    assert not mine.is_free(vote(mark=2), 10.0 + 2 * LEASE_S - 0.01)
    assert mine.is_free(vote(mark=2), 10.0 + 2 * LEASE_S)


def test_another_holder_is_another_matter() -> None:
    mine = judge()
    assert not mine.is_free(vote("her", mark=1), 0.0)
    assert not mine.is_free(vote("him", mark=1), LEASE_S)
    assert mine.is_free(vote("him", mark=1), 2 * LEASE_S)


def test_a_sign_of_death_must_be_seen_twice() -> None:
    mine = judge()
    assert not mine.is_free(vote(attended=False), 0.0)
    assert not mine.is_free(vote(attended=False), LOOKS_APART_S - 0.01)
    assert mine.is_free(vote(attended=False), LOOKS_APART_S)


def test_a_sign_of_life_takes_it_back() -> None:
    mine = judge()
    assert not mine.is_free(vote(attended=False), 0.0)
    assert not mine.is_free(vote(attended=True), 0.1)
    assert not mine.is_free(vote(attended=False), 0.3)
    assert not mine.is_free(vote(mark=2, attended=False), 0.45)
    assert mine.is_free(vote(mark=2, attended=False), 0.65)


def test_a_record_that_vanished_is_believed_no_sooner_than_one_that_stopped() -> None:
    mine = judge()
    assert not mine.is_free(vote(), 0.0)
    assert not mine.is_free(None, LEASE_S - 0.01)
    assert mine.is_free(None, LEASE_S)


def test_who_holds_it_stops_before_anybody_else_may_begin() -> None:
    assert kept_until_s(10.0, LEASE_S) == 10.0 + 0.8 * LEASE_S
    assert next_beat_s(10.0, LEASE_S) < 10.0 + 0.4 * LEASE_S  # so that a second try is left
