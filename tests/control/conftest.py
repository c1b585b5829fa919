"""A whole virtflow in one process, on either database."""

import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from virtflow.config import Config, load_config
from virtflow.control.orders import VmOrder
from virtflow.engine import strategies
from virtflow.main import Service, build
from virtflow.model.host import HostSpec
from virtflow.model.shape import Shape, shape


def config(path: Path, **flags: str) -> Config:
    given = {"database_url": f"sqlite:///{path}", "retry_wait_s": "0.02", "tick_s": "0.2", **flags}
    return load_config(environ={"HOME": str(path.parent)}, known_strategies=strategies.names(), flags=given)


@pytest.fixture
def start(url: str, tmp_path: Path) -> Callable[..., contextlib.AbstractAsyncContextManager[Service]]:
    """`async with start() as service:`; a second time is a restart on the same file."""

    @contextlib.asynccontextmanager
    async def starting(**flags: str) -> AsyncIterator[Service]:
        service = build(config(tmp_path / "virtflow.db", **{"database_url": url, **flags}), inventories=[])
        async with service.running():
            yield service

    return starting


@pytest.fixture
async def service(start: Callable[..., contextlib.AbstractAsyncContextManager[Service]]) -> AsyncIterator[Service]:
    async with start() as service:
        yield service


def host(name: str, *, cores: int = 8, memory_gib: int = 32, disk: int = 1000, **more: object) -> HostSpec:
    capacity = {"cpu": cores * 1000, "memory": memory_gib * 1024, "disk": disk, "vms": 100}
    return HostSpec(name=name, address="10.0.0.1", capacity=capacity, **more)  # type: ignore[arg-type]


def wish(*, cores: int = 1, memory_gib: int = 1, **more: object) -> Shape:
    return shape({"cpu": cores * 1000, "memory": memory_gib * 1024}, **more)  # type: ignore[arg-type]


def order(name: str | None = None, *, want: Shape | None = None, **more: object) -> VmOrder:
    return VmOrder(shape=want or wish(), name=name, **more)  # type: ignore[arg-type]
