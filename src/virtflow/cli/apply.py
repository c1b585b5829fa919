"""apply: make hosts and pools as a file says; what is so already is not written."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from virtflow.cli import output, words
from virtflow.cli.connect import connect
from virtflow.cli.documents import Item, read_lists
from virtflow.cli.exits import Exit, UsageError, try_each

if TYPE_CHECKING:
    from virtflow.client import Client
    from virtflow.client.records import Host, Pool

CREATED_AT_ONCE = 10_000
#: up to so many are asked for one by one; a longer file reads the whole list
ASKED_SINGLY_MAX = 20

#: field -> its default: what is not said in the file is made so
HOST_FIELDS: dict[str, object] = {
    "pool": "default",
    "address": "",
    "capacity": {},
    "overcommit": {},
    "reserved": {},
    "labels": {},
    "zone": "",
    "rack": "",
    "model": "",
    "dedicated": False,
}
POOL_FIELDS: dict[str, object] = {"overcommit": {}, "strategy": "", "accepts_work": True}
#: what answers carry and a host is not told: a list that was read can be applied again
_ANSWERED_ONLY = frozenset(
    {
        "cordoned",
        "schedulable",
        "carries_virtflow",
        "source",
        "foreign",
        "missing_since",
        "total",
        "allocatable",
        "used",
        "free",
    }
    | {"instances", "version", "created_at", "updated_at", "hosts", "explicit", "effective_strategy", "max_vms"}
)
_SIZES = ("cpu", "memory", "disk", "gpu", "vms")


def apply(
    ctx: typer.Context,
    file: Annotated[str, typer.Option("--file", "-f", metavar="FILE", help="YAML, JSON or TOML; - is what comes in.")],
) -> int:
    """Register or change hosts and pools as a file says.

    The file is a list of hosts, or a table of the lists `hosts` and `pools`. Sizes stand in `capacity` in the words
    of the API, or beside it in those of the command line (`cpu: 64`, `memory: 256GiB`). Hosts that the file does not
    name stay as they are.
    """
    lists = read_lists(file, ["hosts", "pools"])
    hosts = [host_from_file(item, f"{file}, host {number}") for number, item in enumerate(lists["hosts"], 1)]
    pools = [_without_answers(item, f"{file}, pool {number}") for number, item in enumerate(lists["pools"], 1)]
    with connect(ctx) as client:
        return max(_apply_pools(client, pools), _apply_hosts(client, hosts))


def host_from_file(item: Item, place: str) -> Item:
    host = _without_answers(item, place)
    typed = {name: str(host.pop(name)) for name in _SIZES if name in host}
    capacity = host.get("capacity", {})
    if not isinstance(capacity, dict):
        raise UsageError(f"{place}: capacity must be a table of numbers")
    try:
        sizes: Item = {name: words.amount(name, text) for name, text in typed.items()}
    except UsageError as error:
        raise UsageError(f"{place}: {error.detail}", remedy=error.remedy) from error
    sizes = {**_quota(item), **capacity, **sizes}
    return {**host, "capacity": sizes} if sizes else host


def _quota(item: Item) -> Item:
    """`max_vms` is another word for capacity.vms, and weaker: answers carry both."""
    return {} if item.get("max_vms") is None else {"vms": item["max_vms"]}


def _without_answers(item: Item, place: str) -> Item:
    if not isinstance(item.get("name"), str):
        raise UsageError(f"{place}: it has no name")
    return {key: value for key, value in item.items() if key not in _ANSWERED_ONLY}


def _apply_pools(client: "Client", pools: Sequence[Item]) -> Exit:
    wanted = {str(pool["name"]): pool for pool in pools}
    known = {pool.name: pool for pool in client.pools.list()} if wanted else {}

    def make(name: str) -> None:
        settings = {key: value for key, value in wanted[name].items() if key != "name"}
        before = known.get(name)
        if before is not None and before.explicit and _is_so(before, settings, POOL_FIELDS):
            _tell("pool", words.say_pool(name), "unchanged")
            return
        client.pools.replace(name, settings, version=before.version if before and before.explicit else None)
        _tell("pool", words.say_pool(name), "changed" if before and before.explicit else "created")

    return try_each(wanted, make)


def _apply_hosts(client: "Client", hosts: Sequence[Item]) -> Exit:
    wanted = {str(host["name"]): host for host in hosts}
    if len(wanted) < len(hosts):
        raise UsageError("the file names a host twice")
    known = _known_hosts(client, wanted)
    new = [host for name, host in wanted.items() if name not in known]
    for start in range(0, len(new), CREATED_AT_ONCE):
        piece = new[start : start + CREATED_AT_ONCE]
        client.hosts.create_many(piece)
        for host in piece:
            _tell("host", str(host["name"]), "created")

    def change(name: str) -> None:
        before = known[name]
        if _is_so(before, wanted[name], HOST_FIELDS):
            _tell("host", name, "unchanged")
            return
        client.hosts.replace(name, wanted[name], version=before.version)
        _tell("host", name, "changed")

    return try_each([name for name in wanted if name in known], change)


def _known_hosts(client: "Client", wanted: "dict[str, Item]") -> "dict[str, Host]":
    from virtflow.client import ApiError

    if len(wanted) > ASKED_SINGLY_MAX:
        return {host.name: host for host in client.hosts.list() if host.name in wanted}
    found = {}
    for name in wanted:
        try:
            found[name] = client.hosts.get(name)
        except ApiError as error:
            if error.status != 404:
                raise
    return found


def _is_so(before: "Host | Pool", wanted: Item, fields: dict[str, object]) -> bool:
    """Whether writing it would change nothing. A field we do not know is left to the server to judge."""
    is_known = set(wanted) <= {"name", *fields}
    return is_known and all(getattr(before, key) == wanted.get(key, default) for key, default in fields.items())


def _tell(kind: str, name: str, what: str) -> None:
    output.show([f"{kind} {name} {what}"])
