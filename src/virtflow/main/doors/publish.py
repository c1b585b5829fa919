"""`virtflow publish`: a producer alone. It accepts in the shared database, knocks at the broker, and is done."""

import asyncio
import dataclasses
import json
import sys
from collections.abc import Mapping, Sequence

import yaml

from virtflow.config import Config
from virtflow.main.doors.door import config_from, guarded, take_option
from virtflow.main.logs import set_up_logging
from virtflow.main.service import build
from virtflow.model.errors import InvalidRequest, InvalidSetting
from virtflow.model.limits import BULK_ITEMS_MAX
from virtflow.model.names import id_to_text
from virtflow.model.views import VmView

Order = Mapping[str, object]

#: as the command line's
EXIT_USAGE = 2


def publish(argv: Sequence[str], *, orders: Sequence[Order], all_or_nothing: bool = False) -> int:
    """`virtflow publish`. `orders` are VMs in the words of the API."""
    words = list(argv)
    form = take_option(words, "-o", "--output") or "table"
    return guarded(
        lambda: _publish(config_from(words), orders, form, all_or_nothing=all_or_nothing),
        exits={InvalidRequest: EXIT_USAGE},
    )


def _publish(config: Config, orders: Sequence[Order], form: str, *, all_or_nothing: bool) -> int:
    if not config.is_shared:
        raise InvalidSetting(
            "VIRTFLOW_DATABASE_URL",
            str(config.database_url),
            expected="postgresql://…, which processes share; to an embedded database goes `virtflow place`",
        )
    # it accepts and does nothing else; what is worth a warning goes to stderr
    producer = dataclasses.replace(config, role=frozenset({"api"}), log_level="warning")
    set_up_logging(producer)
    views = asyncio.run(_accept(producer, orders, all_or_nothing=all_or_nothing))
    _show([{"task_id": id_to_text(view.task_id), "vm": view.instance.name} for view in views], form)
    return 0


async def _accept(config: Config, orders: Sequence[Order], *, all_or_nothing: bool) -> list[VmView]:
    """Committed when this returns, and called out at the broker where there is one."""
    from virtflow.api.orders import Orders  # other doors start without it

    reader, views = Orders(), list[VmView]()
    async with build(config, inventories=[]).running() as house:
        for start in range(0, len(orders), BULK_ITEMS_MAX):
            body = {"items": orders[start : start + BULK_ITEMS_MAX]}
            try:
                read, _ = await reader.read_many(json.dumps(body).encode())
                views += await house.vms.create(read, together=all_or_nothing, actor="operator")
            except InvalidRequest as error:
                raise _with_places(error, start) from error
    return views


def _with_places(error: InvalidRequest, accepted: int) -> InvalidRequest:
    """On a terminal there is nobody who unfolds a problem document."""
    lines = [error.detail]
    lines += [f"{each.pointer}: {each.detail}" + (f"; {each.remedy}" if each.remedy else "") for each in error.fields]
    if accepted:
        lines.insert(0, f"the first {accepted:,} VMs were accepted; then:")
    return InvalidRequest("\n  ".join(lines), code=error.error_code, remedy=error.remedy)


def _show(accepted: Sequence[Mapping[str, str]], form: str) -> None:
    if form == "json":
        print(json.dumps(accepted, indent=2))
    elif form == "yaml":
        print(yaml.safe_dump(list(accepted), sort_keys=False), end="")
    elif form == "name":
        print("\n".join(one["vm"] for one in accepted))
    else:
        for one in accepted:
            print(f"{one['vm']} accepted: task {one['task_id']}")
        if len(accepted) > 1:
            print(f"{len(accepted):,} VMs accepted", file=sys.stderr)
