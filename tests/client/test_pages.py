"""Lists that come in pages."""

import pytest
from tests.client.servers import Answer, scripted

from virtflow.client import BadAnswer


def page(names: list[str], following: str | None, **beside: object) -> Answer:
    return Answer({"items": [{"name": name, "colour": "blue"} for name in names], "next": following, **beside})


def test_pages_are_fetched_while_they_are_read() -> None:
    with scripted(page(["a", "b"], "c1"), page(["c"], None)) as server, server.client() as client:
        hosts = client.hosts.list()
        reading = iter(hosts)
        assert next(reading).name == "a"
        assert len(server.seen) == 1
        assert [host.name for host in reading] == ["b", "c"]
        assert "cursor=c1" in server.seen[1].path
        assert not hosts.has_more


def test_a_limit_cuts_the_list_and_says_so() -> None:
    with scripted(page(["a", "b"], "c1"), page(["c", "d"], "c2")) as server, server.client() as client:
        hosts = client.hosts.list(limit=3)
        assert [host.name for host in hosts] == ["a", "b", "c"]
        assert hosts.has_more
        assert ["limit=3" in server.seen[0].path, "limit=1" in server.seen[1].path] == [True, True]


def test_a_list_that_just_fits_has_no_more() -> None:
    with scripted(page(["a"], None)) as server, server.client() as client:
        hosts = client.hosts.list(limit=1)
        assert [host.name for host in hosts] == ["a"]
        assert not hosts.has_more


def test_the_same_page_again_and_again_ends_in_an_error() -> None:
    with (
        scripted(page(["a"], "same")) as server,
        server.client() as client,
        pytest.raises(BadAnswer, match="again and again"),
    ):
        list(client.hosts.list())


def test_what_stands_beside_the_items_is_kept() -> None:
    with scripted(page(["a"], None, inventory=[{"state": "stale"}])) as server, server.client() as client:
        hosts = client.hosts.list()
        list(hosts)
        assert bytes(hosts.beside["inventory"]) == b'[{"state": "stale"}]'


def test_fields_that_are_not_known_are_kept_as_they_came() -> None:
    with scripted(page(["a"], None)) as server, server.client() as client:
        [host] = client.hosts.list()
        assert host.document == {"name": "a", "colour": "blue"}
