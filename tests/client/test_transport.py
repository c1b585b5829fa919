"""Requests that are refused, lost, delayed or misunderstood."""

import pytest
from tests.client.servers import CUT, Answer, Scripted, scripted

from virtflow.client import ApiError, BadAnswer, Client, NotReachable, Patience
from virtflow.client.transport import segment, server_address
from virtflow.model.errors import InvalidSetting
from virtflow.model.secret import Secret

VM = {"name": "web-1", "status": "pending", "host": "bm-001"}
BUSY = Answer({"code": "too_many_requests", "detail": "busy"}, 429, {"Retry-After": "3"})
DOWN = Answer({"code": "unavailable", "detail": "the database does not answer"}, 503)
ORDER = {"resources": {"cpu": 1000}}


def keys(server: Scripted) -> list[str | None]:
    return [seen.headers.get("Idempotency-Key") for seen in server.seen]


def test_what_is_busy_is_asked_again_after_the_time_it_names() -> None:
    with scripted(BUSY, DOWN, Answer(VM)) as server, server.client() as client:
        assert client.vms.create(ORDER).host == "bm-001"
    assert server.slept == [3.0, 0.4]


def test_every_repetition_of_a_post_bears_the_same_key_and_every_post_its_own() -> None:
    with scripted(CUT, DOWN, Answer(VM), Answer(VM)) as server, server.client() as client:
        client.vms.create(ORDER)
        client.vms.create(ORDER)
    first, second, third, other = keys(server)
    assert first == second == third != other
    assert first is not None


def test_reading_bears_no_key() -> None:
    with scripted(Answer(VM)) as server, server.client() as client:
        client.vms.get("web-1")
    assert keys(server) == [None]


def test_a_first_attempt_that_is_still_under_way_is_waited_for() -> None:
    under_way = Answer({"code": "idempotency_key_in_use", "detail": "still at it"}, 409)
    with scripted(CUT, under_way, Answer(VM)) as server, server.client() as client:
        assert client.vms.create(ORDER).name == "web-1"


def test_patience_ends_after_so_many_tries() -> None:
    with scripted(DOWN) as server, server.client(patience=Patience(tries_max=3)) as client:
        with pytest.raises(ApiError, match="the database does not answer"):
            client.info()
        assert len(server.seen) == 3


def test_patience_ends_when_the_server_wants_a_longer_wait_than_we_have() -> None:
    with scripted(Answer({"detail": "later"}, 503, {"Retry-After": "3600"})) as server, server.client() as client:
        with pytest.raises(ApiError):
            client.info()
        assert server.slept == []


def test_waits_double_are_jittered_and_bounded() -> None:
    patience = Patience(first_wait_s=0.2, wait_s_max=1.0)
    assert [patience.wait_s(tries, 1.0) for tries in range(5)] == [0.2, 0.4, 0.8, 1.0, 1.0]
    assert patience.wait_s(10**6, 0.0) == 0.5


def test_a_conditional_write_whose_answer_was_lost_is_not_repeated() -> None:
    with scripted(CUT, Answer(VM)) as server, server.client() as client:
        with pytest.raises(NotReachable):
            client.hosts.replace("bm-001", {}, version=3)
        assert [seen.headers["If-Match"] for seen in server.seen] == ['"3"']


def test_an_unconditional_write_whose_answer_was_lost_is_repeated() -> None:
    with scripted(CUT, Answer({"name": "bm-001"})) as server, server.client() as client:
        assert client.hosts.replace("bm-001", {}).name == "bm-001"
        assert "If-Match" not in server.seen[0].headers


def test_nobody_there_is_said_with_the_address_and_the_cause() -> None:
    slept: list[float] = []
    with (
        Client("http://127.0.0.1:1", sleep=slept.append, patience=Patience(connect_tries_max=3)) as client,
        pytest.raises(NotReachable, match=r"http://127\.0\.0\.1:1 does not answer: Connection refused"),
    ):
        client.info()
    assert len(slept) == 2


def test_a_refusal_carries_the_problem_document() -> None:
    document = {
        "type": "about:blank",
        "status": 412,
        "code": "version_mismatch",
        "detail": "host bm-001 changed",
        "remedy": "read it again",
        "errors": [{"pointer": "/capacity/cpu", "detail": "must be a number", "remedy": "such as 4000"}],
        "current_version": 7,
        "something": "new",
    }
    with scripted(Answer(document, 412)) as server, server.client() as client, pytest.raises(ApiError) as caught:
        client.hosts.get("bm-001")
    error = caught.value
    assert (error.status, error.code, error.detail, error.current_version) == (
        412,
        "version_mismatch",
        "host bm-001 changed",
        7,
    )
    assert error.fields[0].pointer == "/capacity/cpu"
    assert error.document == document


@pytest.mark.parametrize("body", [b"<html>Bad Gateway</html>", b"[1]", b'{"errors": 7}', b""])
def test_a_refusal_of_somebody_else_is_told_as_such(body: bytes) -> None:
    with scripted(Answer(body, 502)) as server, server.client() as client, pytest.raises(ApiError) as caught:
        client.info()
    assert caught.value.code == "no_problem_document"
    assert "502 Bad Gateway" in caught.value.detail


def test_an_answer_of_somebody_else_is_told_as_such() -> None:
    with scripted(Answer(b"<html>Hello</html>")) as server, server.client() as client:
        with pytest.raises(BadAnswer, match="is not what a virtflow server says about a host"):
            client.hosts.get("bm-001")
        with pytest.raises(BadAnswer, match="answers no page"):
            list(client.hosts.list())


def test_a_redirect_is_not_followed_with_our_token() -> None:
    away = Answer(status=307, headers={"Location": "http://elsewhere.example/"})
    with (
        scripted(away) as server,
        server.client(token="secret") as client,
        pytest.raises(BadAnswer, match=r"sends us on to http://elsewhere\.example/"),
    ):
        client.info()


def test_the_token_travels_and_is_never_shown() -> None:
    with scripted(Answer({})) as server, server.client(token=Secret("hush")) as client:
        client.info()
        assert server.seen[0].headers["Authorization"] == "Bearer hush"
        assert "hush" not in repr(vars(client)) + repr(vars(client._transport))


def test_a_proxy_is_not_asked_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.delenv("NO_PROXY", raising=False)
    with scripted(Answer({"version": "1"})) as server, server.client() as client:
        assert client.info().version == "1"


def test_parameters_are_left_out_repeated_or_spelled_as_the_api_does() -> None:
    with scripted(Answer({"items": []})) as server, server.client() as client:
        list(client.hosts.list(pool="", labels={"a": "1", "b": "x y"}, cordoned=False, limit=5))
    assert server.seen[0].path == "/v1/hosts?pool=&label=a%3D1&label=b%3Dx+y&cordoned=false&limit=5"


@pytest.mark.parametrize(
    ("name", "path"), [("bm-001", "bm-001"), ("", "-"), ("a/b?c", "a%2Fb%3Fc"), ("..", ".."), ("1:2", "1%3A2")]
)
def test_a_name_is_one_piece_of_a_path(name: str, path: str) -> None:
    assert segment(name) == path


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("https://virtflow.example/prefix/", "https://virtflow.example/prefix"),
        ("http://[::1]:8080", "http://[::1]:8080"),
    ],
)
def test_addresses_may_be_short(text: str, address: str) -> None:
    assert server_address(text) == address


@pytest.mark.parametrize("text", ["", "ftp://x", "http://", "http://x:port", "http://x?y", "http://[::1"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(InvalidSetting, match="server"):
        server_address(text)


def test_a_certificate_file_that_is_none_is_refused(tmp_path: object) -> None:
    with pytest.raises(InvalidSetting, match="ca_file"):
        Client("https://127.0.0.1:1", ca_file=f"{tmp_path}/none.pem")
