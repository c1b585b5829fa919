"""What the engine decided for a batch: data, not action."""

import msgspec

from virtflow.model.explanation import Explanation
from virtflow.model.shape import Shape


class Request(msgspec.Struct, frozen=True, gc=False):
    """One instance to place. `key` identifies it and seeds chance; members of a gang are placed all or none."""

    key: bytes
    shape: Shape
    gang: bytes | None = None


class Placement(msgspec.Struct, frozen=True, gc=False):
    request: Request
    host_id: int
    host: str
    #: as the strategy counts it, after its direction was applied: lower is better
    score: float


class Rejection(msgspec.Struct, frozen=True, gc=False):
    request: Request
    #: filled by `explain`, not by `decide`: most rejected requests share a shape
    explanation: Explanation | None = None


class Plan(msgspec.Struct, frozen=True):
    """One outcome for each request, in the order of the requests."""

    outcomes: tuple[Placement | Rejection, ...]
    #: where round robin stands afterwards: (pool, name of the last host chosen), sorted
    cursors: tuple[tuple[str, str], ...] = ()


class ScorePart(msgspec.Struct, frozen=True):
    name: str
    weight: float
    value: float


class Candidate(msgspec.Struct, frozen=True):
    """A host that would do, with the parts of its score."""

    host: str
    score: float
    parts: tuple[ScorePart, ...] = ()
    instances: int = 0
    free: dict[str, int] = {}


class Preview(msgspec.Struct, frozen=True):
    """The dry run of one request: the winner and the runners-up, or the refusal."""

    strategy: str
    winner: Candidate | None
    runners_up: tuple[Candidate, ...] = ()
    hosts_possible: int = 0
    explanation: Explanation | None = None
