"""The ledger against a model of a few lines: any order of steps, any amounts, with failures in between."""

import asyncio
from collections.abc import Mapping

import msgspec
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule
from tests.store.builders import add_hosts, host_named, undone

from virtflow.model.errors import Conflict
from virtflow.store.contract import RoomChange, Store
from virtflow.store.open import open_store
from virtflow.testing.builders import host

DIMENSIONS = ("cpu", "memory", "gpu", "licences")
LIMIT = 10
some = st.dictionaries(st.sampled_from(DIMENSIONS), st.integers(0, 6), min_size=1)


class Room(RuleBasedStateMachine):
    """Three hosts; what is taken is remembered as leases, and given back lease by lease."""

    url = "sqlite://"
    leases: Bundle[tuple[tuple[str, Mapping[str, int]], ...]] = Bundle("leases")

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.store: Store = open_store(self.url)
        self.loop.run_until_complete(self.store.open())
        self.ids: dict[str, int] = {}
        self.limits: dict[str, dict[str, int]] = {}
        self.used: dict[str, dict[str, int]] = {}

    def teardown(self) -> None:
        self.loop.run_until_complete(self.store.close())
        self.loop.close()

    @initialize()
    def begin(self) -> None:
        room = dict.fromkeys(DIMENSIONS, LIMIT)
        hosts = [msgspec.structs.replace(host(name), total=room, allocatable=room) for name in "abc"]
        ids = self.loop.run_until_complete(add_hosts(self.store, *hosts))
        self.ids = dict(zip("abc", ids, strict=True))
        self.limits = {name: dict(room) for name in "abc"}
        self.used = {name: dict.fromkeys(DIMENSIONS, 0) for name in "abc"}

    def fits(self, name: str, wanted: Mapping[str, int]) -> bool:
        used, limit = self.used[name], self.limits[name]
        return all(not amount or used[d] + amount <= limit[d] for d, amount in wanted.items())

    @rule(target=leases, wanted=st.dictionaries(st.sampled_from("abc"), some, min_size=1), fails=st.booleans())
    def take(self, wanted: dict[str, dict[str, int]], *, fails: bool) -> object:
        changes = [RoomChange(self.ids[name], amounts, 1) for name, amounts in wanted.items()]
        expected = {self.ids[name] for name, amounts in wanted.items() if not self.fits(name, amounts)}

        async def run() -> frozenset[int]:
            if fails or expected:
                async with undone(self.store) as tx:
                    return await tx.take_room(changes)
            async with self.store.transaction() as tx:
                return await tx.take_room(changes)

        assert self.loop.run_until_complete(run()) == expected
        if fails or expected:
            return multiple()
        for name, amounts in wanted.items():
            for dimension, amount in amounts.items():
                self.used[name][dimension] += amount
        return tuple(wanted.items())

    @rule(lease=consumes(leases))
    def give(self, lease: tuple[tuple[str, Mapping[str, int]], ...]) -> None:
        async def run() -> None:
            async with self.store.transaction() as tx:
                await tx.give_room([RoomChange(self.ids[name], amounts, 1) for name, amounts in lease])

        self.loop.run_until_complete(run())
        for name, amounts in lease:
            for dimension, amount in amounts.items():
                self.used[name][dimension] -= amount

    @rule(name=st.sampled_from("abc"), limit=st.dictionaries(st.sampled_from(DIMENSIONS), st.integers(0, 12)))
    def resize(self, name: str, limit: dict[str, int]) -> None:
        self.limits[name] |= limit

        async def run() -> None:
            found = await host_named(self.store, name)
            changed = msgspec.structs.replace(found, allocatable=dict(self.limits[name]))
            async with self.store.transaction() as tx:
                await tx.change_host(changed, expected_version=found.version)

        self.loop.run_until_complete(run())

    @rule(name=st.sampled_from("abc"))
    def delete_and_register_again(self, name: str) -> None:
        in_use = self.loop.run_until_complete(host_named(self.store, name)).instances > 0

        async def run() -> list[int]:
            room = dict(self.limits[name])
            again = msgspec.structs.replace(host(name), total=room, allocatable=room)
            async with self.store.transaction() as tx:
                await tx.delete_host(name, at_ms=1, expected_version=None)
                return await tx.add_hosts([again])

        if in_use:
            with pytest.raises(Conflict):
                self.loop.run_until_complete(run())
        else:
            [self.ids[name]] = self.loop.run_until_complete(run())

    @invariant()
    def the_database_agrees(self) -> None:
        for name in self.used:
            found = self.loop.run_until_complete(host_named(self.store, name))
            assert found.used == {d: amount for d, amount in self.used[name].items() if amount}
            assert found.allocatable == self.limits[name]


Room.TestCase.settings = settings(
    max_examples=25, stateful_step_count=25, suppress_health_check=list(HealthCheck), deadline=None
)
TestRoom = Room.TestCase


@pytest.mark.service("postgresql")
@pytest.mark.slow
def test_the_same_on_postgresql(postgresql_url: str, request: pytest.FixtureRequest) -> None:
    from hypothesis.stateful import run_state_machine_as_test

    class RoomOnPostgresql(Room):
        url = postgresql_url

        def teardown(self) -> None:
            async def empty() -> None:
                for name in list(self.ids):
                    found = await host_named(self.store, name)
                    async with self.store.transaction() as tx:
                        if found.instances:
                            await tx.give_room([RoomChange(found.id, found.used, found.instances)])
                        await tx.delete_host(name, at_ms=1, expected_version=None)

            self.loop.run_until_complete(empty())
            super().teardown()

    run_state_machine_as_test(
        RoomOnPostgresql,
        settings=settings(
            max_examples=8, stateful_step_count=20, suppress_health_check=list(HealthCheck), deadline=None
        ),
    )
