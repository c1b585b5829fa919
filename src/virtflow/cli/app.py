"""The program `virtflow`: the list of its commands, and what happens around each."""

import importlib
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import typer

from virtflow.cli import (
    about,
    apply,
    capacity,
    dead,
    demo,
    events,
    explain,
    fleet,
    hosts,
    place,
    publish,
    server,
    tasks,
    verbs,
    webhooks,
)
from virtflow.cli import outlets as _outlets  # noqa: F401  # adds itself to the verbs
from virtflow.cli import pools as _pools  # noqa: F401
from virtflow.cli import processes as _processes  # noqa: F401
from virtflow.cli import strategies as _strategies  # noqa: F401
from virtflow.cli import vms as _vms  # noqa: F401
from virtflow.cli.coercion import LightCommand, LightGroup, ReaderGone
from virtflow.cli.connect import DEFAULT_SERVER, SERVER_VARIABLE, Target
from virtflow.cli.exits import Exit, report

COMPLETE_VARIABLE = "_VIRTFLOW_COMPLETE"


EVERYWHERE = [
    ("--server URL", f"The server to talk to. [env var: {SERVER_VARIABLE}; default: {DEFAULT_SERVER}]"),
    ("--debug", "Show where an error came from."),
]


class Sections(LightGroup):
    """Help with the commands in groups, most wanted first."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        rows: dict[str, list[tuple[str, str]]] = {}
        width = max(len(name) for name in self.commands)
        for name, command in self.commands.items():
            if command.hidden:
                continue
            section = str(getattr(command, "rich_help_panel", None) or "Other")
            text = command.get_short_help_str(formatter.width - width - 6)
            rows.setdefault(section, []).append((name.ljust(width), text))
        for section, commands in rows.items():
            with formatter.section(section):
                formatter.write_dl(commands)
        with formatter.section("With every command"):
            formatter.write_dl(EVERYWHERE)


app = typer.Typer(
    cls=Sections,
    name="virtflow",
    help="Decides where virtual machines run on a fleet of bare-metal hosts, and keeps it true.",
    epilog="First steps: `virtflow demo` shows it at work; `virtflow serve --simulate 60` is a server to play with.",
    rich_markup_mode=None,  # plain help starts in half the time
    add_completion=False,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
)


def _add(section: str, *commands: Callable[..., Any], **settings: Any) -> None:
    for command in commands:
        app.command(cls=LightCommand, rich_help_panel=section, **settings)(command)


def _add_verb(section: str, verb: typer.Typer, name: str) -> None:
    app.add_typer(verb, name=name, rich_help_panel=section)


_add("Place VMs", place.place, publish.publish, explain.explain, capacity.capacity)
_add_verb("Look", verbs.get, "get")
_add_verb("Look", verbs.describe, "describe")
_add("Look", fleet.fleet, events.events, about.info)
_add_verb("Change", verbs.delete, "delete")
_add_verb("Change", verbs.add, "add")
_add_verb("Change", verbs.set_, "set")
_add("Change", apply.apply, tasks.cancel, hosts.cordon, hosts.uncordon)
_add_verb("Change", dead.dead, "dead")
_add_verb("Change", webhooks.group, "webhooks")
_add("Run a server", demo.demo)
_add(
    "Run a server",
    server.serve,
    server.node_api,
    server.doctor,
    server.fsck,
    server.bench,
    context_settings=server.PASS_ON,
)
_add("Run a server", server.backup, server.restore, context_settings=server.PASS_ON)
_add_verb("Run a server", verbs.config, "config")
_add("This program", about.completion, about.version)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; returns its exit code. Whatever goes wrong is said in words."""
    asked = arrange(sys.argv[1:] if argv is None else argv, os.environ.get(SERVER_VARIABLE) or DEFAULT_SERVER)
    # httpx brings a command line of its own, whose libraries cost every start 0.1 s; it can do without
    sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]  # None = not to be had
    try:
        if COMPLETE_VARIABLE in os.environ:
            completion: Any = importlib.import_module("typer.completion")
            completion.completion_init()
        code = app(
            args=asked.words,
            prog_name="virtflow",
            complete_var=COMPLETE_VARIABLE,
            standalone_mode=False,
            obj=Target(asked.server),
        )
        sys.stdout.flush()
        return int(code or 0)
    except typer.TyperException as error:
        return _usage(error)
    except typer.Abort:
        return Exit.FAILED
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except (ReaderGone, BrokenPipeError):
        # the reader of our pipe has seen enough; and nothing shall be flushed into it at the end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.OK
    except Exception as error:  # the last door: no traceback for users
        return report(error, debug=asked.debug)


class Asked(NamedTuple):
    words: list[str]
    server: str
    debug: bool


def arrange(argv: Sequence[str], server: str) -> Asked:
    """Takes `--server` and `--debug` out, wherever they stand; `--wait` alone gets its usual seconds.

    They are no options of typer's, which would want them before the command.
    """
    end = list(argv).index("--") if "--" in argv else len(argv)
    words, rest, debug = iter(argv[:end]), list[str](), False
    for word in words:
        name, equals, value = word.partition("=")
        if name == "--server":
            server = value if equals else next(words, "")
        elif word == "--debug":
            debug = True
        else:
            rest.append(f"--wait={place.WAIT_S:g}" if word == "--wait" else word)
    return Asked([*rest, *argv[end:]], server, debug)


def _usage(error: typer.TyperException) -> int:
    """Wrong words on the line: what is wrong, and where help is. A verb alone shows its help."""
    context = getattr(error, "ctx", None)
    text = error.format_message()
    if type(error).__name__ == "NoArgsIsHelpError":
        print(text, file=sys.stderr)
    else:
        hint = f"\n  see: {context.command_path} --help" if context else ""
        print(f"virtflow: {text}{hint}", file=sys.stderr)
    return getattr(error, "exit_code", Exit.USAGE)


if __name__ == "__main__":
    sys.exit(main())
