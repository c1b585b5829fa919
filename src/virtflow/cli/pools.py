"""Pools: get, describe, set, delete."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from virtflow.cli import output, words
from virtflow.cli.connect import connect
from virtflow.cli.exits import Exit, UsageError, try_each
from virtflow.cli.options import Format, Limit, Output, Ratios, Watch
from virtflow.cli.reading import read_list
from virtflow.cli.screen import Screen
from virtflow.cli.table import Column, draw_facts, draw_table
from virtflow.cli.verbs import delete, describe, get, noun, set_

if TYPE_CHECKING:
    from virtflow.client import Client
    from virtflow.client.records import Pool, PoolSummary

Name = Annotated[str, typer.Argument(metavar="POOL", parser=words.pool_name, help='"-" is the pool "".')]
Names = Annotated[list[str], typer.Argument(metavar="POOL...", show_default=False)]
MaybeNames = Annotated[list[str] | None, typer.Argument(metavar="[POOL]...", show_default=False)]


def columns(_: Screen) -> "list[Column[Pool]]":
    return [
        Column("POOL", lambda pool: words.say_pool(pool.name), is_needed=True),
        Column("HOSTS", lambda pool: str(pool.hosts), is_number=True),
        Column("WORK", work, style=lambda pool: "" if pool.accepts_work else "yellow"),
        Column("STRATEGY", strategy),
        Column("OVERCOMMIT", lambda pool: words.say_ratios(pool.overcommit)),
        Column("VERSION", lambda pool: str(pool.version), is_wide=True, is_number=True),
    ]


def work(pool: "Pool") -> str:
    return "accepted" if pool.accepts_work else "closed"


def strategy(pool: "Pool") -> str:
    return pool.strategy or (f"{pool.effective_strategy} (default)" if pool.effective_strategy else "")


@noun(get, "pools")
def get_pools(
    ctx: typer.Context,
    names: MaybeNames = None,
    limit: Limit = None,
    watch: Watch = False,
    output_format: Output = Format.TABLE,
) -> int:
    """List pools and their settings."""
    with connect(ctx) as client:
        return read_list(
            client,
            [words.pool_name(name) for name in names or ()],
            find=client.pools.get,
            find_all=lambda: client.pools.list(limit=output.limit_for(output_format, limit)),
            columns=columns,
            name=lambda pool: words.say_pool(pool.name),
            kind="pools",
            events=("pool.", "host."),
            watch=watch,
            output_format=output_format,
        )


@noun(describe, "pool")
def describe_pool(ctx: typer.Context, name: Name, output_format: Output = Format.TABLE) -> int:
    """A pool's settings, and how full it is."""
    with connect(ctx) as client:
        pool = client.pools.get(name)
        summaries = client.fleet().pools if output_format is Format.TABLE else ()
        summary = next((each for each in summaries if each.pool == name), None)
        output.show_one(pool, output_format, lambda screen: draw_pool(pool, summary, screen), words.say_pool(pool.name))
    return Exit.OK


def draw_pool(pool: "Pool", summary: "PoolSummary | None", screen: Screen) -> Iterator[str]:
    facts = [
        ("pool", words.say_pool(pool.name)),
        ("work", work(pool)),
        ("strategy", strategy(pool)),
        ("overcommit", words.say_ratios(pool.overcommit)),
        ("hosts", _hosts(pool, summary)),
        ("instances", str(summary.instances) if summary else ""),
        ("settings", "of its own" if pool.explicit else "none: it is there because hosts name it"),
        ("version", str(pool.version or "")),
        ("changed", words.say_time(pool.updated_at, screen.now)),
    ]
    yield from draw_facts(facts, screen)
    if summary and summary.allocatable:
        yield ""
        yield from draw_table(words.in_order(summary.allocatable), _room_columns(summary), screen)


def _hosts(pool: "Pool", summary: "PoolSummary | None") -> str:
    if summary is None:
        return str(pool.hosts)
    counts = (
        (summary.cordoned, "cordoned"),
        (summary.missing, "missing"),
        (summary.self_hosts, "with virtflow itself"),
    )
    return ", ".join([str(pool.hosts), *(f"{count} {word}" for count, word in counts if count)])


def _room_columns(summary: "PoolSummary") -> list[Column[str]]:
    def share(name: str) -> str:
        whole = summary.allocatable[name]
        return f"{summary.used.get(name, 0) / whole:.0%}" if whole else ""

    return [
        Column("RESOURCE", str, is_needed=True),
        Column("USED", lambda name: words.say_about(name, summary.used.get(name, 0)), is_number=True),
        Column("ALLOCATABLE", lambda name: words.say_about(name, summary.allocatable[name]), is_number=True),
        Column("FULL", share, is_number=True),
    ]


@noun(set_, "pool")
def set_pool(
    ctx: typer.Context,
    name: Name,
    overcommit: Ratios = None,
    strategy_name: Annotated[
        str | None, typer.Option("--strategy", metavar="NAME", help='How to choose among its hosts; "" = the default.')
    ] = None,
    accepts_work: Annotated[
        bool | None, typer.Option("--accepts-work/--closed", help="Whether it takes new requests.")
    ] = None,
    output_format: Output = Format.TABLE,
) -> int:
    """Change settings of a pool; what is not named stays."""
    changes = {
        "overcommit": words.ratios(overcommit, "--overcommit") if overcommit else None,
        "strategy": strategy_name,
        "accepts_work": accepts_work,
    }
    said = {key: value for key, value in changes.items() if value is not None}
    if not said:
        raise UsageError("nothing to change", remedy="say --overcommit, --strategy, --accepts-work or --closed")
    with connect(ctx) as client:
        pool = _change(client, name, said)
        output.show_one(pool, output_format, lambda screen: draw_pool(pool, None, screen), words.say_pool(pool.name))
    return Exit.OK


def _change(client: "Client", name: str, said: Mapping[str, object]) -> "Pool":
    """A PUT replaces all settings: read them first, and write only if nobody wrote meanwhile."""
    from virtflow.client import ApiError

    try:
        before = client.pools.get(name)
    except ApiError as error:
        if error.status != 404:
            raise
        return client.pools.replace(name, said)
    kept = {"overcommit": before.overcommit, "strategy": before.strategy, "accepts_work": before.accepts_work}
    return client.pools.replace(name, {**kept, **said}, version=before.version if before.explicit else None)


@noun(delete, "pool")
def delete_pools(ctx: typer.Context, names: Names) -> int:
    """Forget the settings of pools; their hosts stay."""
    with connect(ctx) as client:

        def forget(name: str) -> None:
            client.pools.delete(words.pool_name(name))
            output.show([f"{name} has no settings of its own any more"])

        return try_each(names, forget)
