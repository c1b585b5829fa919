"""Which call a path means, and what is said when it means none."""

from collections.abc import Mapping
from typing import Any

import pytest

from virtflow.api.errors import NoSuchRoute, WrongMethod
from virtflow.api.exchange import UNMATCHED, Exchange
from virtflow.api.router import Endpoint, Router
from virtflow.control.orders import Rendered


def exchange(method: str, path: str, sent: list[Any] | None = None) -> Exchange:
    async def send(message: Any) -> None:
        if sent is not None:
            sent.append(message)

    async def receive() -> Any: ...

    scope = {"method": method, "path": path, "headers": []}
    return Exchange(scope, receive, send, new_request_id=lambda: "r1")


def told(name: str) -> Endpoint:
    async def endpoint(_exchange: Exchange, names: Mapping[str, str]) -> Rendered:
        return 200, f"{name} {dict(names)}".encode(), ()

    return endpoint


@pytest.fixture
def router() -> Router:
    made = Router()
    made.add("GET", "/things/{name}", told("read"))
    made.add("DELETE", "/things/{name}", told("delete"))
    made.add("POST", "/things/batch", told("batch"))
    made.add("GET", "/things", told("list"))
    made.add("POST", "/things/{name}/parts/{part}", told("part"))
    return made


async def answer(router: Router, method: str, path: str) -> tuple[str, str]:
    sent: list[Any] = []
    one = exchange(method, path, sent)
    await router.answer(one)
    return sent[-1]["body"].decode(), one.route


@pytest.mark.parametrize(
    ("method", "path", "body", "route"),
    [
        ("GET", "/things", "list {}", "/things"),
        ("GET", "/things/a", "read {'name': 'a'}", "/things/{name}"),
        ("DELETE", "/things/a b", "delete {'name': 'a b'}", "/things/{name}"),
        ("POST", "/things/batch", "batch {}", "/things/batch"),
        ("GET", "/things/batch", "read {'name': 'batch'}", "/things/{name}"),
        ("POST", "/things/a/parts/2", "part {'name': 'a', 'part': '2'}", "/things/{name}/parts/{part}"),
    ],
)
async def test_a_path_as_it_stands_goes_before_a_template(
    router: Router, method: str, path: str, body: str, route: str
) -> None:
    assert await answer(router, method, path) == (body, route)


@pytest.mark.parametrize(
    "path", ["/", "", "/thing", "/things/", "/things/a/", "/things/a/b", "/things/a/parts/", "//things"]
)
async def test_where_nothing_lives_it_says_where_to_look(router: Router, path: str) -> None:
    one = exchange("GET", path)
    with pytest.raises(NoSuchRoute) as refused:
        await router.answer(one)
    assert refused.value.remedy == "/docs shows what there is"
    assert one.route == UNMATCHED


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/things", ["GET", "HEAD"]),
        ("POST", "/things/a", ["DELETE", "GET", "HEAD"]),
        ("PUT", "/things/batch", ["DELETE", "GET", "HEAD", "POST"]),
        ("GET", "/things/a/parts/2", ["POST"]),
    ],
)
async def test_another_method_is_told_which_there_are(
    router: Router, method: str, path: str, allowed: list[str]
) -> None:
    with pytest.raises(WrongMethod) as refused:
        await router.answer(exchange(method, path))
    assert list(refused.value.allowed) == allowed


async def test_an_answer_may_be_sent_piece_by_piece(router: Router) -> None:
    async def stream(one: Exchange) -> None:
        await one.send({"piece": 1})
        await one.send({"piece": 2})

    async def endpoint(_exchange: Exchange, _names: Mapping[str, str]) -> Any:
        return stream

    router.add("GET", "/stream", endpoint)
    sent: list[Any] = []
    await router.answer(exchange("GET", "/stream", sent))
    assert [message["piece"] for message in sent] == [1, 2]
