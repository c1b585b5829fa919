"""A refusal in words: which filter refused how many, who came nearest, and what would help, ready to be pasted."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from virtflow.cli import words
from virtflow.cli.order import changed, command, order_again
from virtflow.cli.screen import Screen
from virtflow.cli.table import Column, draw_table

if TYPE_CHECKING:
    from virtflow.client.records import Change, Explanation, Refusals

Order = Mapping[str, object]


def draw_explanation(explanation: "Explanation", order: Order, screen: Screen, *, exists: bool) -> Iterator[str]:
    """`order`: what was asked, as the API takes or answers it. `exists`: a VM of that name waits already."""
    for line in screen.wrap(explanation.text[:1].upper() + explanation.text[1:]):
        yield screen.paint(line, "yellow")
    if explanation.filters:
        yield ""
        yield from draw_table(explanation.filters, _filter_columns(explanation), screen)
    if explanation.nearest and explanation.nearest.text:
        yield ""
        yield f"nearest  {explanation.nearest.text}"
    if explanation.changes:
        yield ""
        yield "What would help:"
        for change in explanation.changes:
            yield f"  {change.text}"
            for line in _ways(change, order_again(order), exists=exists):
                yield f"    {screen.paint(line, 'cyan')}"


def _filter_columns(explanation: "Explanation") -> "list[Column[Refusals]]":
    return [
        Column("FILTER", lambda each: each.filter, is_needed=True),
        Column(
            f"REFUSED OF {explanation.hosts_considered}", lambda each: str(each.hosts), is_needed=True, is_number=True
        ),
        Column("IT ALONE", lambda each: str(each.alone), is_needed=True, is_number=True),
    ]


def _ways(change: "Change", order: Order, *, exists: bool) -> Iterator[str]:
    """Commands, each whole on its line however long: a broken line cannot be pasted."""
    if not change.request:
        yield from _by_operators(change.code, words.say_pool(str(order.get("pool", "default"))))
        return
    place = command("place", changed(order, change.request))
    # a waiting VM holds its name: it has to make room for its better self
    yield f"virtflow delete vm {order['name']} && {place}" if exists and order.get("name") else place


def _by_operators(code: str, pool: str) -> Iterator[str]:
    """What no request can change. Which hosts are meant is not said here: tenants read it too."""
    commands = {
        "uncordon": f"virtflow get hosts --pool {pool} --cordoned",
        "release_self_hosts": "virtflow config show",
        "open_pool": f"virtflow set pool {pool} --accepts-work",
        "raise_quota": f"virtflow get hosts --pool {pool} -o wide",
    }
    if code in commands:
        yield commands[code]
