"""Bugs planted on purpose are noticed; when they are taken away again, all is as before."""

import pytest

from virtflow.store.statements import statements
from virtflow.testing.planted import board
from virtflow.testing.planted.board import Finding, alive, bug_named, look_for_bug
from virtflow.testing.planted.bugs import BUGS
from virtflow.testing.planted.guards import GUARDS
from virtflow.testing.planted.run import main
from virtflow.testing.simulation.world import Result, run_seed


def test_every_bug_has_a_name_of_its_own_and_names_guards_that_exist() -> None:
    assert len({bug.name for bug in BUGS}) == len(BUGS) >= 25
    assert all(guard in GUARDS for bug in BUGS for guard in bug.hidden_by)


@pytest.mark.parametrize("bug", [bug.name for bug in BUGS])
def test_a_bug_can_be_planted_and_taken_away(bug: str) -> None:
    before = {name: dict(statements(name)) for name in ("sqlite", "postgresql")}  # type: ignore[arg-type]
    with bug_named(bug).plant():
        pass
    assert {name: dict(statements(name)) for name in ("sqlite", "postgresql")} == before  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("bug", ["queue in memory", "answered before the commit", "own rows read again"])
def test_a_planted_bug_is_found_in_a_few_seeds_and_not_when_it_is_gone(bug: str) -> None:
    [finding] = look_for_bug(bug_named(bug), seeds=60)
    assert finding.found
    assert run_seed(finding.seeds).violations == []


def test_a_test_that_fails_under_a_bug_has_found_it() -> None:
    [finding] = look_for_bug(bug_named("late telling counts"), seeds=1)
    assert finding.found
    assert finding.by.startswith("tests/control/test_mirror.py::")


def test_a_bug_is_alive_that_nobody_found_even_without_the_guards_that_hide_it() -> None:
    hidden = [
        Finding(bug="a", text="", off=(), found=False, by="simulation"),
        Finding(bug="a", text="", off=("recall",), found=True, by="simulation"),
        Finding(bug="b", text="", off=(), found=False, by="simulation"),
    ]
    assert alive(hidden) == ["b"]


def test_a_bug_that_is_hidden_is_looked_for_in_two_ways() -> None:
    hidden = bug_named("no bind guard")
    assert [finding.off for finding in look_for_bug(hidden, seeds=0)] == [(), hidden.hidden_by]


def test_what_fails_without_the_bug_proves_nothing_about_it(monkeypatch: pytest.MonkeyPatch) -> None:
    always = Result(1, "", 0, 0.0, 0, ["something else is wrong"], {}, [])
    monkeypatch.setattr(board, "run_seed", lambda _: always)
    assert not any(finding.found for finding in look_for_bug(bug_named("no recall"), seeds=3))


def test_the_board_names_the_bugs_and_refuses_others(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    assert main(["no such bug"]) == 2
    assert "no such bug" in capsys.readouterr().err
