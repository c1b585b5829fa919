"""A bug: how it is planted, what hides it, and who is expected to find it."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from virtflow.store.statements import Dialect, statements

#: while inside, it is there
Plant = Callable[[], contextlib.AbstractContextManager[Any]]

SIMULATION = "simulation"
#: names the bug that a test run is to have
VARIABLE = "VIRTFLOW_PLANTED"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Bug:
    name: str
    #: what the program does then
    text: str
    plant: Plant
    #: other guards that catch its effects, by name: it is planted alone, and once more with these off
    hidden_by: tuple[str, ...] = ()
    #: the simulation, or the test that fails
    found_by: str = SIMULATION
    #: a real bug of one of the systems that virtflow unites, or of virtflow itself before it was mended
    was_in: str = ""


@contextlib.contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


@contextlib.contextmanager
def said(name: str, change: Callable[[str], str], *, dialects: Sequence[Dialect] = ("sqlite",)) -> Iterator[None]:
    """A statement says something else."""
    with contextlib.ExitStack() as stack:
        for dialect in dialects:
            known = statements(dialect)
            changed = change(known[name])
            if changed == known[name]:
                raise ValueError(f"{name} says the same as before: the bug is not planted")
            stack.callback(known.__setitem__, name, known[name])
            known[name] = changed
        yield


def without(piece: str) -> Callable[[str], str]:
    return lambda sql: sql.replace(piece, "")


@contextlib.contextmanager
def all_of(*plants: Plant) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for plant in plants:
            stack.enter_context(plant())
        yield


async def nothing(*_arguments: Any, **_named: Any) -> None:
    pass


def no_call(*_arguments: Any, **_named: Any) -> None:
    pass
