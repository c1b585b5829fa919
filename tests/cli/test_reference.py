"""docs/cli.md says what the program does: no more, no less."""

import os
import re
from pathlib import Path

from tests.cli.reference import commands, reference

from virtflow.cli import connect
from virtflow.cli.exits import Exit

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"
BEGIN, END = "<!-- reference: written by tests/cli/reference.py -->\n", "<!-- end of reference -->"


def test_every_command_and_option_is_documented_as_it_is() -> None:
    """UPDATE_GOLDEN=1 writes it anew."""
    page = PAGE.read_text()
    before, _, rest = page.partition(BEGIN)
    documented, _, after = rest.partition(END)
    if os.environ.get("UPDATE_GOLDEN"):
        PAGE.write_text(f"{before}{BEGIN}\n{reference()}{END}{after}")
        documented = PAGE.read_text().partition(BEGIN)[2].partition(END)[0]
    assert documented == f"\n{reference()}"


def test_every_exit_code_is_documented() -> None:
    rows = re.findall(r"^\| (\d+) \| ", PAGE.read_text(), re.MULTILINE)
    assert [int(row) for row in rows] == [code.value for code in Exit]


def test_every_variable_is_documented() -> None:
    ours = {value for name, value in vars(connect).items() if name.endswith("_VARIABLE")}
    rows = re.findall(r"^\| `([A-Z_]+)` \| ", PAGE.read_text().partition(BEGIN)[0], re.MULTILINE)
    assert set(rows) == ours | {"NO_COLOR", "FORCE_COLOR", "COLUMNS"}


def test_every_command_of_an_example_exists() -> None:
    known = [path for path, _ in commands()]
    text = PAGE.read_text().partition(BEGIN)[0]
    lines = [line for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL) for line in block.splitlines()]
    called = [line for line in lines if line.startswith("virtflow ")]
    assert called
    for line in called:
        words = line.replace("hosts", "host").replace("vms", "vm")
        assert any(words.startswith(path.replace("hosts", "host").replace("vms", "vm")) for path in known), line


def test_every_command_has_a_sentence_and_every_option_a_meaning() -> None:
    for path, command in commands():
        assert command.help, path
        for parameter in command.params:
            if parameter.param_type_name == "option":
                assert parameter.help, f"{path} {parameter.name}"
                assert parameter.is_flag or parameter.metavar, f"{path} {parameter.name}"
            else:
                assert parameter.metavar, f"{path} {parameter.name}"
