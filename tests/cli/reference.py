"""The reference part of docs/cli.md, written from the program itself."""

from collections.abc import Iterator
from typing import Any

import typer

from virtflow.cli.app import app


def reference() -> str:
    return "\n".join(line for path, command in commands() for line in _section(path, command))


def commands() -> Iterator[tuple[str, Any]]:
    """Every command that does something, with the words that call it."""
    yield from _below("virtflow", typer.main.get_command(app))


def _below(path: str, command: Any) -> Iterator[tuple[str, Any]]:
    if not hasattr(command, "commands"):
        yield path, command
        return
    for name, one in command.commands.items():
        yield from _below(f"{path} {name}", one)


def _section(path: str, command: Any) -> Iterator[str]:
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if one.param_type_name == "option"]
    yield f"### `{' '.join([path, *(_spelled(one) for one in arguments)])}`"
    yield ""
    yield " ".join(command.help.replace("\n\n", "\x00").split()).replace("\x00", "\n\n")
    yield ""
    rows = [(f"`{_spelled(one)}`", one.help) for one in arguments if one.help]
    rows += [(f"`{_option(one)}`", _meaning(one)) for one in options]
    if rows:
        yield "| | |"
        yield "|---|---|"
        yield from (f"| {_cell(name)} | {_cell(meaning)} |" for name, meaning in rows)
        yield ""


def _spelled(argument: Any) -> str:
    return str(argument.metavar)


def _option(option: Any) -> str:
    names = ", ".join(sorted(option.opts, key=len))
    other = "".join(f" / {name}" for name in option.secondary_opts)
    value = "" if option.is_flag else option.metavar if option.metavar.startswith("[") else f" {option.metavar}"
    return f"{names}{value}{other}"


def _meaning(option: Any) -> str:
    default = getattr(option.default, "value", option.default)
    said = [] if option.is_flag or default is None else [f"Default: {default}."]
    said += [f"Environment: `{option.envvar}`."] if option.envvar else []
    said += ["May be repeated."] if option.multiple and "repeat" not in option.help else []
    return " ".join([option.help, *said])


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
