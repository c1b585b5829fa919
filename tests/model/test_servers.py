"""URLs that name several servers."""

import pytest

from virtflow.model.servers import each_server


def test_each_server_gets_a_url_of_its_own_with_everything_else() -> None:
    assert each_server("postgresql://me:a%40b@db-1:5433,db-2,[::1]:7/name?x=1") == [
        "postgresql://me:a%40b@db-1:5433/name?x=1",
        "postgresql://me:a%40b@db-2/name?x=1",
        "postgresql://me:a%40b@[::1]:7/name?x=1",
    ]


@pytest.mark.parametrize("url", ["postgresql://db/name", "postgresql:///name?host=/run", "postgresql://me@db:1/name"])
def test_one_server_stays_as_it_is(url: str) -> None:
    assert each_server(url) == [url]


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://a:0/n",
        "postgresql://a:1,b:0/n",
        "postgresql://a:x/n",
        "postgresql://a,,b/n",
        "postgresql://a:1,/n",
    ],
)
def test_what_names_no_server_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"[Pp]ort|server"):
        each_server(url)
