"""What a receiver of webhooks heard, beside what the log says: everything, in order for each object, and signed."""

import asyncio
import collections
import contextlib
from typing import Any

import httpx

from chaos.evidence import Evidence, Finding, of
from chaos.world import PATIENCE_S, World
from virtflow.testing.receiver import Message, Receiver

#: beginnings of the types that it wants
WANTED = ("task.", "vm.")
_PAGE = 1_000


async def look(world: World) -> Evidence:
    """When everything is at rest: what is on its way may arrive first."""
    if world.hook is None:
        return Evidence()
    told = await asyncio.to_thread(_log, world.apis[0].url)
    with contextlib.suppress(TimeoutError):
        await world.hook.until(lambda hook: _numbers(hook) >= told, within_s=PATIENCE_S)
    messages = world.hook.messages
    missing, foreign = sorted(told - _numbers(world.hook)), sorted(_numbers(world.hook) - told)
    forged = [message.id for message in messages if not message.is_genuine]
    turned = _out_of_order(messages)
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


def _out_of_order(messages: list[Message]) -> list[str]:
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
