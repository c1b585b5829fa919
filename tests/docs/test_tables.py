"""Tables in docs/ say what the code says."""

import re
from pathlib import Path

import pytest

from virtflow.control.history.invariants import INVARIANTS
from virtflow.control.metrics import METRICS
from virtflow.engine import filters, strategies
from virtflow.model import limits
from virtflow.model.event import EventType
from virtflow.model.task import NEXT, TaskState, diagram

DOCS = Path(__file__).parents[2] / "docs"


def rows(page: str) -> dict[str, list[str]]:
    """The rows of all tables of a page whose first cell is one `code` word."""
    found = {}
    for line in (DOCS / page).read_text().splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if (name := re.fullmatch(r"`([^`]+)`", cells[0])) is not None:
            found[name[1]] = cells[1:]
    return found


def test_every_limit_is_documented_with_its_value() -> None:
    told = {name: float(cells[0].replace(",", "")) for name, cells in rows("limits.md").items()}
    assert told == {name: float(value) for name, value in vars(limits).items() if name.isupper()}


def test_every_metric_is_documented_with_its_labels() -> None:
    told = {name: tuple(re.findall(r"`([^`]+)`", cells[0])) for name, cells in rows("metrics.md").items()}
    assert told == {name: labels for name, (labels, _) in METRICS.items()}


def test_every_event_is_documented() -> None:
    assert set(rows("events.md")) >= {kind.value for kind in EventType}


def test_every_invariant_is_documented_with_what_it_is_judged_by() -> None:
    told = {name: tuple(cells) for name, cells in rows("fsck.md").items() if re.fullmatch(r"I\d+", name)}
    assert told == {key: (one.statement, ", ".join(one.sources)) for key, one in INVARIANTS.items()}


def test_the_diagram_of_task_states_is_drawn_from_the_table() -> None:
    page = (DOCS / "walk.md").read_text()
    drawn = page.partition("<!-- states:task -->\n")[2].partition("<!-- /states -->")[0]
    assert drawn == diagram(NEXT)
    assert all(state.word in drawn for state in TaskState)


def test_every_dependency_is_named_with_its_reason() -> None:
    project = (DOCS.parent / "pyproject.toml").read_text()
    told = (DOCS / "dependencies.md").read_text().lower()
    names = set(re.findall(r'^ +"([A-Za-z0-9-]+)[<>=]', project, re.MULTILINE))
    assert names
    assert {name for name in names if name.lower() not in told} == set()


def test_every_strategy_is_documented_with_its_formula_and_weights() -> None:
    told = {name: cells for name, cells in rows("strategies.md").items() if len(cells) == 3}
    for strategy in strategies.describe():
        optimises, formula, weights = told.pop(strategy["name"])
        assert (optimises, formula) == (strategy["optimises"], strategy["formula"])
        assert re.findall(r"`(\w+)` ([\d.]+)", weights) == [(k, f"{v:g}") for k, v in strategy["weights"].items()]
    assert told == {}


def test_every_filter_is_documented() -> None:
    told = {name: cells[0] for name, cells in rows("strategies.md").items() if len(cells) == 1}
    assert told == {one.name: one.sentence for one in filters.ALL}


def test_the_example_strategy_works_as_pasted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strategies, "_known", dict(strategies._known))  # known to this test alone
    code = (DOCS / "strategies.md").read_text().partition("```python\n")[2].partition("```")[0]
    names: dict[str, object] = {}
    exec(code, names)
    strategies.register(names["quiet_memory"])  # type: ignore[arg-type]
    assert "quiet_memory" in strategies.names()


def test_every_log_line_is_documented_and_every_documented_one_is_written() -> None:
    written = set()
    for file in (DOCS.parent / "src/virtflow").rglob("*.py"):
        if file.parts[-2] in ("cli", "testing"):  # they talk to people, not to a log
            continue
        code = file.read_text()
        written |= set(re.findall(r'log\w*\.(?:debug|info|warning|error|exception)\(\s*"([^"]+)"', code))
        written |= set(re.findall(r'self\._log\.info\)\(\s*"([^"]+)"', code))
    written |= set(re.findall(r'"(task\.[a-z]+)"', (DOCS.parent / "src/virtflow/control/journal.py").read_text()))
    told = set(rows("logs.md")) - {"waited_ms", "decided_ms", "committed_ms", "told_ms", "total_ms", "tries"}
    assert (written - told, told - written) == (set(), set()), "docs/logs.md: not told, not written"
