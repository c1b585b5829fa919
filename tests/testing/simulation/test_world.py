"""Whole seeds: everything holds, the same seed is the same, and what must be seen is seen."""

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from virtflow.testing.simulation.board import SEEDS_MIN, Sights
from virtflow.testing.simulation.run import main, readable
from virtflow.testing.simulation.seeds import KEPT, seeds_from
from virtflow.testing.simulation.weather import FAULTS
from virtflow.testing.simulation.world import run_seed


@pytest.mark.parametrize("seed", range(1, 5))
def test_everything_holds_in_every_seed(seed: int) -> None:
    assert run_seed(seed).violations == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", [*KEPT, *range(1_001, 1_025)])
def test_everything_holds_in_seeds_that_once_failed_and_in_others(seed: int) -> None:
    assert run_seed(seed).violations == []


@pytest.mark.slow
def test_a_seed_is_the_same_whatever_ran_before_it_and_however_strings_are_hashed() -> None:
    here = [run_seed(seed).hash for seed in (5, 7)]
    program = "from virtflow.testing.simulation.world import run_seed; print(*[run_seed(s).hash for s in (7, 5)])"
    there = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": number},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        for number in ("1", "4711")
    ]
    assert there == [here[::-1], here[::-1]]


def test_a_seed_run_twice_is_the_same() -> None:
    assert run_seed(5).hash == run_seed(5).hash


def test_another_seed_is_another_story() -> None:
    assert run_seed(5).hash != run_seed(6).hash


def test_a_trace_says_what_was_asked_what_was_done_and_what_went_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seed", "7"]) == 0
    told = capsys.readouterr().out
    assert " starts" in told
    assert "COMMIT" in told
    assert "FAULT" in told
    assert "everything held" in told
    assert readable(["1 p1.1 lease_by_name", "2 p1.1 COMMIT"]) == ["2 p1.1 COMMIT"]


def test_a_run_says_how_fast_it_was_and_writes_a_report(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["3..4", "--workers", "1", "--json", str(tmp_path / "report.json")]) == 0
    assert "2 seeds in" in capsys.readouterr().out
    report = msgspec.json.decode((tmp_path / "report.json").read_bytes())
    assert report["seeds"] == 2
    assert report["failed"] == {}


def test_seeds_are_a_number_or_a_range() -> None:
    assert list(seeds_from("3")) == [1, 2, 3]
    assert list(seeds_from("17..19")) == [17, 18, 19]


@pytest.mark.parametrize("text", ["", "0", "many", "9..3", "-1"])
def test_what_is_no_seed_is_said(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([f" {text}" if text.startswith("-") else text]) == 2
    assert "17..20" in capsys.readouterr().err


def test_a_long_run_that_never_saw_a_fault_is_not_enough() -> None:
    sights = Sights()
    for _ in range(SEEDS_MIN):
        sights.add({what: 1 for what in sights.expected if what != f"fault: {FAULTS[0]}"})
    assert sights.missing == [f"fault: {FAULTS[0]}"]
    assert not sights.is_enough
    assert any("never" in line for line in sights.lines())
