"""A benchmark that lies is a failure: what is not there is found out."""

from pathlib import Path

import pytest
from bench.load import Outcome
from bench.machine import Folder, fsync_times, percentile
from bench.restart import measure
from bench.warm import BATCH, BATCHES

from bench import http


class Pages:
    """A server as `check` sees it: two hosts, a page each."""

    def __init__(self, *used: dict[str, int], completed: int) -> None:
        self._used = used
        self._completed = completed

    def get(self, path: str) -> dict[str, object]:
        if path == "/v1/fleet":
            return {"tasks": {"completed": self._completed, "queued": 0, "processing": 0}}
        number = int(path.partition("cursor=")[2] or 0)
        used = self._used[number]
        host = {"name": f"bm-{number}", "instances": used["vms"], "used": used, "allocatable": {"cpu": 8000, "vms": 9}}
        return {"items": [host], "next": str(number + 1) if number + 1 < len(self._used) else None}


def accepted(vms: int, cpu: int) -> Outcome:
    return Outcome(accepted=vms, resources={"cpu": cpu, "vms": vms})


def test_what_was_acknowledged_and_is_there_passes():
    http.check(Pages({"cpu": 2000, "vms": 2}, {"cpu": 1000, "vms": 1}, completed=3), accepted(3, 3000))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("used", "completed"),
    [({"cpu": 2000, "vms": 1}, 3), ({"cpu": 3000, "vms": 2}, 3), ({"cpu": 2000, "vms": 2}, 2)],
    ids=["a VM is missing", "too much is taken", "a task did not end"],
)
def test_what_differs_is_found_out(used, completed):
    with pytest.raises(http.WrongCount):
        http.check(Pages(used, {"cpu": 1000, "vms": 1}, completed=completed), accepted(3, 3000))  # type: ignore[arg-type]


def test_a_host_with_more_than_it_may_carry_is_found_out():
    with pytest.raises(http.WrongCount, match="bm-0"):
        http.check(Pages({"cpu": 9000, "vms": 2}, completed=2), accepted(2, 9000))  # type: ignore[arg-type]


def test_a_percentile_is_a_value_that_was_measured():
    assert percentile([5.0, 1.0, 9.0], 50) == 5.0
    assert percentile([5.0, 1.0, 9.0], 99) == 9.0
    assert percentile([], 99) == 0.0


def test_the_disk_is_asked(tmp_path: Path):
    fsync = fsync_times(tmp_path, seconds=0.05)
    assert 0 < fsync.p50_ms <= fsync.p99_ms
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_the_real_server_is_measured_and_counted(tmp_path: Path):
    plan = http.Plan(hosts=200, singles_s=0.3, warm_up_s=0.1, batch_vms=2_000, batch_s_max=10)

    found = list(http.measure([(http.SQLITE, Folder("disk", tmp_path))], plan))

    *loads, counted = found
    assert [load.kind for load in loads if isinstance(load, http.Measured)] == ["schedule", "vm", "batch"]
    assert isinstance(counted, http.Verified)
    measured = sum(load.outcome.accepted for load in loads if isinstance(load, http.Measured))
    assert counted.accepted == measured + BATCHES * BATCH
    assert counted.accepted > 2_000


@pytest.mark.slow
def test_a_killed_server_places_again(tmp_path: Path):
    found = measure(tmp_path / "work", hosts=20, vms=200, starts=1)

    assert len(found.first_placement_s) == 1
    assert all(held > 0 for held in found.resident_bytes)
