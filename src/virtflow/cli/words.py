"""Amounts, times and names as people write them, in both directions. What is printed can be typed again."""

import datetime
import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal, InvalidOperation

from virtflow.cli.exits import UsageError
from virtflow.model.resources import DIMENSIONS

_CORES = re.compile(r"(\d+(?:\.\d+)?)(m?)", re.ASCII)
_BYTES = re.compile(r"(\d+(?:\.\d+)?)\s*(?:([KMGTP])(?:i?B?)?)?", re.ASCII | re.IGNORECASE)
_MIB_PER = {"K": Decimal(1) / 1024, "M": Decimal(1), "G": Decimal(1024), "T": Decimal(1024**2), "P": Decimal(1024**3)}
BYTES_RULE = "such as 8GiB, 8G or 8192M (M, G and T are always binary: 1 G = 1024 M)"


def cores(text: str) -> int:
    """Millicores of `4`, `0.5` or `1500m`."""
    found = _CORES.fullmatch(text.strip())
    number = Decimal(found[1]) * (1 if found[2] else 1000) if found else None
    if number is None or number % 1:
        raise UsageError(
            f"cpu {text!r} is not understood", remedy="cores such as 4 or 0.5, or millicores such as 1500m"
        )
    return int(number)


def memory(text: str) -> int:
    """MiB of `8GiB`, `8G`, `8192M` or `8192`."""
    return _size(text, "memory", unit="M", alone="a number alone is MiB")


def disk(text: str) -> int:
    """GiB of `100`, `100GiB` or `2T`."""
    return _size(text, "disk", unit="G", alone="a number alone is GiB")


def _size(text: str, dimension: str, *, unit: str, alone: str) -> int:
    found = _BYTES.fullmatch(text.strip())
    number = Decimal(found[1]) * _MIB_PER[(found[2] or unit).upper()] / _MIB_PER[unit] if found else None
    if number is None or number % 1:
        raise UsageError(f"{dimension} {text!r} is not understood", remedy=f"{BYTES_RULE}; {alone}")
    return int(number)


def count(text: str, dimension: str) -> int:
    if not re.fullmatch(r"\d+", text.strip(), re.ASCII):
        raise UsageError(f"{dimension} {text!r} is not understood", remedy="a whole number, such as 2")
    return int(text)


def amount(dimension: str, text: str) -> int:
    """Any dimension's amount, in the units people type for it."""
    readers = {"cpu": cores, "memory": memory, "disk": disk}
    return readers[dimension](text) if dimension in readers else count(text, dimension)


def amounts(pairs: Sequence[str] | None, option: str) -> dict[str, int]:
    """`cpu=2 memory=8GiB licences=3`."""
    return {name: amount(name, text) for name, text in key_values(pairs, option).items()}


def ratios(pairs: Sequence[str] | None, option: str) -> dict[str, float]:
    """`cpu=4 memory=1.5`."""
    found = {}
    for name, text in key_values(pairs, option).items():
        try:
            number = Decimal(text)
        except InvalidOperation:
            number = Decimal("NaN")
        if not number.is_finite() or number < 0:
            raise UsageError(
                f"{option} {name}={text} is not understood", remedy=f"a number, such as {option} {name}=1.5"
            )
        found[name] = float(number)
    return found


def key_values(pairs: Sequence[str] | None, option: str) -> dict[str, str]:
    found = {}
    for pair in pairs or ():
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise UsageError(f"{option} {pair!r} is not understood", remedy=f"write {option} KEY=VALUE")
        found[key] = value
    return found


# The other direction.


def say_cores(millicores: int) -> str:
    return f"{Decimal(millicores) / 1000:f}".rstrip("0").rstrip(".") if millicores % 1000 else str(millicores // 1000)


def say_memory(mib: int) -> str:
    return _say_size(mib, ("MiB", "GiB", "TiB"))


def say_disk(gib: int) -> str:
    return _say_size(gib, ("GiB", "TiB"))


def _say_size(number: int, units: Sequence[str]) -> str:
    """In the largest unit that needs at most one decimal and loses nothing; those after .5 are still short."""
    value, unit, *larger = Decimal(number), *units
    while larger and value >= 1024 and (value * 2) % 1024 == 0:
        value, (unit, *larger) = value / 1024, larger
    return f"{value.normalize():f}{unit}" if number else "0"


def say(dimension: str, number: int) -> str:
    writers = {"cpu": say_cores, "memory": say_memory, "disk": say_disk}
    return writers[dimension](number) if dimension in writers else str(number)


def say_about(dimension: str, number: int) -> str:
    """For reading, not for typing again: sums of many hosts are seldom round."""
    exact = say(dimension, number)
    return exact if len(exact) <= 7 else f"{_in_unit(dimension, number)}{_UNIT.get(dimension, '')}"


def say_pair(dimension: str, used: int, whole: int) -> str:
    """'96/256GiB': one unit for both, since it is read as a fraction."""
    return f"{_in_unit(dimension, used)}/{_in_unit(dimension, whole)}{_UNIT.get(dimension, '')}"


_UNIT = {"memory": "GiB", "disk": "GiB"}


def _in_unit(dimension: str, number: int) -> str:
    scale = {"cpu": 1000, "memory": 1024}.get(dimension, 1)
    return f"{number / scale:.1f}".removesuffix(".0")


def say_all(resources: Mapping[str, int], *, without: Sequence[str] = ("vms",)) -> str:
    """'cpu 4, memory 8GiB, licences 2'. The place in the VM quota goes without saying."""
    return ", ".join(
        f"{name} {say(name, resources[name])}"
        for name in in_order(resources)
        if resources[name] and name not in without
    )


def in_order(dimensions: Iterable[str]) -> list[str]:
    """The built-in ones as everywhere, then the others by name."""
    names = set(dimensions)
    return [*(name for name in DIMENSIONS if name in names), *sorted(names.difference(DIMENSIONS))]


def say_labels(labels: Mapping[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))


def say_ratios(overcommit: Mapping[str, float]) -> str:
    return ",".join(f"{name}={ratio:g}" for name, ratio in overcommit.items())


def plural(count: int, noun: str) -> str:
    """'1 VM', '1,200 VMs'."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def say_age(at: datetime.datetime | None, now: datetime.datetime) -> str:
    return "" if at is None else say_duration((now - at).total_seconds())


def say_duration(seconds: float) -> str:
    """'42s', '3m', '5h', '12d': never more than two units of detail are wanted in a table."""
    whole = max(0, int(seconds))
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if whole >= 2 * size:
            return f"{whole // size}{unit}"
    return f"{whole}s"


def say_time(at: datetime.datetime | None, now: datetime.datetime) -> str:
    if at is None:
        return ""
    return f"{at.astimezone(datetime.UTC):%Y-%m-%d %H:%M:%SZ} ({say_age(at, now)} ago)"


def say_pool(name: str) -> str:
    """The pool "" is written "-", here as in the API's paths; "-" is no valid name."""
    return name or "-"


def pool_name(text: str) -> str:
    return "" if text == "-" else text
