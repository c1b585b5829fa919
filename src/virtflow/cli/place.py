"""place: ask for one VM or many, and say what became of them."""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from virtflow.cli import output, vms, words
from virtflow.cli.connect import connect
from virtflow.cli.documents import read_lists
from virtflow.cli.exits import Exit, UsageError
from virtflow.cli.explain import explain_orders
from virtflow.cli.options import Format, OrderOptions, Output, takes
from virtflow.cli.order import Order, numbered, order_from_file, order_of
from virtflow.cli.refusal import draw_explanation
from virtflow.cli.screen import screen_of

if TYPE_CHECKING:
    from virtflow.client import Client
    from virtflow.client.records import Vm

ORDERS_AT_ONCE = 10_000
COUNT_MAX = 1_000_000
#: more is summed up
ROWS_SHOWN = 20
WAIT_S = 60.0
POLL_S_MAX = 1.0
#: so long it may take until another process has decided
DECIDED_S_MAX = 2.0

MaybeName = Annotated[
    str | None, typer.Argument(metavar="[NAME]", help="What the VM is called; without one it gets one.")
]
File = Annotated[
    str | None,
    typer.Option("--file", "-f", metavar="FILE", help="A list of VMs in YAML, JSON or TOML; - is what comes in."),
]


@takes(OrderOptions)
def place(
    ctx: typer.Context,
    options: OrderOptions,
    name: MaybeName = None,
    file: File = None,
    count: Annotated[int, typer.Option(min=1, max=COUNT_MAX, metavar="N", help="So many: NAME-1, NAME-2 …")] = 1,
    all_or_nothing: Annotated[bool, typer.Option("--all-or-nothing", help="All of them together, or none.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would happen, like `explain`.")] = False,
    wait: Annotated[
        float | None,
        typer.Option(min=0, metavar="[=SECONDS]", help="Wait until all are placed or have failed, at most so long."),
    ] = None,
    output_format: Output = Format.TABLE,
) -> int:
    """Place a VM, or many.

    With --file the options are not used: every item says it for itself, in the words of the API
    (`resources: {cpu: 4000, memory: 8192}`) or of this command (`cpu: 4`, `memory: 8GiB`).
    """
    orders = orders_of(options, name, file, count)
    with connect(ctx) as client:
        if dry_run:
            return explain_orders(client, orders, runners_up=3, output_format=output_format)
        _check_all_or_nothing(orders, all_or_nothing)
        placed = _create(client, orders, all_or_nothing=all_or_nothing, is_single=file is None and count == 1)
        placed = decided(client, placed) if wait is None else wait_for(client, placed, wait)
        return tell(client, placed, orders, output_format, has_waited=wait is not None)


def orders_of(options: OrderOptions, name: str | None, file: str | None, count: int = 1) -> list[Order]:
    if file is None:
        order = order_of(options, name)
        return [order] if count == 1 else numbered(order, count)
    if name is not None or count != 1 or options != OrderOptions():
        raise UsageError("--file stands alone", remedy="say names, sizes and pools in the file")
    items = read_lists(file, ["vms"])["vms"]
    if not items:
        raise UsageError(f"{file}: there is nothing in it")
    return [order_from_file(item, f"{file}, item {number}") for number, item in enumerate(items, 1)]


def _check_all_or_nothing(orders: Sequence[Order], all_or_nothing: bool) -> None:
    if all_or_nothing and len(orders) > ORDERS_AT_ONCE:
        raise UsageError(f"--all-or-nothing takes at most {ORDERS_AT_ONCE:,} at once, not {len(orders):,}")


def _create(client: "Client", orders: Sequence[Order], *, all_or_nothing: bool, is_single: bool) -> "list[Vm]":
    if is_single:
        return [client.vms.create(orders[0])]
    placed: list[Vm] = []
    for start in range(0, len(orders), ORDERS_AT_ONCE):
        piece = orders[start : start + ORDERS_AT_ONCE]
        try:
            placed += client.vms.create_many(piece, all_or_nothing=all_or_nothing)
        except Exception as error:
            if placed:
                output.say(f"The first {len(placed):,} of {len(orders):,} VMs were accepted; then:")
                if _may_have_happened(error):
                    rest = words.plural(len(piece), "VM")
                    output.say(f"Of {rest} more it is not known whether they were accepted: see virtflow get vms")
            raise
    return placed


def _may_have_happened(error: Exception) -> bool:
    from virtflow.client import NotReachable

    return isinstance(error, NotReachable)


def decided(client: "Client", placed: "list[Vm]") -> "list[Vm]":
    """Where another process decides, the answer comes a moment before it has: then "waits for room" would be wrong."""
    first = next((vm for vm in placed if vm.is_waiting), None)
    if first is None:
        return placed
    end, pause_s = time.monotonic() + DECIDED_S_MAX, 0.02
    while True:
        vm = client.vms.get(first.id or first.name)
        if not _is_undecided(vm) or time.monotonic() >= end:
            break
        time.sleep(pause_s)
        pause_s *= 2
    if len(placed) == 1:
        return [vm]
    return placed if vm.is_waiting else wait_for(client, placed, max(0.0, end - time.monotonic()))


def _is_undecided(vm: "Vm") -> bool:
    return vm.is_waiting and vm.explanation is not None and vm.explanation.code == "fits_now"


def wait_for(
    client: "Client",
    placed: "Sequence[Vm]",
    wait_s: float,
    *,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> "list[Vm]":
    """One after the other: they are decided in about that order, so that most are looked at once."""
    end = clock() + wait_s
    now_known: list[Vm] = []
    for vm in placed:
        pause_s = 0.02
        while vm.is_waiting and clock() < end:
            sleep(min(pause_s, max(0.0, end - clock())))
            pause_s = min(POLL_S_MAX, pause_s * 2)
            vm = client.vms.get(vm.id or vm.name)  # noqa: PLW2901  # the same VM, newly read
        now_known.append(vm)
    return now_known


def tell(
    client: "Client", placed: "Sequence[Vm]", orders: Sequence[Order], output_format: Format, *, has_waited: bool
) -> Exit:
    unplaced = [number for number, vm in enumerate(placed) if not vm.is_placed]
    if output_format in {Format.JSON, Format.YAML, Format.NAME, Format.WIDE}:
        output.show_list(placed, vms.columns(screen_of()), lambda vm: vm.name, output=output_format, kind="VMs")
    elif len(placed) == 1:
        output.show(_one(client, placed[0], orders[0]))
    else:
        output.show(_many(placed))
    has_failed = any(placed[number].status == "failed" for number in unplaced)
    return Exit.NO_ROOM if has_failed or (has_waited and unplaced) else Exit.OK


def _one(client: "Client", vm: "Vm", order: Order) -> Iterator[str]:
    if vm.is_placed:
        at = f" ({vm.address})" if vm.address else ""
        yield f"{vm.name} placed on {vm.host}{at}"
        return
    vm = vm if vm.explanation else client.vms.get(vm.id or vm.name)
    if vm.is_placed:  # while we asked
        yield from _one(client, vm, order)
        return
    gives_up = order.get("when_unplaceable") == "fail"
    waits = "found no room; it is tried a few times more" if gives_up else "waits for room"
    yield f"{vm.name} {waits if vm.is_waiting else vm.status}"
    if vm.explanation:
        yield from draw_explanation(vm.explanation, {**order, "name": vm.name}, screen_of(), exists=True)


def _many(placed: "Sequence[Vm]") -> Iterator[str]:
    screen = screen_of()
    if len(placed) <= ROWS_SHOWN:
        from virtflow.cli.table import draw_table

        yield from draw_table(placed, vms.columns(screen), screen)
    hosts = {vm.host for vm in placed if vm.is_placed}
    waiting = [vm for vm in placed if vm.is_waiting]
    failed = [vm for vm in placed if vm.status == "failed"]
    there = sum(vm.is_placed for vm in placed)
    parts = [f"{there:,} placed on {words.plural(len(hosts), 'host')}"]
    parts += [f"{len(waiting):,} waiting"] if waiting else []
    parts += [f"{len(failed):,} failed"] if failed else []
    yield f"{len(placed):,} VMs: {', '.join(parts)}"
    for vm in [*waiting, *failed][:1]:
        yield f"why: virtflow explain vm {vm.name}"
