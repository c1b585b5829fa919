"""Traces: what was done for one request, in every process that had to do with it.

Without a tracer nothing of this runs: whoever could begin a trace asks once whether there is one, and everything
further on goes by the `traceparent` of the request, which is empty then.
"""

import collections
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple, Protocol, TypeVar

import msgspec

from virtflow.control.commit import Outcome, Round
from virtflow.control.journal import Steps
from virtflow.control.waiting import Waiting, WaitingRoom
from virtflow.events import CloudEvent, Guard, Mailer, MayLeave, Post, Reply, Sink, SinkFailed, always
from virtflow.model.clock import Clock
from virtflow.model.limits import CALLS_MAX
from virtflow.model.names import id_to_text
from virtflow.queue import LookAt, Observer

#: traces of one round that get spans of it; the others keep those of their requests
TRACES_PER_ROUND_MAX = 256
_GIVEN = re.compile(rb"00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})")
_IS_SAMPLED = 1
#: as the envelope of an event is written: inside a text of somebody else the quotes would be escaped
_IN_BODY = re.compile(rb'"traceparent":"(00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2})"')


T = TypeVar("T")


class Span(NamedTuple):
    """Something that took time. Times are by the monotonic clock."""

    name: str
    #: server, client, internal, producer, consumer
    kind: str
    #: its own `traceparent`
    trace: str
    #: that of what it was done for; empty for the first of a trace that began here
    parent: str
    began_s: float
    ended_s: float
    attributes: Mapping[str, str | int | float | bool] = {}
    #: why it failed; empty when it did not
    error: str = ""


class Tracer(Protocol):
    @property
    def state(self) -> str:
        """ "ok", or what is wrong: for health."""
        ...

    def begin(self, given: bytes | None) -> tuple[str, str]:
        """The `traceparent` for a request, and that of its caller; empty when this one is not traced."""
        ...

    def write(self, span: Span) -> None:
        """Never blocks, never fails: what cannot be kept is dropped."""
        ...

    async def close(self) -> None:
        """Sends what is left, within a bounded time."""
        ...


def read_traceparent(given: bytes | None) -> tuple[str, bool] | None:
    """What a caller sent, and whether he wants it traced; None when it is none, or none that we understand."""
    found = _GIVEN.fullmatch(given.strip()) if given else None
    if found is None or given is None:
        return None
    return given.strip().decode(), bool(int(found[3], 16) & _IS_SAMPLED)


def new_trace() -> str:
    return f"00-{os.urandom(16).hex()}-{os.urandom(8).hex()}-01"


def child_of(trace: str) -> str:
    """Another span of the same trace."""
    return f"{trace[:36]}{os.urandom(8).hex()}-01"


class RoundTracer:
    """Spans of what the scheduler does, for each request that is traced."""

    def __init__(self, tracer: Tracer, *, waiting: WaitingRoom, clock: Clock) -> None:
        self._tracer = tracer
        self._waiting = waiting
        self._clock = clock
        #: called out and not yet confirmed by the broker: task -> its trace, and since when
        self._called: collections.OrderedDict[bytes, tuple[str, float]] = collections.OrderedDict()
        #: of tasks that another process accepted, decided here not long ago: their messages are still on the way
        self._decided: collections.OrderedDict[bytes, str] = collections.OrderedDict()

    def settled(self, decided: Round, outcome: Outcome, steps: Steps) -> None:
        placed = {task.id for task, _ in decided.placed} & set(outcome.over)
        for trace, tasks in _by_trace(_all_of(decided)):
            counts: dict[str, str | int] = {
                "virtflow.task": id_to_text(tasks[0].id),
                "virtflow.tasks": len(tasks),
                "virtflow.placed": sum(task.id in placed for task in tasks),
            }
            if decided.is_acceptance:
                _keep(self._called, {task.id: (trace, steps.committed_s) for task in tasks})
            else:
                _keep(self._decided, {task.id: trace for task in tasks if task.recorded})
                self._write("decide", "internal", trace, steps.began_s, steps.decided_s, counts)
            self._write("commit", "internal", trace, steps.decided_s, steps.committed_s, counts)

    def confirmed(self, tasks: Sequence[bytes]) -> None:
        """The broker has the message that carries these."""
        now_s = self._clock.monotonic_s()
        for trace, since_s in dict(self._called.pop(key) for key in tasks if key in self._called).items():
            self._write("publish", "producer", trace, since_s, now_s, {})

    def consuming(self, look_at: LookAt) -> LookAt:
        """The same with a span for each request whose tasks a message carries."""

        async def look(tasks: Sequence[bytes]) -> None:
            began_s = self._clock.monotonic_s()
            await look_at(tasks)
            ended_s = self._clock.monotonic_s()
            for trace, count in collections.Counter(map(self._trace_of, tasks)).items():
                if trace:
                    self._write("consume", "consumer", trace, began_s, ended_s, {"virtflow.tasks": count})

        return look

    def _trace_of(self, task: bytes) -> str:
        waiting = self._waiting.get(task)
        return waiting.trace if waiting is not None else self._decided.pop(task, "")

    def _write(
        self, name: str, kind: str, trace: str, began_s: float, ended_s: float, attributes: Mapping[str, str | int]
    ) -> None:
        self._tracer.write(Span(name, kind, child_of(trace), trace, began_s, ended_s, attributes))


class TracedMessages:
    """What becomes of messages, told to another observer and to the traces of the requests that they carry."""

    def __init__(self, observer: Observer, rounds: RoundTracer) -> None:
        self._rounds = rounds
        self.observe_published = observer.observe_published
        self.observe_lost_calls = observer.observe_lost_calls
        self.observe_consumed = observer.observe_consumed

    def observe_confirmed(self, tasks: Sequence[bytes]) -> None:
        self._rounds.confirmed(tasks)


class TracedSink:
    """A way out of the house, with a span for each request whose events go it."""

    def __init__(self, sink: Sink, tracer: Tracer, *, clock: Clock) -> None:
        self.name = sink.name
        self.close = sink.close
        self._sink = sink
        self._tracer = tracer
        self._clock = clock

    async def send(self, events: Sequence[CloudEvent]) -> None:
        began_s, error = self._clock.monotonic_s(), ""
        try:
            await self._sink.send(events)
        except SinkFailed as failure:
            error = failure.detail
            raise
        finally:
            self._write(events, began_s, error)

    def _write(self, events: Sequence[CloudEvent], began_s: float, error: str) -> None:
        ended_s = self._clock.monotonic_s()
        of_trace: dict[str, list[CloudEvent]] = {}
        for event in events:
            if isinstance(event.traceparent, str):
                of_trace.setdefault(event.traceparent, []).append(event)
        for trace, members in islice(of_trace.items(), TRACES_PER_ROUND_MAX):
            about: dict[str, str | int] = {
                "messaging.system": self.name,
                "messaging.batch.message_count": len(members),
                "virtflow.event": members[0].id,
            }
            self._tracer.write(Span("deliver", "producer", child_of(trace), trace, began_s, ended_s, about, error))


class TracedMailer(Mailer):
    """Sends posts, each that belongs to a traced request with a span of it."""

    def __init__(self, guard: Guard, *, clock: Clock, tracer: Tracer) -> None:
        super().__init__(guard, clock=clock)
        self._tracer = tracer
        self._now_s = clock.monotonic_s

    async def send(self, post: Post, *, line: str, may_leave: MayLeave = always) -> Reply:
        found = _IN_BODY.search(post.body)
        if found is None:
            return await super().send(post, line=line, may_leave=may_leave)
        parent = found[1].decode()
        trace, began_s = child_of(parent), self._now_s()
        reply = await super().send(msgspec.structs.replace(post, trace=trace), line=line, may_leave=may_leave)
        about: dict[str, str | int] = {
            "virtflow.webhook": line,
            "virtflow.event": post.message_id,
            "http.response.status_code": reply.status,
        }
        self._tracer.write(Span("deliver", "client", trace, parent, began_s, self._now_s(), about, reply.text))
        return reply


def _keep(known: collections.OrderedDict[bytes, T], more: Mapping[bytes, T]) -> None:
    """The newest, within bounds."""
    known.update(more)
    while len(known) > CALLS_MAX:
        known.popitem(last=False)


def _all_of(decided: Round) -> Iterator[Waiting]:
    yield from (task for task, _ in decided.placed)
    yield from (task for task, _ in decided.queued)
    yield from (task for task, _ in decided.retried)
    yield from (task for task, _, _ in decided.failed)


def _by_trace(tasks: Iterator[Waiting] | Sequence[Waiting]) -> list[tuple[str, list[Waiting]]]:
    found: dict[str, list[Waiting]] = {}
    for task in tasks:
        if task.trace and (task.trace in found or len(found) < TRACES_PER_ROUND_MAX):
            found.setdefault(task.trace, []).append(task)
    return list(found.items())


#: who is told that a round became true
Settled = Callable[[Round, Outcome, Steps], None]
