"""A wanted VM: from options or a file to what the API takes, and back to a command that can be pasted."""

import re
import shlex
from collections.abc import Mapping, Sequence

from virtflow.cli import words
from virtflow.cli.exits import UsageError
from virtflow.cli.options import OrderOptions, ShapeOptions

Order = dict[str, object]

#: what answers carry and orders do not: a list that was read can be placed again
_ANSWERED_ONLY = frozenset(
    {"id", "task_id", "status", "conditions", "host", "address", "generation", "version"}
    | {"created_at", "placed_at", "explanation"}
)
_DEFAULTS = {"pool": "default", "dedicated": "allowed", "strategy": "", "zone": "", "priority": 0}
_COUNTED = re.compile(r"(.*?)(\d+)", re.ASCII)


def resources_of(options: ShapeOptions) -> dict[str, int]:
    named = {
        "cpu": options.cpu and words.cores(options.cpu),
        "memory": options.memory and words.memory(options.memory),
        "disk": options.disk and words.disk(options.disk),
        "gpu": options.gpu,
    }
    return {name: int(number) for name, number in named.items() if number} | words.amounts(
        options.resource, "--resource"
    )


def order_of(options: OrderOptions, name: str | None = None) -> Order:
    """What the API takes. What was not said is left out, so that the server's defaults hold."""
    resources = resources_of(options)
    if not resources.keys() & {"cpu", "memory"}:
        raise UsageError("how big?", remedy="say at least one of --cpu 4 and --memory 8GiB")
    said = {
        "name": name,
        "resources": resources,
        "pool": options.pool,
        "dedicated": options.dedicated and options.dedicated.value,
        "labels": words.key_values(options.label, "--label") or None,
        "zone": options.zone,
        "strategy": options.strategy,
        "weights": words.ratios(options.weight, "--weight") or None,
        "priority": options.priority,
        "when_unplaceable": None if options.fail is None else "fail" if options.fail else "wait",
        "deadline_s": options.deadline,
    }
    return {key: value for key, value in said.items() if value is not None}


def numbered(order: Order, count: int) -> list[Order]:
    """`web` becomes web-1, web-2, …; `web-07` becomes web-07, web-08, …; without a name all get their own."""
    name = order.get("name")
    if not isinstance(name, str):
        return [dict(order) for _ in range(count)]
    found = _COUNTED.fullmatch(name)
    stem, first, digits = (found[1], int(found[2]), len(found[2])) if found else (f"{name}-", 1, 1)
    return [{**order, "name": f"{stem}{number:0{digits}}"} for number in range(first, first + count)]


def order_from_file(item: Mapping[str, object], place: str) -> Order:
    """One item of a file. `resources` is as in the API; `cpu`, `memory` … beside it are as on the command line."""
    order = {key: value for key, value in item.items() if key not in _ANSWERED_ONLY}
    typed = {name: str(order.pop(name)) for name in ("cpu", "memory", "disk", "gpu") if name in order}
    resources = order.get("resources", {})
    if not isinstance(resources, dict):
        raise UsageError(f"{place}: resources must be a table of numbers, such as {{cpu: 4000, memory: 8192}}")
    try:
        order["resources"] = {**resources, **{name: words.amount(name, text) for name, text in typed.items()}}
    except UsageError as error:
        raise UsageError(f"{place}: {error.detail}", remedy=error.remedy) from error
    return order


def changed(order: Mapping[str, object], changes: Mapping[str, object]) -> Order:
    """The order with some fields changed, the way of JSON merge patch; what changes to nothing is left out."""
    merged = dict(order)
    for key, value in changes.items():
        merged[key] = changed(_table(merged.get(key)), value) if isinstance(value, dict) else value
    return {key: value for key, value in merged.items() if value is not None}


def command(verb: str, order: Mapping[str, object]) -> str:
    """`virtflow place web-1 --cpu 4 --memory 8GiB`: says the same as the order, and no more than needed."""
    parts = ["virtflow", *verb.split()]
    if order.get("name"):
        parts.append(str(order["name"]))
    parts += _resource_options(_table(order.get("resources")))
    for key in ("pool", "dedicated"):
        if order.get(key) is not None and order[key] != _DEFAULTS[key]:
            said = str(order[key])
            parts += [f"--{key}", words.say_pool(said) if key == "pool" else said]
    for key, value in sorted(_table(order.get("labels")).items()):
        parts += ["--label", f"{key}={value}"]
    for key in ("zone", "strategy"):
        if order.get(key):
            parts += [f"--{key}", str(order[key])]
    for key, value in _table(order.get("weights")).items():
        parts += ["--weight", f"{key}={value}"]
    if order.get("priority"):
        parts += ["--priority", str(order["priority"])]
    if order.get("when_unplaceable") == "fail":
        parts.append("--fail")
    if order.get("deadline_s"):
        parts += ["--deadline", str(order["deadline_s"])]
    return shlex.join(parts)


def _resource_options(resources: Mapping[str, object]) -> list[str]:
    parts: list[str] = []
    for name, value in resources.items():
        number = int(str(value))
        if name in {"cpu", "memory", "disk", "gpu"}:
            parts += [f"--{name}", words.say(name, number)] if number else []
        elif (name, number) != ("vms", 1):
            parts += ["--resource", f"{name}={number}"]
    return parts


def _table(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


def order_again(item: Mapping[str, object], keys: Sequence[str] = ()) -> Order:
    """What was asked for, read off a VM or a task as answered."""
    fields = ("resources", "pool", "dedicated", "labels", "zone", "strategy", "weights", "priority", "when_unplaceable")
    found = {key: item[key] for key in (*fields, *keys) if item.get(key)}
    name = item.get("vm") or item.get("name")
    return {**({"name": name} if name else {}), **found}
