"""The fleet in memory, told by us and by others, in whatever order the tellings come."""

import msgspec

from virtflow.control.mirror import Mirror
from virtflow.engine.fleet import Fleet
from virtflow.testing.builders import host


def mirror() -> Mirror:
    return Mirror(Fleet("least_loaded"))


def test_what_is_told_late_does_not_cover_what_is_newer() -> None:
    known = mirror()
    first = host("bm-1", cores=4)
    known.put_hosts([first])
    known.put_hosts([msgspec.structs.replace(host("bm-1", cores=8), version=3)])
    known.put_hosts([msgspec.structs.replace(host("bm-1", cores=6), version=2)])
    assert known.fleet.host("bm-1").allocatable["cpu"] == 8000


def test_a_removed_host_is_not_brought_back_by_an_older_change() -> None:
    known = mirror()
    first = host("bm-1")
    known.put_hosts([first])
    known.remove_host(msgspec.structs.replace(first, version=3))
    known.put_hosts([msgspec.structs.replace(first, version=2)])
    assert "bm-1" not in known.fleet


def test_removing_a_host_late_spares_the_new_one_of_its_name() -> None:
    known = mirror()
    known.put_hosts([host("bm-1", id=2)])
    known.remove_host(host("bm-1", id=1))
    assert "bm-1" in known.fleet


def test_a_changed_host_that_we_have_not_heard_of_is_left_to_the_log() -> None:
    """Its row holds placements that the log brings once more."""
    known = mirror()
    assert not known.put_hosts([msgspec.structs.replace(host("bm-1", used={"cpu": 1000}), version=2)])
    assert "bm-1" not in known.fleet
    assert known.put_hosts([host("bm-2")])


def test_what_the_log_says_of_an_earlier_host_is_not_told_of_the_new_one_of_its_name() -> None:
    """Made here under a name that somebody else had just freed, before we heard of what was on the old one."""
    known = mirror()
    known.put_hosts([host("bm-1", id=1)], since=3)
    known.put_hosts([host("bm-1", id=2)], since=9)
    assert known.knows_already("bm-1", 8)
    assert not known.knows_already("bm-1", 10)
    known.followed(9)
    assert not known.knows_already("bm-1", 9)


def test_a_host_made_by_others_under_an_old_name_and_changed_by_us_is_left_to_the_log() -> None:
    known = mirror()
    known.put_hosts([host("bm-1", id=1)])
    assert not known.put_hosts([msgspec.structs.replace(host("bm-1", id=2, used={"cpu": 1000}), version=2)])
    assert known.fleet.host("bm-1").id == 1
