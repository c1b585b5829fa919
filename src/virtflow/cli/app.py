"""The program `virtflow`: the list of its commands, and what happens around each."""

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from virtflow.cli import about, apply, capacity, demo, events, explain, fleet, hosts, place, server, tasks, verbs
from virtflow.cli import pools as _pools  # noqa: F401  # adds itself to the verbs
from virtflow.cli import strategies as _strategies  # noqa: F401
from virtflow.cli import vms as _vms  # noqa: F401
from virtflow.cli.connect import DEFAULT_SERVER, SERVER_VARIABLE, Target
from virtflow.cli.exits import Exit, report

COMPLETE_VARIABLE = "_VIRTFLOW_COMPLETE"
EVERYDAY, LOOK, CHANGE, HOUSE, SELF = "Place VMs", "Look", "Change", "Run a server", "This program"


class Sections(TyperGroup):
    """Help with the commands in groups, most wanted first."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        rows: dict[str, list[tuple[str, str]]] = {}
        width = max(len(name) for name in self.commands)
        for name, command in self.commands.items():
            section = str(getattr(command, "rich_help_panel", None) or SELF)
            text = command.get_short_help_str(formatter.width - width - 6)
            rows.setdefault(section, []).append((name.ljust(width), text))
        for section, commands in rows.items():
            with formatter.section(section):
                formatter.write_dl(commands)


app = typer.Typer(
    cls=Sections,
    name="virtflow",
    help="Decides where virtual machines run on a fleet of bare-metal hosts, and keeps it true.",
    epilog="First steps: `virtflow demo` shows it at work; `virtflow serve --simulate 60` starts a server to play with.",
    rich_markup_mode=None,  # plain help starts in half the time
    add_completion=False,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
)


@app.callback()
def virtflow(
    ctx: typer.Context,
    server_address: Annotated[
        str, typer.Option("--server", metavar="URL", envvar=SERVER_VARIABLE, help="The server to talk to.")
    ] = DEFAULT_SERVER,
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error came from.")] = False,
) -> None:
    """Both may stand anywhere on the line: `main` puts them first."""
    del debug  # looked for by `main`, which also meets errors before this
    ctx.obj = Target(server_address)


for command, section in (
    (place.place, EVERYDAY),
    (explain.explain, EVERYDAY),
    (capacity.capacity, EVERYDAY),
):
    app.command(rich_help_panel=section)(command)
app.add_typer(verbs.get, name="get", rich_help_panel=LOOK)
app.add_typer(verbs.describe, name="describe", rich_help_panel=LOOK)
for command in (fleet.fleet, events.events, about.info):
    app.command(rich_help_panel=LOOK)(command)
app.add_typer(verbs.delete, name="delete", rich_help_panel=CHANGE)
app.add_typer(verbs.add, name="add", rich_help_panel=CHANGE)
app.add_typer(verbs.set_, name="set", rich_help_panel=CHANGE)
for command in (apply.apply, tasks.cancel, hosts.cordon, hosts.uncordon):
    app.command(rich_help_panel=CHANGE)(command)
app.command(rich_help_panel=HOUSE)(demo.demo)
for command in (server.serve, server.node_api, server.fsck, server.bench):
    app.command(rich_help_panel=HOUSE, context_settings=server.PASS_ON)(command)
config = typer.Typer(help="Settings of the server.", rich_markup_mode=None, no_args_is_help=True)
config.command("show", context_settings=server.PASS_ON)(server.config_show)
app.add_typer(config, name="config", rich_help_panel=HOUSE)
for command in (about.completion, about.version):
    app.command(rich_help_panel=SELF)(command)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; returns its exit code. Whatever goes wrong is said in words."""
    words = arrange(sys.argv[1:] if argv is None else argv)
    try:
        if COMPLETE_VARIABLE in os.environ:
            completion: Any = importlib.import_module("typer.completion")
            completion.completion_init()
        code = app(args=words, prog_name="virtflow", complete_var=COMPLETE_VARIABLE, standalone_mode=False)
        sys.stdout.flush()
        return int(code or 0)
    except typer.TyperException as error:
        return _usage(error)
    except typer.Abort:
        return Exit.FAILED
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except BrokenPipeError:
        # the reader of our pipe has seen enough; and nothing shall be flushed into it at the end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.OK
    except Exception as error:  # the last door: no traceback for users
        return report(error, debug="--debug" in words)


def arrange(argv: Sequence[str]) -> list[str]:
    """`--server` and `--debug` go first, wherever they stand; `--wait` alone gets its usual seconds."""
    end = list(argv).index("--") if "--" in argv else len(argv)
    ours, rest, words = [], [], iter(argv[:end])
    for word in words:
        if word == "--server":
            ours += [word, *_next(words)]
        elif word == "--debug" or word.startswith("--server="):
            ours.append(word)
        else:
            rest.append(f"--wait={place.WAIT_S:g}" if word == "--wait" else word)
    return [*ours, *rest, *argv[end:]]


def _next(words: "Any") -> list[str]:
    return [word for word in [next(words, None)] if word is not None]


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
