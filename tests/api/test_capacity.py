"""Capacity: how many more fit."""

import pytest
from tests.api.conftest import Api, host


@pytest.fixture
async def pools(api: Api) -> None:
    await api.post("/v1/hosts", host("a", capacity={"cpu": 4000, "memory": 8192, "licences": 1}))
    await api.post("/v1/hosts", host("b", capacity={"cpu": 8000, "memory": 8192}, zone="z", labels={"k": "v"}))
    await api.post("/v1/hosts", host("c", pool="ai", capacity={"cpu": 2000, "memory": 8192}, dedicated=True))


@pytest.mark.parametrize(
    ("query", "total", "after_loss"),
    [
        ("cpu=1000", 14, 6),
        ("cpu=1000&pool=default", 12, 4),
        ("cpu=1000&memory=4096", 6, 4),
        ("cpu=1000&resource=licences=1", 1, 0),
        ("cpu=1000&zone=z", 8, 0),
        ("cpu=1000&label=k=v", 8, 0),
        ("cpu=1000&dedicated=required", 2, 0),
        ("cpu=1000&dedicated=false", 14, 6),
        ("cpu=1000&pool=", None, None),
    ],
)
async def test_slots(api: Api, pools: None, query: str, total: int | None, after_loss: int | None) -> None:
    answer = await api.get(f"/v1/capacity?{query}")
    if total is None:
        assert (answer.status, answer.code, answer.pointers) == (422, "no_such_pool", ["?pool"])
    else:
        assert answer.status == 200, answer.body
        assert (answer.json["total"], answer.json["total_after_loss"]) == (total, after_loss)


async def test_each_pool_is_told(api: Api, pools: None) -> None:
    answer = (await api.get("/v1/capacity?cpu=1000")).json
    assert answer["resources"] == {"cpu": 1000, "vms": 1}
    assert answer["pools"] == [
        {"pool": "ai", "hosts": 1, "total": 2, "total_after_loss": 0, "biggest_host": "c"},
        {"pool": "default", "hosts": 2, "total": 12, "total_after_loss": 4, "biggest_host": "b"},
    ]


@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ("", "?cpu"),
        ("cpu=0", "?cpu"),
        ("disk=1", "?cpu"),
        ("cpu=", "?cpu"),
        ("cpu=1e3", "?cpu"),
        ("cpu=-1", "?cpu"),
        ("cpu=1000&cpu=2", "?cpu"),
        ("cpu=9999999999999999999999", "?cpu"),
        ("cpu=1&resource=x", "?resource/0"),
        ("cpu=1&resource=x=1&resource=x=2", "?resource"),
        ("cpu=1&resource=cpu=1", "?resource"),
        ("cpu=1&resource=x=-1", "?resource/0"),
        ("cpu=1&dedicated=maybe", "?dedicated"),
        ("cpu=1&colour=red", "?colour"),
        ("cpu=1&zone=%ff", "?"),
        ("cpu=1&zone=%00", "?zone"),
    ],
)
async def test_what_is_wrong_is_named(api: Api, query: str, pointer: str) -> None:
    answer = await api.get(f"/v1/capacity?{query}")
    assert (answer.status, answer.pointers) == (422, [pointer])
