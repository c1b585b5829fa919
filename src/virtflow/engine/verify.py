"""The second opinion: given the ledger and the rules, do they hold?

Plain whole numbers and dictionaries, and nothing in common with the code that decides: what both believe is hardly
wrong. The commit asks it, `virtflow fsck` asks it of the whole database, the tests ask it after every step.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from virtflow.model.host import Host
from virtflow.model.plan import Placement, Plan
from virtflow.model.shape import Dedicated, Shape
from virtflow.model.violation import Held, HostRoom, Violation

#: Every code a violation may bear.
CODES: Mapping[str, str] = {
    "used_is_not_the_sum": "what a host says it gave differs from what its instances hold",
    "miscounted_instances": "a host counts another number of instances than it carries",
    "negative_use": "a host says it gave less than nothing",
    "over_allocatable": "a host gave more than it may give",
    "placed_twice": "an instance holds room on more than one host, or twice on one",
    "unknown_host": "an instance holds room on a host that does not exist",
    "wrong_pool": "an instance stands outside of the pool it asked for",
    "wrong_zone": "an instance stands outside of the zone it asked for",
    "labels_missing": "an instance stands on a host without a label it asked for",
    "dedicated_rule": "an instance must, or must not, stand on a dedicated host, and the opposite is so",
    "not_schedulable": "a plan places on a host that takes no new work",
    "on_self_host": "a plan places on a host that carries virtflow itself",
    "gang_torn": "a plan places some members of a gang and not the others",
}


def verify(rooms: Iterable[HostRoom], held: Iterable[Held]) -> list[Violation]:
    """Everything that is wrong with a ledger: rows of hosts, and what each instance holds of them."""
    by_id = {room.id: room for room in rooms}
    found: list[Violation] = []
    taken: dict[int, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    carried: dict[int, int] = defaultdict(int)
    seen: dict[str, int] = {}
    for one in held:
        if one.instance in seen:
            found.append(_violation("placed_twice", by_id.get(one.host_id), instance=one.instance))
        seen[one.instance] = one.host_id
        carried[one.host_id] += 1
        for dimension, amount in one.shape.wants:
            taken[one.host_id][dimension] += amount
        room = by_id.get(one.host_id)
        if room is None:
            found.append(_violation("unknown_host", None, instance=one.instance, detail=f"host {one.host_id}"))
        elif one.rules_bind:
            found += _rules(one.shape, room, one.instance)
    for room in by_id.values():
        found += _ledger(room, taken[room.id], carried[room.id])
    return found


def verify_plan(hosts: Iterable[Host], plan: Plan) -> list[Violation]:
    """Does carrying out the plan on these hosts overcommit nothing, break no rule, and tear no gang?"""
    by_id = {host.id: host for host in hosts}
    found: list[Violation] = []
    wanted: dict[int, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    seen: set[bytes] = set()
    placements = [outcome for outcome in plan.outcomes if isinstance(outcome, Placement)]
    for one in placements:
        host, key = by_id.get(one.host_id), one.request.key.hex()
        if host is None or host.name != one.host:
            found.append(_violation("unknown_host", None, instance=key, detail=f"{one.host} ({one.host_id})"))
            continue
        if one.request.key in seen:
            found.append(_violation("placed_twice", _room(host), instance=key))
        seen.add(one.request.key)
        if not host.is_in_service:
            found.append(_violation("not_schedulable", _room(host), instance=key))
        if host.carries_virtflow:
            found.append(_violation("on_self_host", _room(host), instance=key))
        found += _rules(one.request.shape, _room(host), key)
        for dimension, amount in one.request.shape.wants:
            wanted[one.host_id][dimension] += amount
    for host_id, amounts in wanted.items():
        found += _over(_room(by_id[host_id]), amounts)
    return [*found, *_torn_gangs(plan)]


def _ledger(room: HostRoom, taken: Mapping[str, int], carried: int) -> Iterator[Violation]:
    for dimension in sorted({*room.used, *taken}):
        used, held = room.used.get(dimension, 0), taken.get(dimension, 0)
        if used != held:
            detail = f"{used} in the row, {held} held by instances"
            yield _violation("used_is_not_the_sum", room, dimension=dimension, detail=detail)
        if used < 0:
            yield _violation("negative_use", room, dimension=dimension, detail=str(used))
        limit = room.allocatable.get(dimension, 0)
        if used > limit and not room.was_shrunk:
            yield _violation("over_allocatable", room, dimension=dimension, detail=f"{used} of {limit}")
    if room.instances != carried:
        yield _violation("miscounted_instances", room, detail=f"{room.instances} in the row, {carried} there")


def _over(room: HostRoom, wanted: Mapping[str, int]) -> Iterator[Violation]:
    """A dimension of which nothing is wanted may be over-full: that is no fault of this plan."""
    for dimension in sorted(wanted):
        used, limit = room.used.get(dimension, 0) + wanted[dimension], room.allocatable.get(dimension, 0)
        if used > limit:
            yield _violation("over_allocatable", room, dimension=dimension, detail=f"{used} of {limit}")


def _rules(shape: Shape, room: HostRoom, instance: str) -> Iterator[Violation]:
    if shape.pool != room.pool:
        yield _violation("wrong_pool", room, instance=instance, detail=f"{shape.pool!r} asked, {room.pool!r} is")
    if shape.zone and shape.zone != room.zone:
        yield _violation("wrong_zone", room, instance=instance, detail=f"{shape.zone!r} asked, {room.zone!r} is")
    missing = [key for key, value in shape.labels if key not in room.labels or room.labels[key] != value]
    if missing:
        yield _violation("labels_missing", room, instance=instance, detail=", ".join(missing))
    demanded = {Dedicated.REQUIRED: True, Dedicated.FORBIDDEN: False}.get(shape.dedicated, room.dedicated)
    if demanded != room.dedicated:
        yield _violation("dedicated_rule", room, instance=instance, detail=f"{shape.dedicated.value} asked")


def _torn_gangs(plan: Plan) -> Iterator[Violation]:
    placed: dict[bytes, set[bool]] = defaultdict(set)
    for outcome in plan.outcomes:
        if outcome.request.gang is not None:
            placed[outcome.request.gang].add(isinstance(outcome, Placement))
    for gang in sorted(gang for gang, answers in placed.items() if len(answers) > 1):
        yield Violation(code="gang_torn", text=f"{CODES['gang_torn']}: {gang.hex()}")


def _room(host: Host) -> HostRoom:
    return HostRoom(
        id=host.id,
        name=host.name,
        pool=host.spec.pool,
        zone=host.spec.zone,
        dedicated=host.spec.dedicated,
        labels=host.spec.labels,
        allocatable=dict(host.allocatable),
        used=dict(host.used),
        instances=host.instances,
    )


def _violation(
    code: str, room: HostRoom | None, *, instance: str = "", dimension: str = "", detail: str = ""
) -> Violation:
    where = " ".join(word for word in (room.name if room else "", dimension, instance) if word)
    text = ": ".join(word for word in (CODES[code], where, detail) if word)
    return Violation(code=code, text=text, host=room.name if room else "", instance=instance, dimension=dimension)
