"""What a receiver of webhooks heard, beside what the log says: everything, in order for each object, and signed."""

import asyncio
import collections
import contextlib
from typing import Any

import httpx

from chaos.evidence import Evidence, Finding, of
from chaos.world import World
from virtflow.testing.receiver import Message, Receiver

#: beginnings of the types that it wants
WANTED = ("task.", "vm.")
ARRIVE_S_MAX = 120.0
_PAGE = 1_000
_BEHIND = """
    SELECT (SELECT count(*) FROM outlet WHERE enabled AND cursor < (SELECT max(last_seq) FROM event))
        + (SELECT count(*) FROM delivery WHERE state = 0) AS behind
"""


async def arrive(world: World) -> None:
    """What is on its way when everything else is at rest has some time."""
    if world.hook is None:
        return

    async def told() -> bool:
        [row] = await world.rows(_BEHIND)
        return row["behind"] == 0

    with contextlib.suppress(TimeoutError):
        await world.until(told, "relays to tell all", within_s=ARRIVE_S_MAX, poll_s=0.2)


async def look(world: World) -> Evidence:
    """When everything has arrived that will."""
    if world.hook is None:
        return Evidence()
    told = await asyncio.to_thread(_log, world.apis[0].url)
    messages = world.hook.messages
    missing, foreign = sorted(told - _numbers(world.hook)), sorted(_numbers(world.hook) - told)
    forged = [message.id for message in messages if not message.is_genuine]
    turned = out_of_order(messages)
    return of(
        {
            "events_wanted": len(told),
            "messages": len(messages),
            "messages_again": len(messages) - len(_numbers(world.hook)),
        },
        Finding("I11", len(missing), f"{len(missing)} of {len(told)} events never arrived, the first is {missing[:1]}"),
        Finding("I12", len(foreign), f"events arrived that are not in the log: {foreign[:3]}"),
        Finding("order", len(turned), "; ".join(turned[:1])),
        Finding("signed", len(forged), f"{forged[:1]} bears no valid signature"),
        Finding("echo", len(world.echoes), "; ".join(world.echoes[:1])),
    )


def number(message: Message) -> int:
    return int(message.event["data"]["seq"])


def _numbers(hook: Receiver) -> set[int]:
    return {number(message) for message in hook.messages}


def _log(url: str) -> set[int]:
    """Numbers of all events that are wanted, as the log tells them."""
    numbers: set[int] = set()
    with httpx.Client(timeout=30) as client:
        for beginning in WANTED:
            after: Any = 0
            while True:
                query = {"type": beginning, "after": after, "limit": _PAGE}
                items = client.get(f"{url}/v1/events", params=query).raise_for_status().json()["items"]
                numbers.update(item["seq"] for item in items)
                if len(items) < _PAGE:
                    break
                after = items[-1]["seq"]
    return numbers


def out_of_order(messages: list[Message]) -> list[str]:
    """First deliveries only: what comes twice may come late."""
    newest: dict[str, int] = {}
    known: dict[str, set[int]] = collections.defaultdict(set)
    found = []
    for message in messages:
        subject, seq = str(message.event["subject"]), number(message)
        if seq in known[subject]:
            continue
        known[subject].add(seq)
        if seq < newest.get(subject, 0):
            found.append(f"event {seq} of {subject} arrived after {newest[subject]}")
        newest[subject] = max(seq, newest.get(subject, 0))
    return found
