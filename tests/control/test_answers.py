"""Idempotency keys: done once, answered the same, also across restarts and side by side."""

import asyncio
import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import pytest
from tests.control.conftest import host, order
from tests.control.test_schedule import register

from virtflow.control.orders import Receipt, Rendered
from virtflow.main import Service
from virtflow.model.errors import KeyReused
from virtflow.model.views import VmView

Start = Callable[..., AbstractAsyncContextManager[Service]]


def render(views: list[VmView]) -> Rendered:
    return 202, json.dumps([view.instance.id_text for view in views]).encode(), (("location", "/v1/vms/x"),)


async def place(service: Service, key: str, request_hash: bytes = b"one") -> bytes:
    async with service.house.answers.claim("me", key, request_hash) as replayed:
        if replayed is not None:
            return replayed.body
        receipt = Receipt(principal="me", key=key, request_hash=request_hash, render=render)
        return render(await service.house.vms.create([order()], together=False, actor="me", receipt=receipt))[1]


async def test_the_same_key_is_done_once_even_side_by_side(service: Service) -> None:
    await register(service, host("bm-1"))
    bodies = await asyncio.gather(*(place(service, "k") for _ in range(64)))
    assert len(set(bodies)) == 1
    assert (await service.house.hosts.get("bm-1")).instances == 1


async def test_the_answer_survives_a_restart(start: Start) -> None:
    async with start() as service:
        await register(service, host("bm-1"))
        first = await place(service, "k")
    async with start() as service:
        assert await place(service, "k") == first
        assert (await service.house.hosts.get("bm-1")).instances == 1


async def test_another_request_with_the_same_key_is_refused(service: Service) -> None:
    await register(service, host("bm-1"))
    await place(service, "k")
    with pytest.raises(KeyReused):
        await place(service, "k", request_hash=b"two")


async def test_a_request_that_failed_may_be_repeated_with_its_key(service: Service) -> None:
    with pytest.raises(Exception, match="no pool"):
        await place(service, "k")
    await register(service, host("bm-1"))
    assert await place(service, "k")


async def test_the_first_of_two_may_be_cancelled_and_the_second_goes_on(service: Service) -> None:
    await register(service, host("bm-1"))
    first = asyncio.create_task(place(service, "k"))
    second = asyncio.create_task(place(service, "k"))
    await asyncio.sleep(0)
    first.cancel()
    assert await second
