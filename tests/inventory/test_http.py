"""A node API that misbehaves in every way costs one fetch, never more."""

import asyncio
import json
import time

import pytest
from tests.inventory.servers import (
    Answer,
    answering,
    breaking_off,
    endless,
    garbage,
    server,
    silent,
    trickling,
)

from virtflow.inventory.http import HttpInventory
from virtflow.model.errors import Unavailable
from virtflow.model.secret import Secret
from virtflow.testing.node_api import EXAMPLE_NODES, NodeApi

GOOD = [{"name": "bm-1", "cpu": 4, "memory": 1024}]


async def why_not(answer: Answer, *, timeout_s: float = 5.0, bytes_max: int = 2**20) -> str:
    async with server(answer) as url, HttpInventory(url, timeout_s=timeout_s, bytes_max=bytes_max) as inventory:
        with pytest.raises(Unavailable) as caught:
            await inventory.fetch()
    assert caught.value.error_code == "inventory_unavailable"
    assert caught.value.remedy
    return caught.value.detail


@pytest.mark.parametrize("answer", [trickling, silent])
async def test_a_slow_server_is_let_go_after_the_time_out_in_total(answer: Answer) -> None:
    start_s = time.monotonic()
    assert "within 0.2 s" in await why_not(answer, timeout_s=0.2)
    assert time.monotonic() - start_s < 3


async def test_a_huge_answer_is_cut_off() -> None:
    assert "larger than 1048576 bytes" in await why_not(endless)


async def test_an_answer_that_breaks_off_is_no_answer() -> None:
    assert await why_not(breaking_off)


async def test_what_is_no_http_is_no_answer() -> None:
    assert await why_not(garbage)


async def test_a_redirect_is_not_followed_but_named() -> None:
    redirect = answering(b"", status="302 Found", headers="Location: http://elsewhere/nodes\r\n")
    detail = await why_not(redirect)
    assert "redirects to 'http://elsewhere/nodes'" in detail
    assert "VIRTFLOW_INVENTORY_URL" in detail


@pytest.mark.parametrize("status", ["500 Internal Server Error", "404 Not Found", "204 No Content", "304 Not Modified"])
async def test_any_other_status_is_no_answer(status: str) -> None:
    assert f"it answered {status}" in await why_not(answering(b"", status=status))


async def test_html_is_shown_by_its_beginning() -> None:
    detail = await why_not(answering(b"<html><body>Please log in</body></html>"))
    assert "not JSON" in detail
    assert "it begins with '<html><body>Please log in" in detail


async def test_a_compressed_answer_is_refused_unread() -> None:
    assert "compressed" in await why_not(answering(b"\x1f\x8b", headers="Content-Encoding: gzip\r\n"))


async def test_what_is_not_utf8_is_no_answer() -> None:
    assert "not UTF-8" in await why_not(answering(b'[{"name": "\xff"}]'))


async def test_json_that_is_no_list_says_what_is_expected() -> None:
    detail = await why_not(answering({"hosts": []}))
    assert 'neither a list of nodes nor {"nodes": […]} or {"items": […]}' in detail


async def test_a_server_that_is_not_there_is_unavailable() -> None:
    async with server(silent) as url:
        pass
    async with HttpInventory(url) as inventory:
        with pytest.raises(Unavailable, match="inventory http"):
            await inventory.fetch()


async def test_after_a_failure_the_next_fetch_succeeds() -> None:
    answers = [answering(b"", status="500 Oops"), answering(GOOD)]

    async def in_turn(head: str, writer: asyncio.StreamWriter) -> None:
        await answers.pop(0)(head, writer)

    async with server(in_turn) as url, HttpInventory(url) as inventory:
        with pytest.raises(Unavailable):
            await inventory.fetch()
        assert len((await inventory.fetch()).hosts) == 1


async def test_an_unchanged_answer_is_not_sent_again() -> None:
    heads: list[str] = []

    async def conditional(head: str, writer: asyncio.StreamWriter) -> None:
        heads.append(head.lower())
        if 'if-none-match: "v1"' in head.lower():
            await answering(b"", status="304 Not Modified")(head, writer)
        else:
            await answering(GOOD, headers='ETag: "v1"\r\n')(head, writer)

    async with server(conditional) as url, HttpInventory(url) as inventory:
        first, second = await inventory.fetch(), await inventory.fetch()
    assert first is second
    assert ["if-none-match" in head for head in heads] == [False, True]


async def test_a_changed_answer_of_the_node_api_is_seen() -> None:
    api = NodeApi(EXAMPLE_NODES)
    async with await api.start(port=0) as listening:
        url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/nodes"
        async with HttpInventory(url) as inventory:
            before = await inventory.fetch()
            assert await inventory.fetch() is before
            api.set_nodes(EXAMPLE_NODES[:1])
            assert len((await inventory.fetch()).hosts) == 1


async def test_the_token_goes_to_the_node_api_and_nowhere_else() -> None:
    heads: list[str] = []

    async def listen(head: str, writer: asyncio.StreamWriter) -> None:
        heads.append(head)
        await answering(b"", status="401 Unauthorized")(head, writer)

    async with server(listen) as url, HttpInventory(url, token=Secret("s3cret")) as inventory:
        with pytest.raises(Unavailable) as caught:
            await inventory.fetch()
    assert "Bearer s3cret" in heads[0]
    assert "s3cret" not in f"{caught.value.detail} {inventory.location}"


async def test_a_password_in_the_url_is_never_shown() -> None:
    async with HttpInventory("http://me:s3cret@127.0.0.1:1/nodes?api_key=s3cret", timeout_s=1) as inventory:
        with pytest.raises(Unavailable) as caught:
            await inventory.fetch()
    assert "s3cret" not in f"{caught.value.detail} {inventory.location}"


async def test_proxies_of_the_environment_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    async with server(answering(GOOD)) as url, HttpInventory(url) as inventory:
        assert len((await inventory.fetch()).hosts) == 1


async def test_the_loop_stays_free_while_a_large_answer_is_read() -> None:
    body = json.dumps([{"name": f"bm-{n}", "cpu": 4} for n in range(60_000)]).encode()
    late_s = [0.0]

    async def watch() -> None:
        while True:
            start_s = time.monotonic()
            await asyncio.sleep(0.01)
            late_s[0] = max(late_s[0], time.monotonic() - start_s)

    async with server(answering(body)) as url, HttpInventory(url) as inventory:
        watching = asyncio.create_task(watch())
        began_s = time.monotonic()
        assert len((await inventory.fetch()).hosts) == 60_000
        took_s = time.monotonic() - began_s
        await asyncio.sleep(0.05)  # whoever watches says how long he was kept
        watching.cancel()
    assert late_s[0] < took_s * 0.8  # read in the loop, it would be all of it
