"""How a process is, part by part: what is well, and what is not, since when, why, and how to mend it."""

import enum

import msgspec


class Status(enum.StrEnum):
    OK = "ok"
    #: work goes on with what is left; a restart would not help
    DEGRADED = "degraded"
    #: what this process is for does not work
    FAILING = "failing"


class Unwell(msgspec.Struct, frozen=True, kw_only=True):
    """A part that does not work as it should."""

    part: str
    status: Status
    #: since when, as far as this process knows
    since_ms: int
    cause: str
    #: empty where nobody but a programmer can mend it
    remedy: str


class HealthReport(msgspec.Struct, frozen=True, kw_only=True):
    status: Status
    #: part -> "ok" or what is wrong
    parts: dict[str, str]
    unwell: tuple[Unwell, ...]
    #: what this process does: api, scheduler, relay
    roles: list[str]
    #: office -> "leading" or "following"; those of its roles
    offices: dict[str, str]
    #: so many events of the log are not in the mirror yet; None where nobody else writes, or while nobody can say
    behind: int | None

    @property
    def ok(self) -> bool:
        return self.status is not Status.FAILING


def worst(unwell: "tuple[Unwell, ...]") -> Status:
    if any(one.status is Status.FAILING for one in unwell):
        return Status.FAILING
    return Status.DEGRADED if unwell else Status.OK
