"""What a value must be: annotated types that the parser checks and the OpenAPI document shows.

A `rule` says in words what is wrong with a value of the right JSON type, or returns None.
"""

import difflib
import ipaddress
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from msgspec import Meta

from virtflow.model.event import EventType
from virtflow.model.limits import (
    AMOUNT_MAX,
    BULK_ITEMS_MAX,
    CUSTOM_DIMENSIONS_MAX,
    DEADLINE_S_MAX,
    LABEL_VALUE_LENGTH_MAX,
    LABELS_MAX,
    NAME_LENGTH_MAX,
    OVERCOMMIT_MAX,
    PRIORITY_MAX,
    TEXT_LENGTH_MAX,
    URL_LENGTH_MAX,
)
from virtflow.model.names import NAME, NAME_RULE, TASK_ID, TASK_ID_RULE, is_name
from virtflow.model.resources import CPU, DIMENSIONS, MEMORY
from virtflow.model.url import read_url
from virtflow.model.webhook import secret_key

Rule = Callable[[Any], str | None]

#: types of events, and their beginnings
EVENT_NAMES = tuple(
    sorted({kind.value for kind in EventType} | {f"{kind.value.partition('.')[0]}." for kind in EventType})
)

OVERCOMMIT_MIN = 0.01
WEIGHT_MAX = 1000.0
#: strategies may come from other packages, and bear names of Python's kind
STRATEGY = re.compile(r"[a-z][-a-z0-9_]{0,62}", re.ASCII)
STRATEGY_RULE = "1 to 63 of a-z, 0-9, '-' and '_', beginning with a letter"
LABEL_KEY = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_./]{0,251}[A-Za-z0-9])?", re.ASCII)
LABEL_KEY_RULE = "1 to 253 of A-Z, a-z, 0-9 and '-_./', with a letter or digit at both ends"
AMOUNT_OF = re.compile(rf"(?:{NAME.pattern})=[0-9]{{1,13}}", re.ASCII)
_UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_HOST_NAME_PART = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)", re.ASCII)


def _matches(pattern: re.Pattern[str], words: str) -> Rule:
    def rule(text: str) -> str | None:
        return None if pattern.fullmatch(text) else f"must be {words}"

    return rule


def pool_rule(text: str) -> str | None:
    return None if text == "" or is_name(text) else f"must be {NAME_RULE}, or empty"


def strategy_rule(text: str) -> str | None:
    return None if text == "" or STRATEGY.fullmatch(text) else f"must be {STRATEGY_RULE}, or empty"


def text_rule(text: str) -> str | None:
    """Control and direction characters have no place in a log or a table."""
    return None if text.isprintable() else "must be printable characters"


def address_rule(text: str) -> str | None:
    return None if text == "" or is_address(text) else "must be an IP address or a host name, or empty"


def is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        parts = text.removesuffix(".").split(".")
        # a last part of digits alone is a wrong IPv4 address, not a host name
        return all(map(_HOST_NAME_PART.fullmatch, parts)) and not parts[-1].isdecimal()
    return "%" not in text


def label_rule(text: str) -> str | None:
    """A label as a parameter of a query."""
    key, equals, value = text.partition("=")
    right = equals and LABEL_KEY.fullmatch(key) and len(value) <= LABEL_VALUE_LENGTH_MAX and value.isprintable()
    return None if right else "must be key=value, such as gpu=a100"


def amount_rule(text: str) -> str | None:
    """An amount of a dimension as a parameter of a query."""
    right = AMOUNT_OF.fullmatch(text) and int(text.partition("=")[2]) <= AMOUNT_MAX
    return None if right else "must be name=amount, such as licences=2"


def dimensions_rule(amounts: Mapping[str, object]) -> str | None:
    many = len(amounts.keys() - set(DIMENSIONS)) > CUSTOM_DIMENSIONS_MAX
    return f"must name at most {CUSTOM_DIMENSIONS_MAX} resources beside {', '.join(DIMENSIONS)}" if many else None


def wanted_rule(amounts: Mapping[str, object]) -> str | None:
    if not (amounts.get(CPU) or amounts.get(MEMORY)):
        return "must ask for some cpu or some memory"
    return dimensions_rule(amounts)


def _reads(read: Callable[[str], object]) -> Rule:
    """Right is what can be read; the reader says what is wrong."""

    def rule(text: str) -> str | None:
        try:
            read(text)
        except ValueError as error:
            return str(error)
        return None

    return rule


def events_rule(text: str) -> str | None:
    if text in EVENT_NAMES:
        return None
    near = difflib.get_close_matches(text[:64], EVENT_NAMES, n=1)
    return (
        f"must be a type of event, or the beginning of some with its dot{f' (did you mean {near[0]}?)' if near else ''}"
    )


def _whole(
    pattern: re.Pattern[str] | str, length_max: int, *, or_empty: bool = False, **words: object
) -> dict[str, Any]:
    text = pattern if isinstance(pattern, str) else pattern.pattern
    return {"pattern": f"^(?:{text})?$" if or_empty else f"^(?:{text})$", "maxLength": length_max, **words}


Name = Annotated[
    str,
    Meta(
        extra={"rule": _matches(NAME, NAME_RULE)},
        extra_json_schema=_whole(NAME, NAME_LENGTH_MAX, examples=["bm-001"]),
    ),
]
PoolName = Annotated[
    str,
    Meta(
        extra={"rule": pool_rule},
        extra_json_schema=_whole(NAME, NAME_LENGTH_MAX, or_empty=True, examples=["ai"]),
    ),
]
TaskId = Annotated[
    str,
    Meta(
        extra={"rule": _matches(TASK_ID, TASK_ID_RULE)},
        extra_json_schema=_whole(f"{_UUID}|{TASK_ID.pattern}", 64),
    ),
]
StrategyName = Annotated[
    str,
    Meta(
        extra={"rule": strategy_rule}, extra_json_schema=_whole(STRATEGY, 63, or_empty=True, examples=["least_loaded"])
    ),
]
#: format `text`: printable characters (no control, format or direction characters)
Text = Annotated[str, Meta(extra={"rule": text_rule}, max_length=TEXT_LENGTH_MAX, extra_json_schema={"format": "text"})]
LabelKey = Annotated[
    str,
    Meta(extra={"rule": _matches(LABEL_KEY, LABEL_KEY_RULE)}, extra_json_schema=_whole(LABEL_KEY, TEXT_LENGTH_MAX)),
]
LabelValue = Annotated[
    str, Meta(extra={"rule": text_rule}, max_length=LABEL_VALUE_LENGTH_MAX, extra_json_schema={"format": "text"})
]
Labels = Annotated[dict[LabelKey, LabelValue], Meta(max_length=LABELS_MAX)]
Address = Annotated[
    str, Meta(extra={"rule": address_rule}, max_length=TEXT_LENGTH_MAX, extra_json_schema={"format": "address"})
]

#: format `label`: the value is a text
LabelIs = Annotated[
    str,
    Meta(extra={"rule": label_rule}, extra_json_schema={"pattern": f"^{LABEL_KEY.pattern}=", "format": "label"}),
]
AmountOf = Annotated[
    str,
    Meta(extra={"rule": amount_rule}, extra_json_schema={"pattern": f"^{AMOUNT_OF.pattern}$", "format": "amount"}),
]

#: format `web-url`: http or https, no user, no fragment, a host in its usual form
WebUrl = Annotated[
    str,
    Meta(
        extra={"rule": _reads(read_url)},
        max_length=URL_LENGTH_MAX,
        extra_json_schema={"format": "web-url", "examples": ["https://hooks.example.net/virtflow"]},
    ),
]
#: format `whsec`
SigningSecretText = Annotated[
    str, Meta(extra={"rule": _reads(secret_key)}, extra_json_schema={"format": "whsec", "maxLength": 94})
]
EventName = Annotated[str, Meta(extra={"rule": events_rule}, extra_json_schema={"enum": list(EVENT_NAMES)})]

Amount = Annotated[int, Meta(ge=0, le=AMOUNT_MAX)]
_DIMENSIONS_MAX = len(DIMENSIONS) + CUSTOM_DIMENSIONS_MAX
Amounts = Annotated[dict[Name, Amount], Meta(max_length=_DIMENSIONS_MAX, extra={"rule": dimensions_rule})]
#: at least one of cpu and memory
Wanted = Annotated[
    dict[Name, Amount],
    Meta(
        min_length=1,
        max_length=_DIMENSIONS_MAX,
        extra={"rule": wanted_rule},
        extra_json_schema={
            "anyOf": [{"required": [name], "properties": {name: {"minimum": 1}}} for name in (CPU, MEMORY)],
            "examples": [{"cpu": 2000, "memory": 4096}],
        },
    ),
]
Ratio = Annotated[float, Meta(ge=OVERCOMMIT_MIN, le=OVERCOMMIT_MAX)]
Ratios = Annotated[dict[Name, Ratio], Meta(max_length=_DIMENSIONS_MAX, extra={"rule": dimensions_rule})]
Weight = Annotated[float, Meta(ge=0, le=WEIGHT_MAX)]
Weights = Annotated[dict[Name, Weight], Meta(max_length=_DIMENSIONS_MAX)]

Priority = Annotated[int, Meta(ge=0, le=PRIORITY_MAX)]
DeadlineS = Annotated[int, Meta(ge=1, le=DEADLINE_S_MAX)]
BULK = Meta(min_length=1, max_length=BULK_ITEMS_MAX)
