"""What must always hold, by the numbers under which it is documented, and what each needs to be judged by."""

import enum
from collections.abc import Mapping
from typing import NamedTuple


class Source(enum.StrEnum):
    """Where the evidence is."""

    TABLES = "the tables"
    LOG = "the event log"
    CLIENTS = "histories of clients"
    REST = "a system at rest"
    NOWHERE = "nothing that exists yet"


class Invariant(NamedTuple):
    statement: str
    #: it is judged as soon as one of these is at hand
    sources: tuple[Source, ...]
    #: why nothing is there to be judged, or what is not looked at
    remark: str = ""


_ROWS_AND_LOG = (Source.TABLES, Source.LOG)

INVARIANTS: Mapping[str, Invariant] = {
    "I1": Invariant("no host ever gave more than it had, after any event, in any dimension", _ROWS_AND_LOG),
    "I2": Invariant("what a host says it gave is what its VMs hold, and what its events add up to", _ROWS_AND_LOG),
    "I3": Invariant(
        "a task ends at most once; at rest, each has ended or waits by its own wish", (Source.LOG, Source.REST)
    ),
    "I4": Invariant("nothing happens to a task or a VM after its end", (Source.LOG,)),
    "I5": Invariant("every step leads from the last state to one that may follow it", (Source.LOG,)),
    "I6": Invariant(
        "one live instance for each VM", (Source.NOWHERE,), "no agents yet, so no journals of what really ran"
    ),
    "I7": Invariant("a VM is there once: one row, one name, and not deleted as well", (Source.TABLES,)),
    "I8": Invariant("versions of an object rise by one", (Source.LOG,)),
    "I9": Invariant("events are numbered without gaps, and the counter names the last", (Source.LOG,)),
    "I10": Invariant("every row is what its last event says", _ROWS_AND_LOG),
    "I11": Invariant("each event reached each outlet that is switched on", (Source.REST,)),
    "I12": Invariant("no outlet was told what never happened", (Source.TABLES,)),
    "I13": Invariant(
        "each event has its effect once at each consumer", (Source.NOWHERE,), "consumers keep no journals that we see"
    ),
    "I14": Invariant("fences never go back, and each has one holder", _ROWS_AND_LOG),
    "I15": Invariant("one Idempotency-Key, one task, in every answer", (Source.TABLES, Source.CLIENTS)),
    "I16": Invariant(
        "what was acknowledged is there, what was refused is not", (Source.TABLES, Source.CLIENTS)
    ),
    "I17": Invariant("who came later saw what was answered before, and got a greater version", (Source.CLIENTS,)),
    "I18": Invariant(
        "every change has one entry in the audit", (Source.NOWHERE,), "no audit yet; events name who asked"
    ),
    "I19": Invariant("no orphans: every VM has its task and its host, every open or placed task its VM", _ROWS_AND_LOG),
    "I20": Invariant("no task is tried more often than allowed, or waits past its deadline", (Source.TABLES,)),
}  # fmt: skip
