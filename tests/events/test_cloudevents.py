"""Our envelopes, judged by the package of those who keep the standard."""

import json
from typing import Any

from cloudevents.core.bindings.http import HTTPMessage, from_structured_event
from cloudevents.core.v1.event import CloudEvent as Judge

from virtflow.events.cloudevents import STRUCTURED, as_json, envelope
from virtflow.model.event import Event, EventType

HISTORY = "6f1c9d0e-0000-4000-8000-000000000001"
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def placed(seq: int = 117, **more: Any) -> Event:
    return Event(
        type=EventType.TASK_COMPLETED, kind="task", id="t-1", seq=seq, at_ms=1_760_000_000_123, vm="web-1",
        host="h1", delta={"memory": 512, "cpu": 1000}, fence=3, **more,
    )  # fmt: skip


def judged(event: Event) -> Judge:
    body = as_json(envelope(event, history_id=HISTORY))
    found = from_structured_event(HTTPMessage(headers={"content-type": STRUCTURED}, body=body))
    assert isinstance(found, Judge)
    return found


def test_an_envelope_is_what_the_standard_wants() -> None:
    found = judged(placed())
    assert found.get_id() == f"{HISTORY}-117"
    assert found.get_source() == f"urn:virtflow:{HISTORY}"
    assert found.get_type() == "virtflow.task.completed"
    assert found.get_subject() == "task/t-1"
    assert found.get_time().isoformat() == "2025-10-09T08:53:20.123000+00:00"  # type: ignore[union-attr]
    assert found.get_datacontenttype() == "application/json"
    assert found.get_extension("sequence") == "00000000000000000117"
    assert found.get_extension("traceparent") is None


def test_the_data_is_the_event_as_the_api_shows_it() -> None:
    data = judged(placed(origin="p1")).get_data()
    assert data == {
        "seq": 117, "type": "task.completed", "kind": "task", "id": "t-1", "version": 1,
        "at": "2025-10-09T08:53:20.123Z", "vm": "web-1", "host": "h1", "delta": {"cpu": 1000, "memory": 512},
        "fence": 3, "origin": "p1",
    }  # fmt: skip


def test_a_traced_event_takes_its_trace_along() -> None:
    assert judged(placed(trace=TRACE)).get_extension("traceparent") == TRACE


def test_the_same_event_has_the_same_envelope_byte_for_byte() -> None:
    one, other = placed(), placed()
    assert as_json(envelope(one, history_id=HISTORY)) == as_json(envelope(other, history_id=HISTORY))


def test_numbers_may_be_compared_as_text() -> None:
    numbers = [envelope(placed(seq=seq), history_id=HISTORY).sequence for seq in (2, 10, 99, 10**15)]
    assert numbers == sorted(numbers)


def test_attributes_are_all_but_the_data() -> None:
    found = envelope(placed(trace=TRACE), history_id=HISTORY)
    assert {**found.attributes, "data": json.loads(bytes(found.data))} == json.loads(as_json(found))
