"""One table maps errors, and docs/errors.md tells all of it."""

import ast
import re
from collections import defaultdict
from pathlib import Path

import pytest

from virtflow.api import errors as api_errors
from virtflow.api import server
from virtflow.api.errors import STATUS, TITLES, render_problem, status_of
from virtflow.engine.explain import CODES
from virtflow.inventory import contract as inventory_errors
from virtflow.model import errors as model_errors
from virtflow.model.errors import FieldProblem, VersionMismatch, VirtflowError
from virtflow.store import contract as store_errors

ROOT = Path(__file__).parents[2]
CLASSES = {
    name: one
    for module in (model_errors, store_errors, inventory_errors, api_errors)
    for name, one in vars(module).items()
    if isinstance(one, type) and issubclass(one, VirtflowError)
}
#: said by the server itself, to those who never became a request
OF_THE_SERVER = {
    "malformed_request": {400}, "headers_too_slow": {408}, "headers_too_large": {431}, "too_many_connections": {503},
}  # fmt: skip


def tables() -> list[dict[str, list[str]]]:
    """Per section with a table: code -> its other cells."""
    found = []
    for part in (ROOT / "docs/errors.md").read_text().split("\n## ")[1:]:
        rows = [
            [cell.strip() for cell in line.strip("| ").split(" | ")] for line in part.splitlines() if line[:3] == "| `"
        ]
        found.append({row[0].strip("`"): row[1:] for row in rows})
    return found


def raised() -> dict[str, set[int]]:
    """Every code that our source gives an error, with the status of the class that it is given to."""
    found = defaultdict(set)
    for one in CLASSES.values():
        if one is not VirtflowError:
            found[one.code].add(status_of(one.__new__(one)))
    for path in (ROOT / "src/virtflow").rglob("*.py"):
        if path.is_relative_to(ROOT / "src/virtflow/client") or path.is_relative_to(ROOT / "src/virtflow/cli"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CLASSES:
                for word in node.keywords:
                    if word.arg == "code" and isinstance(word.value, ast.Constant):
                        kind = CLASSES[node.func.id]
                        found[str(word.value.value)].add(status_of(kind.__new__(kind)))
    return found


def test_every_code_has_a_title_and_a_row() -> None:
    refusals, _ = tables()
    codes = raised() | OF_THE_SERVER | {"invalid_cursor": {422}}
    assert set(TITLES) == set(codes)
    assert {code: {int(one) for one in re.findall(r"\d+", row[0])} for code, row in refusals.items()} == codes


def test_every_outcome_has_a_row_in_the_engine_s_words() -> None:
    outcomes = tables()[1]
    assert {code: row[0] for code, row in outcomes.items() if code in CODES and code != "gang_incomplete"} == {
        code: text for code, text in CODES.items() if code != "gang_incomplete"
    }
    assert set(outcomes) == set(CODES) | {"deadline_exceeded", "cancelled"}


def test_every_class_has_a_status_of_its_own_or_of_its_parent() -> None:
    for one in CLASSES.values():
        assert one is VirtflowError or any(kind in STATUS for kind in one.__mro__), one


def test_the_tree_in_the_docstring_is_the_tree_of_the_code() -> None:
    drawn = re.findall(r"[├└]── (\w+)", api_errors.__doc__ or "")
    defined = [name for name, one in vars(api_errors).items() if getattr(one, "__module__", "") == api_errors.__name__
               and isinstance(one, type) and issubclass(one, VirtflowError)]  # fmt: skip
    assert drawn == defined


@pytest.mark.parametrize("code", OF_THE_SERVER)
def test_what_the_server_says_by_itself_is_a_problem_too(code: str) -> None:
    answers = {
        name: one for name, one in vars(server).items() if isinstance(one, bytes) and one.startswith(b"HTTP/1.1")
    }
    (answer,) = [one for one in answers.values() if b'"code":"%s"' % code.encode() in one]
    status = int(answer.split(b" ", 2)[1])
    assert {status} == OF_THE_SERVER[code]
    head, body = answer.split(b"\r\n\r\n", 1)
    assert b"content-length: %d" % len(body) in head


def test_a_problem_has_all_its_fields() -> None:
    status, body, headers = render_problem(
        VersionMismatch("host a changed", current_version=7), path="/v1/hosts/a" + "x" * 500
    )
    assert (status, headers) == (412, (("content-type", "application/problem+json"),))
    assert b'"current_version":7' in body
    assert len(body) < 900
    assert FieldProblem("/a", "b").remedy == ""


def test_an_error_that_nobody_foresaw_is_our_defect() -> None:
    class New(VirtflowError):
        code = "new"

    assert render_problem(New("?"), path="/")[0] == 500
