"""Commands that need the server in the house. What they do is `virtflow.main`'s; it is loaded only here."""

import importlib
import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from virtflow.cli.exits import CommandError
from virtflow.cli.verbs import config, noun

#: options that are not named here are handed on as they are: the server knows more settings than help needs to show
PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True}


def serve(
    ctx: typer.Context,
    host: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Where to listen; all but loopback need a token.")
    ] = None,
    port: Annotated[str | None, typer.Option(metavar="PORT", help="The port (8080); 0 takes a free one.")] = None,
    database_url: Annotated[
        str | None, typer.Option(metavar="URL", help="sqlite:///<path> or postgresql://…; where everything is kept.")
    ] = None,
    inventory_url: Annotated[
        str | None, typer.Option(metavar="URL", help="A node API that says which hosts there are.")
    ] = None,
    inventory_file: Annotated[
        str | None, typer.Option(metavar="FILE", help="A file that says which hosts there are.")
    ] = None,
    simulate: Annotated[str | None, typer.Option(metavar="N", help="So many simulated hosts, to try it out.")] = None,
    strategy: Annotated[
        str | None, typer.Option(metavar="NAME", help="How hosts are chosen where nobody says it.")
    ] = None,
    config_file: Annotated[
        str | None, typer.Option("--config", metavar="FILE", help="A TOML file with settings.")
    ] = None,
    log_format: Annotated[str | None, typer.Option(metavar="WORD", help="text or json.")] = None,
) -> int:
    """Start the server. Every setting of `virtflow config show` is an option here too."""
    given = {
        "host": host,
        "port": port,
        "database-url": database_url,
        "inventory-url": inventory_url,
        "inventory-file": inventory_file,
        "simulate": simulate,
        "strategy": strategy,
        "config": config_file,
        "log-format": log_format,
    }
    return _main("serve", _words(given) + ctx.args)


def node_api(
    ctx: typer.Context,
    host: Annotated[str | None, typer.Option(metavar="ADDRESS", help="Where to listen (127.0.0.1).")] = None,
    port: Annotated[str | None, typer.Option(metavar="PORT", help="The port (5000).")] = None,
    hosts: Annotated[
        str | None, typer.Option(metavar="N", help="So many simulated hosts, not the example nodes.")
    ] = None,
) -> int:
    """Start a small node API, for `virtflow serve --inventory-url`."""
    return _main("node_api", _words({"host": host, "port": port, "hosts": hosts}) + ctx.args)


DatabaseUrl = Annotated[
    str | None, typer.Option("--database-url", metavar="URL", help="sqlite:///<path> or postgresql://…")
]
ConfigFile = Annotated[str | None, typer.Option("--config", metavar="FILE", help="A TOML file with settings.")]


def fsck(
    ctx: typer.Context,
    database_url: DatabaseUrl = None,
    config_file: ConfigFile = None,
    history: Annotated[
        bool, typer.Option("--history", help="Replay the event log, and judge every invariant of docs/fsck.md.")
    ] = False,
    clients: Annotated[
        list[str] | None,
        typer.Option("--clients", metavar="FILE", help="What a client wrote down; judged beside it. May be repeated."),
    ] = None,
    at_rest: Annotated[
        bool, typer.Option("--at-rest", help="Nobody is at work: what is not finished counts as wrong.")
    ] = False,
    output: Annotated[str | None, typer.Option("--output", "-o", metavar="FORMAT", help="table, json or yaml.")] = None,
) -> int:
    """Check the whole database: no host overfull, every request with one outcome. Ends with 1 if not."""
    given = {"database-url": database_url, "config": config_file, "output": output}
    words = [name for name, is_on in {"--history": history, "--at-rest": at_rest}.items() if is_on]
    words += [word for file in clients or () for word in ("--clients", file)]
    return _main("fsck", words + _words(given) + ctx.args)


def backup(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to; nothing is overwritten.", show_default=False)],
    database_url: DatabaseUrl = None,
    config_file: ConfigFile = None,
) -> int:
    """Write everything of one moment into a file, while servers go on. It fits either kind of database."""
    return _main("backup", [str(file), *_words({"database-url": database_url, "config": config_file}), *ctx.args])


def restore(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `virtflow backup` wrote.", show_default=False)],
    database_url: DatabaseUrl = None,
    config_file: ConfigFile = None,
) -> int:
    """Put a backup into an empty database: whole or not at all. Consumers of events are told to start over."""
    return _main("restore", [str(file), *_words({"database-url": database_url, "config": config_file}), *ctx.args])


def doctor(
    ctx: typer.Context,
    database_url: DatabaseUrl = None,
    config_file: ConfigFile = None,
    output: Annotated[str | None, typer.Option("--output", "-o", metavar="FORMAT", help="json, or words.")] = None,
) -> int:
    """Look at every part a server would use, and say how to mend it. Ends with 1 if something does not work."""
    given = {"database-url": database_url, "config": config_file, "output": output}
    return _main("doctor", _words(given) + ctx.args)


@noun(config, "show", context_settings=PASS_ON)
def config_show(
    ctx: typer.Context,
    config_file: ConfigFile = None,
    output: Annotated[str | None, typer.Option("--output", "-o", metavar="FORMAT", help="table, json or yaml.")] = None,
) -> int:
    """Show every setting, its value and where that came from. Secrets stay secret."""
    return _main("config_show", _words({"config": config_file, "output": output}) + ctx.args)


def bench(ctx: typer.Context) -> int:
    """Measure, from a source tree."""
    root = Path(__file__).parents[3]
    if not (root / "bench" / "__main__.py").is_file():
        raise CommandError(
            "the benchmarks are not installed with the program", remedy="get the source tree and type: make bench"
        )
    return subprocess.call([sys.executable, "-m", "bench", *ctx.args], cwd=root)  # noqa: S603  # our own program


def _main(function: str, argv: list[str]) -> int:
    module: Any = importlib.import_module("virtflow.main")
    return int(getattr(module, function)(argv) or 0)


def _words(given: dict[str, str | None]) -> list[str]:
    return [word for name, value in given.items() if value is not None for word in (f"--{name}", value)]
