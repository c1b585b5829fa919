"""A full house: exactly the room was given, and who got none was told so."""

import asyncio
from typing import Any

import httpx

from chaos.evidence import Evidence, Finding, of
from chaos.world import World

_COUNTS = """
    SELECT (SELECT count(*) FROM task) AS orders,
        (SELECT count(*) FROM instance WHERE host_id IS NOT NULL) AS placed,
        (SELECT count(*) FROM task WHERE state < 2) AS waiting
"""
_UNTOLD = """
    SELECT encode(id, 'hex') AS id, code, reason FROM task
    WHERE state = 3 AND (code NOT IN ('insufficient_resources', 'deadline_exceeded') OR coalesce(reason, '') = '')
"""
_SOME_WAITING = "SELECT vm_name FROM task WHERE state < 2 ORDER BY random() LIMIT 20"


async def look(world: World) -> Evidence:
    """At rest."""
    if not world.scene.full:
        return Evidence()
    [counts] = await world.rows(_COUNTS)
    untold = [f"task {row['id']} failed with {row['code']!r}: {row['reason']!r}" for row in await world.rows(_UNTOLD)]
    names = [row["vm_name"] for row in await world.rows(_SOME_WAITING)]
    untold += await asyncio.to_thread(_wrong_answers, world.apis[0].url, names)
    placed, waiting, places = counts["placed"], counts["waiting"], world.scene.places
    return of(
        {"orders": counts["orders"], "placed": placed, "waiting": waiting, "places": places},
        Finding("room", abs(places - placed) if waiting or placed > places else 0,
                f"{placed} VMs stand in room for {places}, and {waiting} wait"),
        Finding("house", int(not waiting), "nobody waits: the house was never full, and nothing is proved"),
        Finding("told", len(untold), untold[0] if untold else ""),
    )  # fmt: skip


def _wrong_answers(url: str, names: list[str]) -> list[str]:
    """Who waits is told that there is no room, and not anything else."""
    wrong = []
    for name in names:
        vm: dict[str, Any] = httpx.get(f"{url}/v1/vms/{name}", timeout=30).raise_for_status().json()
        code = (vm.get("explanation") or {}).get("code")
        if vm["host"] is not None or code != "insufficient_resources":
            wrong.append(f"{name} waits, and is told {code!r} with host {vm['host']!r}")
    return wrong
