"""Guards that catch each other's bugs: each can be taken away by its name."""

import contextlib
from collections.abc import Mapping
from types import MappingProxyType

from virtflow.control.answers import Answers
from virtflow.store.records import Writes
from virtflow.testing.planted.bug import Plant, all_of, nothing, replaced, said, without
from virtflow.testing.simulation.database import DatabaseServer


def fence_check() -> contextlib.AbstractContextManager[None]:
    return replaced(Writes, "check_fence", nothing)


def room_guard() -> contextlib.AbstractContextManager[None]:
    return all_of(
        lambda: said("take_room", lambda sql: sql[: sql.index("\n    AND (")]),
        lambda: said("take_custom_room", lambda sql: sql[: sql.index("\n    AND (")]),
    )


def checks_of_tables() -> contextlib.AbstractContextManager[None]:
    return replaced(DatabaseServer, "heeds_checks", False)


def state_guard() -> contextlib.AbstractContextManager[None]:
    return said("move_task", without("state = $10 AND "))


def bind_guard() -> contextlib.AbstractContextManager[None]:
    return said("bind_instance", without(" AND host_id IS NULL"))


def key_guard() -> contextlib.AbstractContextManager[None]:
    return said(
        "add_answer", lambda sql: sql.replace("INSERT INTO", "INSERT OR REPLACE INTO").replace(_ON_CONFLICT, "")
    )


def recall() -> contextlib.AbstractContextManager[None]:
    return replaced(Answers, "recall", nothing)


_ON_CONFLICT = "ON CONFLICT DO NOTHING"

GUARDS: Mapping[str, Plant] = MappingProxyType(
    {
        "fence check": fence_check,
        "room guard": room_guard,
        "checks of the tables": checks_of_tables,
        "state guard": state_guard,
        "bind guard": bind_guard,
        "key guard": key_guard,
        "recall": recall,
    }
)
