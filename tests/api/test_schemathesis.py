"""Requests made from the OpenAPI document, right and wrong ones, against a real server: it keeps what it promises."""

import asyncio
import contextlib
import os
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from unittest import SkipTest

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis.checks import not_a_server_error
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from tests.api.conftest import app_of, new_service

from virtflow.api.app import OPERATIONS
from virtflow.api.openapi import document_of
from virtflow.api.server import Patience, run_server
from virtflow.model.webhook import secret_text

CHECKS = [
    not_a_server_error,
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
]
FAST, SLOW = 4, 150
#: refusals of requests that are right by themselves: they name what is not there, or contradict what is
IN_CONTEXT = {
    "no_such_pool", "invalid_strategy", "invalid_weights", "too_many_dimensions", "idempotency_key_reused",
    "invalid_cursor",
}  # fmt: skip
#: rules between several fields, which a schema cannot say
BETWEEN_FIELDS = (
    "the name in the path", "stands twice", "no resource of this host", "but capacity.vms is", "must name at most",
    "cannot be changed", "asks for two", "some cpu or some memory", "which is a parameter of its own",
    "without a callback_url", "is beyond the newest event",
)  # fmt: skip

printable = st.text(st.characters(min_codepoint=32, max_codepoint=0x17F).filter(str.isprintable), max_size=20)
#: what our own formats may look like; `web-url`: nobody listens there
FORMATS = {
    "text": printable,
    "label": st.builds("{}={}".format, st.sampled_from(["gpu", "a.b/c", "x"]), printable),
    "amount": st.builds("{}={}".format, st.sampled_from(["x", "cpu"]), st.integers(0, 2**40)),
    "address": st.sampled_from(["", "10.0.0.1", "bm-1.example.net", "2001:db8::1"]),
    "web-url": st.builds("http://127.0.0.1:9/{}".format, st.sampled_from(["", "hook", "a?b=c"])),
    "whsec": st.binary(min_size=24, max_size=64).map(secret_text),
}
for _name, _strategy in FORMATS.items():
    schemathesis.openapi.format(_name, _strategy)


def _document() -> dict[str, Any]:
    return document_of(OPERATIONS, version="", needs_token=False)


def _without_our_formats(part: Any) -> Any:
    """Nobody can say of a value that it has *not* one of them: what is drawn as wrong may be right by chance."""
    if isinstance(part, list):
        return [_without_our_formats(each) for each in part]
    if not isinstance(part, dict):
        return part
    return {key: _without_our_formats(value) for key, value in part.items() if key != "format" or value not in FORMATS}


def _calls(document: dict[str, Any]) -> list[Any]:
    every = schemathesis.openapi.from_dict(document).get_all_operations()
    return [one.ok() for one in every if "stream" not in one.ok().path]


DOCUMENT = _document()
CALLS = _calls(DOCUMENT)
WITHOUT_OUR_FORMATS = {call.label: call for call in _calls(_without_our_formats(DOCUMENT))}


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A real server in a thread of its own, for all tests of this file: strange things pile up in it."""
    loop, stop = asyncio.new_event_loop(), asyncio.Event()
    ready: SimpleNamespace = SimpleNamespace(event=threading.Event(), address="")

    async def run() -> None:
        service = new_service()
        async with service.running():

            def tell(at: str) -> None:
                ready.address = at
                ready.event.set()

            await run_server(
                app_of(service), host="127.0.0.1", port=0, ready=tell, stop=stop, patience=Patience(idle_s_max=60)
            )

    thread = threading.Thread(target=loop.run_until_complete, args=(run(),))
    thread.start()
    assert ready.event.wait(10)
    yield ready.address
    loop.call_soon_threadsafe(stop.set)
    thread.join(10)
    loop.close()


def ask(case: Any, address: str, *, right: bool) -> None:
    response = case.call(base_url=address, timeout=10)
    case.validate_response(response, checks=CHECKS)
    if right and response.status_code in (400, 422):
        refusal = response.json()
        known = refusal["code"] in IN_CONTEXT or any(words in refusal["detail"] for words in BETWEEN_FIELDS)
        assert known, f"right by the document, and refused: {refusal}"


def run(call: Any, address: str, examples: int) -> None:
    limits = settings(
        max_examples=examples,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        database=None,
    )

    @given(case=call.as_strategy(generation_mode=GenerationMode.POSITIVE))
    @limits
    def right_ones(case: Any) -> None:
        ask(case, address, right=True)

    @given(case=WITHOUT_OUR_FORMATS[call.label].as_strategy(generation_mode=GenerationMode.NEGATIVE))
    @limits
    def wrong_ones(case: Any) -> None:
        ask(case, address, right=False)

    right_ones()
    # a call that takes nothing cannot be asked wrongly
    with contextlib.suppress(Unsatisfiable, SkipTest):
        wrong_ones()


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.label)
def test_a_few_requests_of_every_kind(call: Any, address: str) -> None:
    run(call, address, FAST)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.label)
def test_many_requests_of_every_kind(call: Any, address: str) -> None:
    run(call, address, int(os.environ.get("FUZZ_EXAMPLES", SLOW)))
