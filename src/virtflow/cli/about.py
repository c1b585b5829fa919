"""info, version, completion: about the server, about us, about the shell."""

import enum
import importlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from virtflow import __version__
from virtflow.cli import output
from virtflow.cli.connect import connect
from virtflow.cli.exits import Exit
from virtflow.cli.options import Format, Output
from virtflow.cli.screen import Screen
from virtflow.cli.table import draw_facts

if TYPE_CHECKING:
    from virtflow.client.records import Info


class Shell(enum.StrEnum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def info(ctx: typer.Context, output_format: Output = Format.TABLE) -> int:
    """Say which server answers, and of what version."""
    with connect(ctx) as client:
        found = client.info()
        output.show_one(found, output_format, lambda screen: draw_info(found, client.server, screen), client.server)
    return Exit.OK


def draw_info(found: "Info", server: str, screen: Screen) -> Iterator[str]:
    facts = [
        ("server", server),
        ("version", found.version),
        ("this program", __version__ if __version__ != found.version else ""),
        ("database", found.database),
        ("strategy", found.strategy),
        ("history", found.history_id),
        ("documentation", f"{server}/docs"),
    ]
    return draw_facts(facts, screen)


def version() -> int:
    """Print the version of this program."""
    output.show([f"virtflow {__version__}"])
    return Exit.OK


def completion(shell: Annotated[Shell, typer.Argument(metavar="bash|zsh|fish", show_default=False)]) -> int:
    """Print a script that completes commands and options in a shell.

    bash: `source <(virtflow completion bash)`. zsh: put it into a file `_virtflow` on the `fpath`.
    fish: `virtflow completion fish > ~/.config/fish/completions/virtflow.fish`.
    """
    scripts: Any = importlib.import_module("typer.completion")
    script = scripts.get_completion_script(prog_name="virtflow", complete_var="_VIRTFLOW_COMPLETE", shell=shell.value)
    output.show([script])
    return Exit.OK
