"""fleet: the picture. How full every host is, by pool, in as much detail as fits."""

from collections.abc import Iterator, Sequence
from itertools import groupby, islice
from typing import TYPE_CHECKING

import typer

from virtflow.cli import output, words
from virtflow.cli.connect import connect
from virtflow.cli.exits import Exit
from virtflow.cli.options import Format, OfPool, Output, Watch
from virtflow.cli.screen import Screen

if TYPE_CHECKING:
    from virtflow.client import Client
    from virtflow.client.records import Fleet, Host, Inventory, PoolSummary

#: up to so many hosts of a pool get a bar of their own, up to so many a mark, beyond they are counted
BARS_MAX = 60
MARKS_MAX = 2_000
DIMENSIONS = ("cpu", "memory", "disk", "gpu")
_BLOCKS, _ASCII_BLOCKS = " ▁▂▃▄▅▆▇█", " .:-=+*%#"
_BAR_WIDTH, _WIDE_BAR_WIDTH = 10, 20


def fleet(ctx: typer.Context, pool: OfPool = None, watch: Watch = False, output_format: Output = Format.TABLE) -> int:
    """Draw how full the hosts are."""
    with connect(ctx) as client:

        def once() -> Exit:
            summary = client.fleet()
            output.show_one(summary, output_format, lambda screen: _draw(client, summary, pool, screen), client.server)
            return Exit.OK

        if not watch:
            return once()
        from virtflow.cli.watching import draw_on_events

        return draw_on_events(client, once, ("host.", "pool.", "task.completed", "vm."))


def _draw(client: "Client", summary: "Fleet", pool: str | None, screen: Screen) -> Iterator[str]:
    if pool is None and sum(each.hosts for each in summary.pools) == 0:
        yield "No hosts yet: virtflow add host NAME --cpu 64 --memory 256GiB, or virtflow apply -f hosts.yaml"
    for each in summary.pools:
        if pool is None or each.pool == pool:
            few_enough = each.hosts <= MARKS_MAX
            yield from draw_pool(each, list(client.hosts.list(pool=each.pool)) if few_enough else [], screen)
            yield ""
    yield from draw_rest(summary, screen)


def draw_fleet(summary: "Fleet", hosts: "Sequence[Host]", screen: Screen) -> Iterator[str]:
    """The whole picture from records that were read already."""
    by_pool = {name: list(some) for name, some in groupby(sorted(hosts, key=_by_pool), key=lambda host: host.pool)}
    for each in summary.pools:
        yield from draw_pool(each, by_pool.get(each.pool, []), screen)
        yield ""
    yield from draw_rest(summary, screen)


def _by_pool(host: "Host") -> tuple[str, str]:
    return host.pool, host.name


def draw_pool(pool: "PoolSummary", hosts: "Sequence[Host]", screen: Screen) -> Iterator[str]:
    counts = ((pool.cordoned, "cordoned"), (pool.missing, "missing"), (pool.self_hosts, "with virtflow itself"))
    marks = [f"{count:,} {word}" for count, word in counts if count]
    head = f"{words.plural(pool.hosts, 'host')}, {words.plural(pool.instances, 'VM')}"
    yield f"{screen.paint(words.say_pool(pool.pool), 'bold')}  {', '.join([head, *marks])}"
    yield "  " + "   ".join(_pool_bars(pool, screen))
    if len(hosts) > BARS_MAX:
        yield from _draw_marks(hosts, screen)
    else:
        yield from _draw_bars(hosts, screen)


def _pool_bars(pool: "PoolSummary", screen: Screen) -> Iterator[str]:
    dimensions = [name for name in DIMENSIONS if pool.allocatable.get(name) and (name != "disk" or pool.used.get(name))]
    width = _WIDE_BAR_WIDTH if len(dimensions) <= 2 else _BAR_WIDTH
    for name in dimensions[:3] if len(dimensions) > 3 and screen.columns < 100 else dimensions:
        fill = pool.used.get(name, 0) / pool.allocatable[name]
        yield f"{name} {bar(fill, width, screen)} {fill:4.0%}"


def _draw_bars(hosts: "Sequence[Host]", screen: Screen) -> Iterator[str]:
    """`bm-001 ████▌░░░░░  45%`, in as many columns as fit."""
    name_width = max((len(host.name) + len(_flag(host)) for host in hosts), default=0)
    cell_width = name_width + 1 + _BAR_WIDTH + 5
    per_line = max(1, (screen.columns - 2 + 3) // (cell_width + 3))
    rows = -(-len(hosts) // per_line)
    for row in range(rows):
        # down, then across: names in order are found faster
        line = [_cell(host, name_width, screen) for host in hosts[row::rows]]
        yield "  " + "   ".join(line)


def _cell(host: "Host", name_width: int, screen: Screen) -> str:
    fill = fill_of(host)
    name = f"{host.name}{_flag(host)}".ljust(name_width)
    styled = screen.paint(name, "dim") if not host.schedulable else name
    return f"{styled} {bar(fill, _BAR_WIDTH, screen)} {fill:4.0%}"


def _draw_marks(hosts: "Sequence[Host]", screen: Screen) -> Iterator[str]:
    """One mark per host, in name order; each line says where it begins."""
    blocks = _BLOCKS if screen.has_blocks else _ASCII_BLOCKS
    name_width = max(len(host.name) for host in hosts)
    per_line = max(10, (screen.columns - name_width - 4) // 10 * 10)
    left = iter(hosts)
    while line := list(islice(left, per_line)):
        marks = "".join(screen.paint(_mark(host, blocks), _colour(fill_of(host))) for host in line)
        yield f"  {line[0].name.ljust(name_width)}  {marks}"


def _mark(host: "Host", blocks: str) -> str:
    if not host.schedulable:
        return "x"
    fill = fill_of(host)
    # an empty host shows as something, so that it can be counted
    return "_" if fill == 0 else blocks[max(1, min(len(blocks) - 1, round(fill * (len(blocks) - 1))))]


def draw_rest(summary: "Fleet", screen: Screen) -> Iterator[str]:
    """What is no host: requests, and how fresh the knowledge about hosts is."""
    tasks = ", ".join(f"{count:,} {state}" for state, count in summary.tasks.items() if count)
    if tasks:
        yield f"requests  {tasks}"
    if summary.oldest_waiting_s:
        yield f"          the oldest has waited {words.say_duration(summary.oldest_waiting_s)}"
    for inventory in summary.inventory:
        yield draw_inventory(inventory, screen)
    yield screen.paint("% = the fullest of cpu, memory, disk, gpu   * = dedicated   x = takes nothing", "dim")


def draw_inventory(inventory: "Inventory", screen: Screen) -> str:
    age = f", {words.say_duration(inventory.age_s)} old" if inventory.age_s is not None else ""
    skipped = f", {inventory.skipped_total} records skipped" if inventory.skipped_total else ""
    error = f": {inventory.last_error}" if inventory.last_error else ""
    text = f"inventory {inventory.source} {inventory.location} is {inventory.state}{age}{skipped}{error}"
    return screen.paint(text, "" if inventory.state == "fresh" else "yellow")


def fill_of(host: "Host") -> float:
    """The dimension that runs out first; custom ones are their owners' matter."""
    return max(
        (host.used.get(name, 0) / host.allocatable[name] for name in DIMENSIONS if host.allocatable.get(name)),
        default=0.0,
    )


def bar(fill: float, width: int, screen: Screen) -> str:
    full, empty = ("█", "░") if screen.has_blocks else ("#", "-")
    # never full before it is, never empty while something is in it
    cells = min(width, max(round(fill * width), 1 if fill > 0 else 0))
    cells = min(cells, width - 1) if fill < 1 else cells
    return screen.paint(full * cells, _colour(fill)) + screen.paint(empty * (width - cells), "dim")


def _colour(fill: float) -> str:
    return "red" if fill >= 0.9 else "yellow" if fill >= 0.7 else "green"


def _flag(host: "Host") -> str:
    return ("*" if host.dedicated else "") + ("x" if not host.schedulable else "")
