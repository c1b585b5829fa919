"""A lease: which process holds an office, and a beat that shows that it still does."""

import msgspec


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """As somebody has seen it; whoever changes it names what he saw."""

    office: str
    #: the id of a process; nobody when empty
    holder: str
    #: grows with every change of the holder
    term: int
    #: grows with everything that happens to the lease
    beat: int
    #: False: the holder's connection to the database is gone, and he most likely with it
    is_attended: bool
    since_ms: int
