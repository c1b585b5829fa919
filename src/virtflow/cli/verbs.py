"""The verbs that take a noun: get, describe, delete, set, add. Each noun's file adds itself to them."""

from collections.abc import Callable
from typing import Any, TypeVar

import typer

from virtflow.cli.coercion import LightCommand, LightGroup

#: one word in every place: the plural is the command, the singular is understood
_SINGULAR = {
    "host": "hosts",
    "vm": "vms",
    "task": "tasks",
    "pool": "pools",
    "strategy": "strategies",
    "outlet": "outlets",
    "process": "processes",
}


class Verb(LightGroup):
    """A command group that takes `host` for `hosts` and the other way round."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        same = {**_SINGULAR, **{plural: singular for singular, plural in _SINGULAR.items()}}
        return super().get_command(ctx, cmd_name) or super().get_command(ctx, same.get(cmd_name, cmd_name))


def _verb(help_text: str) -> typer.Typer:
    return typer.Typer(cls=Verb, help=help_text, rich_markup_mode=None, no_args_is_help=True)


get = _verb("List hosts, VMs, tasks, pools, strategies, outlets or processes.")
describe = _verb("Everything about one host, VM, task or pool.")
delete = _verb("Delete VMs, hosts, or the settings of pools.")
set_ = _verb("Change the settings of a pool.")
add = _verb("Register a host.")
config = _verb("Settings of the server.")

Command = TypeVar("Command", bound=Callable[..., Any])


def noun(verb: typer.Typer, name: str, **settings: Any) -> Callable[[Command], Command]:
    """`@noun(get, "hosts")`: this function is `virtflow get hosts`."""
    return verb.command(name, cls=LightCommand, **settings)
