"""From a record of an inventory to a host: read what is right, name what is wrong, never fail as a whole.

Two kinds of record are understood, told apart by their fields: a node of a node API (`cpu` in cores, `usage_cpu`, …),
and our own description of a host (`capacity`, `reserved`, …) as the HTTP API takes it.
"""

import difflib
import ipaddress
import math
import re
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from types import MappingProxyType
from typing import Any, TypeVar

from virtflow.inventory.contract import SKIPPED_NAMED_MAX, Fetched, FoundHost
from virtflow.model.host import HostSpec
from virtflow.model.limits import (
    AMOUNT_MAX,
    CUSTOM_DIMENSIONS_MAX,
    LABEL_VALUE_LENGTH_MAX,
    LABELS_MAX,
    OVERCOMMIT_MAX,
    TEXT_LENGTH_MAX,
)
from virtflow.model.names import NAME_RULE, is_name
from virtflow.model.pool import PoolSpec
from virtflow.model.resources import CPU, DIMENSIONS, DISK, GPU, MEMORY, VMS
from virtflow.model.views import SkippedRecord

T = TypeVar("T")

NODE_FIELDS = frozenset({"cpu", "memory", "storage", "usage_cpu", "usage_mem", "gpu", "ip", "current_vms"})
HOST_FIELDS = frozenset({*HostSpec.__struct_fields__, "max_vms"})
POOL_FIELDS = frozenset(PoolSpec.__struct_fields__)
#: Fields that only our own description has.
_HOST_ONLY = frozenset({"capacity", "overcommit", "reserved"})

OVERCOMMIT_MIN = 0.01
#: A node that does not say how many VMs it carries takes one.
NODE_VMS = 1
_SHOWN_LENGTH_MAX = 80
#: Longer numbers are no amounts, and turning them into integers takes time.
_DIGITS_MAX = 20
_HOST_NAME_PART = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)")
_LABEL_KEY = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_./]{0,251}[A-Za-z0-9])?")


class BadRecordError(Exception):
    """This record cannot be used; the text says why, in a sentence for its author."""


def read_records(
    records: Iterable[object], *, read: Callable[[object], FoundHost], pools: tuple[PoolSpec, ...] = ()
) -> Fetched:
    """Every usable record as a host. The first of two with one name wins: it was there first on every fetch."""
    found: dict[str, FoundHost] = {}
    skipped: list[SkippedRecord] = []
    skipped_total = 0
    for number, record in enumerate(records):
        try:
            host = read(record)
            if host.spec.name in found:
                raise BadRecordError("another record has the same name; the first one counts")
            found[host.spec.name] = host
        except BadRecordError as problem:
            skipped_total += 1
            if len(skipped) < SKIPPED_NAMED_MAX:
                skipped.append(SkippedRecord(record=_label(number, record), problem=str(problem)))
    return Fetched(hosts=tuple(found.values()), skipped=tuple(skipped), skipped_total=skipped_total, pools=pools)


def read_any(record: object) -> FoundHost:
    """Either kind of record."""
    fields = _fields(record)
    node_like = sorted(NODE_FIELDS & fields.keys())
    ours = sorted(_HOST_ONLY & fields.keys())
    if node_like and ours:
        raise BadRecordError(f"it mixes {ours[0]!r} of a host with {node_like[0]!r} of a node; use one or the other")
    return read_node(fields) if node_like else read_host(fields)


def read_node(record: object) -> FoundHost:
    """A node of a node API. Fields that we do not know are not ours to judge."""
    fields = _fields(record)
    capacity = {
        CPU: _amount(fields, "cpu", times=1000),
        MEMORY: _amount(fields, "memory"),
        DISK: _amount(fields, "storage"),
        GPU: _amount(fields, "gpu"),
        VMS: _amount(fields, "max_vms", default=NODE_VMS),
    }
    return FoundHost(
        spec=HostSpec(
            name=_name(fields),
            pool=_pool(fields, "pool"),
            address=_address(fields),
            # that there is no room for VMs is said by a zero; no `vms` at all would mean no quota
            capacity={name: amount for name, amount in capacity.items() if amount or name == VMS},
            **_description(fields),
        ),
        reported=_reported(fields, capacity),
    )


def _reported(fields: Mapping[str, object], capacity: Mapping[str, int]) -> dict[str, int]:
    """Use in our dimensions, rounded up: room that is used in part is not free."""
    amounts = {
        CPU: _used_share(fields, "usage_cpu", capacity[CPU]),
        MEMORY: _used_share(fields, "usage_mem", capacity[MEMORY]),
        VMS: _amount(fields, "current_vms"),
    }
    return {name: amount for name, amount in amounts.items() if amount}


def read_host(record: object) -> FoundHost:
    """Our own description of a host. A field that we do not know is a slip of its author."""
    fields = _fields(record)
    _refuse_unknown(fields, HOST_FIELDS)
    return FoundHost(
        spec=HostSpec(
            name=_name(fields),
            pool=_pool(fields, "pool"),
            address=_address(fields),
            capacity=_capacity(fields),
            overcommit=_overcommit(fields),
            reserved=_amounts(fields, "reserved"),
            **_description(fields),
        )
    )


def _capacity(fields: Mapping[str, object]) -> dict[str, int]:
    capacity = _amounts(fields, "capacity")
    if fields.get("max_vms") is None:
        return capacity
    quota = _amount(fields, "max_vms")
    if capacity.get(VMS, quota) != quota:
        raise BadRecordError(f"max_vms is {quota}, capacity.vms is {capacity[VMS]}; give one of them")
    return {**capacity, VMS: quota}


def read_pool(record: object) -> PoolSpec:
    """What a file says about a pool; refused as a whole, since a slip here changes many hosts."""
    fields = _fields(record)
    _refuse_unknown(fields, POOL_FIELDS)
    if "name" not in fields:
        raise BadRecordError("it has no name")
    return PoolSpec(
        name=_pool(fields, "name"),
        overcommit=_overcommit(fields),
        strategy=_text(fields, "strategy"),
        accepts_work=_flag(fields, "accepts_work", default=True),
    )


def _description(fields: Mapping[str, object]) -> dict[str, Any]:
    """What both kinds of record say in the same words."""
    return {
        "labels": _labels(fields),
        "zone": _text(fields, "zone"),
        "rack": _text(fields, "rack"),
        "model": _text(fields, "model"),
        "dedicated": _flag(fields, "dedicated", default=False),
    }


# One field each. A null says nothing, like a field that is not there.


def _fields(record: object) -> Mapping[str, object]:
    if not isinstance(record, dict):
        raise BadRecordError(f"it is {_shown(record)}, not a record with fields")
    return record


def _refuse_unknown(fields: Mapping[str, object], known: Iterable[str]) -> None:
    for name in fields:
        if name not in known:
            near = difflib.get_close_matches(str(name), sorted(known), n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise BadRecordError(f"it has an unknown field {_shown(name)}{hint}")


def _name(fields: Mapping[str, object]) -> str:
    name = fields.get("name")
    if name is None:
        raise BadRecordError("it has no name")
    if not isinstance(name, str) or not is_name(name):
        raise BadRecordError(f"its name {_shown(name)} is no host name: {NAME_RULE}{_better_name(name)}")
    return name


def _better_name(name: object) -> str:
    """A remedy, not a repair: to lower-case in silence would make one host of two."""
    better = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") if isinstance(name, str) and name.isascii() else ""
    return f"; name it {better} in the inventory" if is_name(better) else ""


def _pool(fields: Mapping[str, object], field: str) -> str:
    pool = fields.get(field)
    if pool is None:
        return "default"
    if not isinstance(pool, str) or not (pool == "" or is_name(pool)):
        raise BadRecordError(f"its pool {_shown(pool)} is no pool name: {NAME_RULE}, or empty{_better_name(pool)}")
    return pool


def _address(fields: Mapping[str, object]) -> str:
    given = {field: _text(fields, field) for field in ("ip", "address") if _text(fields, field)}
    if len(set(given.values())) > 1:
        raise BadRecordError("ip and address differ; give one of them")
    for field, address in given.items():
        if not is_address(address):
            raise BadRecordError(f"{field} is {_shown(address)}; it must be an IP address or a host name")
        return address
    return ""


def is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        parts = text.rstrip(".").split(".")
        # a last part of digits alone is a wrong IPv4 address, not a host name
        return all(map(_HOST_NAME_PART.fullmatch, parts)) and not parts[-1].isdigit()
    return True


def _text(fields: Mapping[str, object], field: str) -> str:
    text = fields.get(field)
    if text is None:
        return ""
    if not isinstance(text, str):
        raise BadRecordError(f"{field} is {_shown(text)}; it must be text (in YAML: put it in quotes)")
    if len(text) > TEXT_LENGTH_MAX or not text.isprintable():
        raise BadRecordError(f"{field} must be at most {TEXT_LENGTH_MAX} printable characters")
    return text


def _flag(fields: Mapping[str, object], field: str, *, default: bool) -> bool:
    value = fields.get(field)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise BadRecordError(f"{field} is {_shown(value)}; it must be true or false")
    return value


def _amount(fields: Mapping[str, object], field: str, *, default: int = 0, times: int = 1) -> int:
    value = fields.get(field)
    if value is None:
        return default * times
    number = _whole(value)
    if number is None or not 0 <= number * times <= AMOUNT_MAX:
        raise BadRecordError(f"{field} is {_shown(value)}; it must be a whole number from 0 to {AMOUNT_MAX // times}")
    return number * times


def _whole(value: object) -> int | None:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _used_share(fields: Mapping[str, object], field: str, capacity: int) -> int:
    value = fields.get(field)
    if value is None:
        return 0
    # NaN is not between anything
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise BadRecordError(f"{field} is {_shown(value)}; it must be a share from 0 to 1 (0.35 means 35 %)")
    # as it was written: 0.1 in binary is a little more than a tenth, and rounding up would make it one unit more
    return math.ceil(capacity * Fraction(str(value)))


def _mapping(fields: Mapping[str, object], field: str) -> Mapping[object, object]:
    value = fields.get(field)
    if value is None:
        return MappingProxyType({})
    if not isinstance(value, dict):
        raise BadRecordError(f"{field} is {_shown(value)}; it must be a mapping")
    return value


def _amounts(fields: Mapping[str, object], field: str) -> dict[str, int]:
    given = _by_dimension(fields, field)
    return {name: _amount(given, name) for name in given}


def _by_dimension(fields: Mapping[str, object], field: str) -> dict[str, object]:
    """A mapping whose keys are names of dimensions, the custom ones not too many."""
    given: dict[str, object] = {}
    for name, value in _mapping(fields, field).items():
        if not isinstance(name, str) or not is_name(name):
            raise BadRecordError(f"{field} names {_shown(name)}, which is no name of a resource: {NAME_RULE}")
        given[name] = value
    if len(given.keys() - set(DIMENSIONS)) > CUSTOM_DIMENSIONS_MAX:
        raise BadRecordError(f"{field} has more than {CUSTOM_DIMENSIONS_MAX} resources of its own")
    return given


def _overcommit(fields: Mapping[str, object]) -> dict[str, float]:
    return {name: _ratio(name, value) for name, value in _by_dimension(fields, "overcommit").items()}


def _ratio(name: str, value: object) -> float:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not OVERCOMMIT_MIN <= value <= OVERCOMMIT_MAX:  # type: ignore[operator]
        raise BadRecordError(
            f"overcommit.{name} is {_shown(value)}; it must be from {OVERCOMMIT_MIN} to {OVERCOMMIT_MAX:g}"
        )
    return float(value)  # type: ignore[arg-type]


def _labels(fields: Mapping[str, object]) -> dict[str, str]:
    labels = _mapping(fields, "labels")
    if len(labels) > LABELS_MAX:
        raise BadRecordError(f"it has {len(labels)} labels; at most {LABELS_MAX} are kept")
    return dict(_label_pair(key, value) for key, value in labels.items())


def _label_pair(key: object, value: object) -> tuple[str, str]:
    if not isinstance(key, str) or not _LABEL_KEY.fullmatch(key):
        raise BadRecordError(f"the label {_shown(key)} must be letters, digits and '-_./', such as example.com/gpu")
    if not isinstance(value, str):
        raise BadRecordError(f"the label {key} is {_shown(value)}; it must be text (in YAML: put it in quotes)")
    if len(value) > LABEL_VALUE_LENGTH_MAX or not value.isprintable():
        raise BadRecordError(f"the label {key} must be at most {LABEL_VALUE_LENGTH_MAX} printable characters")
    return key, value


def json_integer(digits: str) -> float:
    """For parsers of JSON: an integer that is no amount for its length spoils its record, not the document."""
    return int(digits) if len(digits) <= _DIGITS_MAX else math.inf


# Foreign things in our sentences: short, and in one line.


def _label(number: int, record: object) -> str:
    name = record.get("name") if isinstance(record, dict) else None
    return f"#{number} {_plain(name)}" if isinstance(name, str) else f"#{number}"


def _shown(value: object) -> str:
    """A scalar as it stands; of something large only what it is, since writing it out could take for ever."""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple | set):
        return "a list"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return f"'{_plain(value)}'"
    if isinstance(value, int) and abs(value) > AMOUNT_MAX:
        return "too large"
    return _plain(str(value))


def _plain(text: str) -> str:
    short = text if len(text) <= _SHOWN_LENGTH_MAX else text[: _SHOWN_LENGTH_MAX - 1] + "…"
    return "".join(character if character.isprintable() else "�" for character in short)
