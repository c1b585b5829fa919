"""The mock node API: the old nodes as they were, the examples that used to fail, and one clear sentence."""

import asyncio
import socket

import httpx
import pytest

from virtflow.inventory.records import read_node
from virtflow.testing.fleets import simulated_fleet
from virtflow.testing.node_api import EXAMPLE_NODES, NodeApi, main, simulated_nodes


async def ask(method: str, path: str, **headers: str) -> httpx.Response:
    async with await NodeApi(EXAMPLE_NODES).start(port=0) as listening:
        port = listening.sockets[0].getsockname()[1]
        async with httpx.AsyncClient(trust_env=False) as client:
            return await client.request(method, f"http://127.0.0.1:{port}{path}", headers=headers)


async def test_it_answers_the_list_of_nodes() -> None:
    answer = await ask("GET", "/nodes")
    assert answer.status_code == 200
    assert answer.json() == [dict(node) for node in EXAMPLE_NODES]


async def test_the_two_old_nodes_are_as_they_were() -> None:
    by_name = {node["name"]: node for node in (await ask("GET", "/nodes")).json()}
    old = {"cpu": 16, "memory": 32768, "storage": 1000, "usage_cpu": 0.3, "usage_mem": 0.4, "pool": "default"}
    assert {**by_name["bm01"], **old, "max_vms": 20, "current_vms": 5} == by_name["bm01"]
    assert by_name["bm02"]["pool"] == "high-performance"


def test_the_examples_of_the_old_readme_find_a_host() -> None:
    """There they failed: the mock had neither the pools nor the node of the examples."""
    by_name = {node["name"]: read_node(dict(node)) for node in EXAMPLE_NODES}
    assert by_name["bm-001"].spec.address == "10.0.0.1"
    assert by_name["bm-001"].spec.pool == "general"

    def has_room(name: str) -> bool:
        spec, reported = by_name[name].spec, by_name[name].reported
        wanted = {"cpu": 8000, "memory": 16_384, "vms": 1}
        return all(spec.capacity[each] - reported.get(each, 0) >= amount for each, amount in wanted.items())

    assert has_room("bm-001")
    assert any(has_room(name) for name, found in by_name.items() if found.spec.pool == "ai" and found.spec.dedicated)


async def test_an_unchanged_list_is_not_sent_again() -> None:
    etag = (await ask("GET", "/nodes")).headers["ETag"]
    answer = await ask("GET", "/nodes", **{"If-None-Match": etag})
    assert (answer.status_code, answer.content) == (304, b"")


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/", 404), ("POST", "/nodes", 405), ("HEAD", "/nodes", 200)]
)
async def test_it_answers_nothing_else(method: str, path: str, status: int) -> None:
    assert (await ask(method, path)).status_code == status


async def test_a_client_that_says_nonsense_does_no_harm() -> None:
    async with await NodeApi(EXAMPLE_NODES).start(port=0) as listening:
        port = listening.sockets[0].getsockname()[1]
        for nonsense in (b"\x00\xff\r\n\r\n", b"x" * 100_000):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(nonsense)
            try:
                writer.write_eof()
                await reader.read()
            except OSError:
                pass
            writer.close()
        async with httpx.AsyncClient(trust_env=False) as client:
            assert (await client.get(f"http://127.0.0.1:{port}/nodes")).status_code == 200


def test_simulated_nodes_are_the_simulated_fleet() -> None:
    assert [read_node(dict(node)).spec for node in simulated_nodes(60)] == simulated_fleet(60)


def test_a_port_that_is_taken_gives_one_clear_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["--port", str(port)]) == 78
    said = capsys.readouterr().err
    assert said == (f"virtflow: port {port} of 127.0.0.1 is taken by another program; choose another one with --port\n")


@pytest.mark.parametrize("words", [["--hosts", "-1"], ["--port", "70000"], ["--hosts", "many"]])
def test_wrong_words_are_refused(words: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert caught.value.code == 2
