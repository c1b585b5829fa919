"""Table and document of a run; and the page that names what there is."""

import json
from pathlib import Path

import pytest
from chaos.__main__ import main
from chaos.judge import Judgement
from chaos.nemeses import NEMESES
from chaos.run import Outcome

from chaos import report

DOCS = Path(__file__).parents[2] / "docs" / "chaos.md"


def outcome(**more: object) -> Outcome:
    given = {"nemesis": NEMESES["leader-kill"], "rounds": 100, "seconds": [0.5] * 98 + [2.0, 3.0], **more}
    return Outcome(**given)  # type: ignore[arg-type]


def test_the_table_says_rounds_violations_and_what_they_are_worth() -> None:
    head, line = report.table([outcome()]).splitlines()
    assert head.split()[:3] == ["nemesis", "goal", "rounds"]
    assert line.split()[:5] == ["leader-kill", "G8", "100", "0", "2.95%"]
    assert "0.50 s" in line
    assert "3.00 s" in line


def test_the_document_names_what_was_broken() -> None:
    broken = Judgement(broken={"I14": 2, "I16": 1, "I15": 1}, words=["I14: event 7 …"])
    [document] = report.documents([outcome(judgement=broken)])
    assert (document["violations"], document["stale_writes_accepted"]) == (4, 2)
    assert (document["acknowledged_lost"], document["doubled"], document["overcommitted"]) == (1, 1, 0)
    assert document["words"] == ["I14: event 7 …"]
    assert json.loads(json.dumps(document)) == document


def test_a_goal_of_time_that_is_missed_is_said() -> None:
    assert report.misses(outcome()) == []
    assert report.misses(outcome(seconds=[1.5])) == ["leader-kill: p50 1.50 s, the goal is 1 s"]


def test_runs_of_one_nemesis_are_added() -> None:
    both = outcome()
    both.add(outcome(judgement=Judgement(events=5, broken={"I1": 1}, words=["I1"], delays_s=[0.1])))
    assert (both.rounds, len(both.seconds), both.judgement.events, both.violations) == (200, 200, 5, 1)


def test_every_nemesis_is_documented() -> None:
    rows = [line.strip("| ").split(" | ") for line in DOCS.read_text().splitlines() if line.startswith("| `")]
    told = {cells[0].strip("`"): cells[1:] for cells in rows if len(cells) == len(("nemesis", "does", "goal"))}
    assert told == {name: [one.does, one.goal] for name, one in NEMESES.items()}


def test_what_there_is_can_be_listed_and_nothing_else_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(NEMESES)
    with pytest.raises(SystemExit) as refused:
        main(["--only", "meteorite"])
    assert refused.value.code == 2
    assert "no nemesis meteorite; there are leader-kill" in capsys.readouterr().err
