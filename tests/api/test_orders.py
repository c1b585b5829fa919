"""The quick way and the strict way of reading orders agree, whatever is sent."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from virtflow.api.errors import MalformedJson
from virtflow.api.orders import SHAPES_MAX, Orders, ScheduleIn, VmBatchIn, VmIn
from virtflow.api.strict import read
from virtflow.control.orders import VmOrder
from virtflow.model.errors import InvalidRequest
from virtflow.model.shape import Dedicated

NAMES = st.sampled_from(["a", "web-1", "x" * 63, "x" * 64, "A", "", "-", "a\n", "ü", "a:b", "a\\b", "vm-" + "0" * 32])
NUMBERS = st.sampled_from([0, 1, 2000, 2**40, 2**40 + 1, -1, 1.0, 1.5, 1e300, True, "1", None, 10**30])
WORDS = st.sampled_from(
    ["allowed", "required", "maybe", True, False, 1, None, "fail", "wait", "", "least_loaded", "magic"]
)
TEXTS = st.sampled_from(["", "z", "dc 1", "\x00", "\u202e", "x" * 254, "a:b", 'q"q', "\\"])
AMOUNTS = st.dictionaries(
    st.sampled_from(["cpu", "memory", "disk", "gpu", "vms", "licences", "A", "", "a:b"]), NUMBERS, max_size=4
)
MAYBE = st.one_of(NUMBERS, WORDS, TEXTS)
VMS = st.fixed_dictionaries(
    {},
    optional={
        "resources": AMOUNTS | st.just({"cpu": 1000, "memory": 2048}),
        "name": NAMES | MAYBE,
        "pool": NAMES | MAYBE,
        "dedicated": WORDS,
        "labels": st.dictionaries(NAMES, TEXTS, max_size=2) | MAYBE,
        "zone": TEXTS | MAYBE,
        "strategy": WORDS,
        "weights": st.dictionaries(NAMES, NUMBERS, max_size=2) | MAYBE,
        "priority": NUMBERS,
        "when_unplaceable": WORDS,
        "deadline_s": NUMBERS,
        "nmae": MAYBE,
    },
)
SCHEDULES = st.fixed_dictionaries(
    {"requested_cpu": NUMBERS, "requested_memory": NUMBERS, "requested_pool": NAMES | MAYBE, "dedicated": WORDS},
    optional={
        "task_id": NAMES | st.sampled_from(["a.b", "123e4567-e89b-12d3-a456-426614174000"]),
        "requested_disk": NUMBERS,
        "requested_gpu": NUMBERS,
        "labels": st.dictionaries(NAMES, TEXTS, max_size=2) | MAYBE,
        "strategy": WORDS,
        "priority": NUMBERS,
        "when_unplaceable": WORDS,
        "name": NAMES,
        "extra": MAYBE,
    },
)
GOOD: dict[str, Any] = {
    "resources": {"cpu": 1000, "memory": 2048}, "name": "web", "pool": "ai", "dedicated": "required", "zone": "z",
    "labels": {"k": "v"}, "strategy": "hybrid", "weights": {"cpu": 1}, "priority": 5, "when_unplaceable": "fail",
    "deadline_s": 9,
}  # fmt: skip


def outcome(reading: Any) -> object:
    """The orders, or the mistakes."""
    try:
        return asyncio.run(reading)
    except (InvalidRequest, MalformedJson) as error:
        return (error.error_code, error.fields)


class Strict(Orders):
    """As if nothing were ever plain."""

    async def read_one(self, body: bytes) -> VmOrder:
        return self.order_of(read(body, VmIn))

    async def read_many(self, body: bytes) -> Any:
        batch = read(body, VmBatchIn)
        return self.orders_of(batch.items), batch.mode == "all_or_nothing"

    async def read_schedule(self, body: bytes) -> VmOrder:
        return self._order_of_schedule(read(body, ScheduleIn))


QUICK, STRICT = Orders(), Strict()


@given(VMS)
def test_one(vm: object) -> None:
    body = json.dumps(vm).encode()
    assert outcome(QUICK.read_one(body)) == outcome(STRICT.read_one(body))


@given(SCHEDULES)
def test_schedule(asked: object) -> None:
    body = json.dumps(asked).encode()
    assert outcome(QUICK.read_schedule(body)) == outcome(STRICT.read_schedule(body))


@given(st.lists(VMS | st.just(GOOD) | st.just({"resources": {"cpu": 1}}), max_size=5), st.booleans() | WORDS)
def test_many(vms: list[object], mode: object) -> None:
    body = json.dumps({"items": vms, "mode": mode} if isinstance(mode, str) else {"items": vms}).encode()
    assert outcome(QUICK.read_many(body)) == outcome(STRICT.read_many(body))


@given(st.sampled_from(list(GOOD)), st.integers(0, 3), st.booleans())
def test_a_doubled_key_is_never_plain(field: str, spaces: int, same: bool) -> None:
    """Wherever it stands, however it is spaced, whether or not it says the same twice."""
    gap = " " * spaces
    value = json.dumps(GOOD[field])
    rest = json.dumps({name: one for name, one in GOOD.items() if name != field or same})[1:-1]
    body = f'{{{rest},"{field}"{gap}:{gap}{value},"{field}":{value}}}'.encode()
    code, fields = outcome(QUICK.read_one(body))  # type: ignore[misc]
    assert (code, fields[0].pointer, fields[0].detail) == ("invalid_request", f"/{field}", "stands twice")


@pytest.mark.parametrize("inner", ['{"cpu":1,"cpu":1}', '{"cpu":1,"c\\u0070u":1}', '{"cpu":1, "memory":2 ,"cpu":3}'])
def test_a_doubled_key_within_is_never_plain(inner: str) -> None:
    for _ in range(2):  # the second time its spelling could be known
        code, fields = outcome(QUICK.read_one(b'{"resources":%s}' % inner.encode()))  # type: ignore[misc]
        assert (code, fields[0].pointer) == ("invalid_request", "/resources/cpu")


async def test_equal_requests_get_one_shape_object_however_they_are_written() -> None:
    orders = Orders()
    one = await orders.read_one(b'{"resources":{"cpu":1000,"memory":2}}')
    two = await orders.read_one(b'{ "resources": {"memory": 2.0, "cpu": 1000.0, "disk": 0}, "pool": "default" }')
    many, _ = await orders.read_many(
        b'{"items":[{"resources":{"memory":2,"cpu":1000}},{"resources":{"cpu":1000,"memory":2}}]}'
    )
    three = await orders.read_schedule(
        b'{"requested_cpu":1,"requested_memory":2,"requested_pool":"default","dedicated":false}'
    )
    assert len({id(order.shape) for order in (one, two, three, *many)}) == 1
    assert one.shape.dedicated is Dedicated.ALLOWED


async def test_the_memory_of_shapes_is_bounded() -> None:
    orders = Orders()
    for cpu in range(1, 2 * SHAPES_MAX, 1000):
        items = [{"resources": {"cpu": cpu + more}} for more in range(1000)]
        await orders.read_many(json.dumps({"items": items}).encode())
    assert len(orders._by_spelling) <= SHAPES_MAX
    assert len(orders._shapes) <= SHAPES_MAX


async def test_a_large_list_of_mistakes_does_not_hold_up_the_others() -> None:
    body = json.dumps({"items": [{"resources": {"cpu": 1000}, "name": f"vm-{n}"} for n in range(9999)] + [{}]}).encode()
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    busy = asyncio.create_task(others())
    with pytest.raises(InvalidRequest):
        await Orders().read_many(body)
    busy.cancel()
    assert turns > 5
