"""Decisions without writing: the dry run, the capacity, the strategies. The same engine, on a copy of the room."""

import asyncio
from collections.abc import Sequence
from typing import Any

from virtflow.control.mirror import Mirror
from virtflow.engine import strategies
from virtflow.engine.capacity import capacity
from virtflow.engine.preview import preview, preview_all
from virtflow.model.capacity import Capacity
from virtflow.model.plan import Preview, Request
from virtflow.model.shape import Shape

#: lists longer than this are decided in pieces, so that others get their turn
PREVIEWS_AT_ONCE = 200


class Placements:
    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror

    async def explain(self, shape: Shape, *, runners_up: int) -> Preview:
        return preview(self._mirror.fleet, Request(b"\x00" * 16, shape), runners_up=runners_up)

    async def explain_all(self, shapes: Sequence[Shape], *, runners_up: int) -> Sequence[Preview]:
        """Each sees the room that the former took, as if they were placed in this order."""
        fork = self._mirror.fleet.fork()
        previews: list[Preview] = []
        for start in range(0, len(shapes), PREVIEWS_AT_ONCE):
            requests = [
                Request(number.to_bytes(16, "big"), shape)
                for number, shape in enumerate(shapes[start : start + PREVIEWS_AT_ONCE], start)
            ]
            previews += preview_all(fork, requests, runners_up=runners_up)
            await asyncio.sleep(0)
        return previews

    async def capacity(self, shape: Shape) -> Capacity:
        return capacity(self._mirror.fleet, shape)

    @property
    def default_strategy(self) -> str:
        return self._mirror.default_strategy

    async def strategies(self) -> Sequence[Any]:
        return strategies.describe()
