"""Nothing is connected that is not public: literals, names, names that change their mind, and redirects."""

import asyncio
import ipaddress
import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.events.urls import INSIDE, INSIDE_6, OUTSIDE, OUTSIDE_6, corpus, embedded

from virtflow.events.guard import Forbidden, Guard, Unresolved
from virtflow.events.post import Mailer, Post
from virtflow.model.address import why_not
from virtflow.model.url import read_url
from virtflow.testing.clock import ManualClock
from virtflow.testing.receiver import Behaviour, receiver

LOOPBACK = (ipaddress.ip_network("127.0.0.0/8"),)


def guard(*answers: Sequence[str], allowed: Sequence[ipaddress.IPv4Network] = ()) -> Guard:
    """Whose names have these addresses, one answer after the other, and the last for ever."""
    left = list(answers)

    async def resolve(host: str) -> Sequence[str]:
        return left.pop(0) if len(left) > 1 else left[0]

    return Guard(allowed=allowed, resolve=resolve)


@pytest.mark.parametrize("address", [*INSIDE, *INSIDE_6])
def test_what_is_not_public_is_refused_with_a_reason(address: str) -> None:
    assert why_not(ipaddress.ip_address(address))


@pytest.mark.parametrize("address", INSIDE + OUTSIDE)
def test_an_address_inside_another_is_refused_whatever_it_is(address: str) -> None:
    for one in embedded(address):
        assert why_not(ipaddress.ip_address(one)), one


@pytest.mark.parametrize("address", [*OUTSIDE, *OUTSIDE_6])
def test_what_is_public_passes(address: str) -> None:
    assert why_not(ipaddress.ip_address(address)) is None


@given(st.ip_addresses())
def test_whatever_python_calls_private_is_refused_too(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    if not address.is_global or address.is_multicast:
        assert why_not(address)


def test_a_setting_lets_networks_pass_and_nothing_beside_them() -> None:
    assert why_not(ipaddress.ip_address("127.0.0.1"), LOOPBACK) is None
    assert why_not(ipaddress.ip_address("10.0.0.1"), LOOPBACK)
    assert why_not(ipaddress.ip_address("::ffff:127.0.0.1"), LOOPBACK)
    assert why_not(ipaddress.ip_address("::1"), LOOPBACK)


async def test_no_url_of_the_corpus_gets_an_address() -> None:
    """Whatever a name would resolve to is public here, so that only the spelling can save us."""
    judge, urls = guard(["93.184.215.14"]), corpus()
    assert len(urls) > 5000
    for text in urls:
        try:
            url = read_url(text)
        except ValueError:
            continue
        with pytest.raises(Forbidden):
            await judge.addresses(url)


@pytest.mark.parametrize(
    "text",
    [
        "https://hooks.example.net/virtflow?token=a%20b",
        "http://8.8.8.8:8080",
        "https://[2606:4700:4700::1111]:8443/x",
        "HTTPS://Hooks.Example.NET/Path",
        "http://a_b.example/~x/(y);z=1,2@3",
        "http://xn--bcher-kva.example/",
    ],
)
async def test_ordinary_urls_are_understood(text: str) -> None:
    url = read_url(text)
    assert await guard(["93.184.215.14"]).addresses(url)
    assert url.scheme in {"http", "https"}
    assert url.host == url.host.lower()
    assert url.target.startswith("/")


@pytest.mark.parametrize(
    "text",
    [
        "", "http://", "https:///x", "hooks.example.net", "http://a..b/", "http://-a.b/", "http://a b/", "http://a/b c",
        "http://a:0/", "http://a:65536/", "http://a:99999999/", "http://a:x/", "http://a/#b", "http://ä.example/",
        "http://[::1/", "http://[::g]/", "http://[1.2.3.4]/", "http://1.2.3/", "http://1.2.3.4.5/", "http://a.0x1/",
        "javascript:alert(1)", "http://a/" + "b" * 2048, "http://" + "a" * 64 + "/", "http://a.example./",
    ],
)  # fmt: skip
def test_what_can_be_misread_is_refused_in_words(text: str) -> None:
    with pytest.raises(ValueError, match=r"^must "):
        read_url(text)


@pytest.mark.parametrize("inside", ["10.0.0.1", "::1", "64:ff9b::a9fe:a9fe", "fe80::1%2", "not an address"])
async def test_one_bad_address_among_good_ones_is_enough(inside: str) -> None:
    for answer in itertools.permutations([inside, *OUTSIDE[:2]]):
        with pytest.raises(Forbidden) as refused:
            await guard(answer).addresses(read_url("http://mixed.example/"))
        assert "VIRTFLOW_WEBHOOK_ALLOW" in refused.value.remedy


async def test_a_name_without_addresses_is_said_to_have_none() -> None:
    with pytest.raises(Unresolved):
        await guard([]).addresses(read_url("http://nobody.example/"))


async def test_the_systems_resolver_is_asked_by_default() -> None:
    assert set(
        await Guard(allowed=(*LOOPBACK, ipaddress.ip_network("::1"))).addresses(read_url("http://localhost/"))
    ) <= {
        "127.0.0.1",
        "::1",
    }
    with pytest.raises(Forbidden):
        await Guard().addresses(read_url("http://localhost/"))


# ── what is really connected ──────────────────────────────────────────────────────────────────────


async def sent(judge: Guard, url: str) -> str:
    """The code of a post to that URL."""
    mailer = Mailer(judge, clock=ManualClock())
    try:
        return (await mailer.send(Post(url=url, message_id="m", body=b"{}"), line="a")).code
    finally:
        await mailer.close()


async def test_a_name_is_resolved_once_and_that_address_is_connected() -> None:
    """DNS rebinding: the second answer would lead inside, and is never asked for."""
    async with receiver() as hook:
        asked = guard(["127.0.0.1"], ["127.0.0.2"], allowed=[ipaddress.ip_network("127.0.0.1/32")])
        mailer = Mailer(asked, clock=ManualClock())
        reply = await mailer.send(
            Post(url=f"http://rebind.example:{hook.port}/in", message_id="m", body=b"{}"), line="a"
        )
        assert reply.is_delivered
        assert hook.messages[0].headers["host"] == f"rebind.example:{hook.port}"
        await mailer.forget("a")
        again = await mailer.send(
            Post(url=f"http://rebind.example:{hook.port}/in", message_id="m", body=b"{}"), line="a"
        )
        assert again.code == "forbidden_address"
        assert hook.connections == 1
        await mailer.close()


async def test_nobody_inside_is_connected_by_any_url_of_the_corpus() -> None:
    """A receiver listens where each of them leads; nobody ever comes."""
    async with receiver() as hook:
        names = guard(["127.0.0.1"])
        hosts = [
            "127.0.0.1",
            "127.1",
            "2130706433",
            "0x7f.1",
            "0177.0.0.1",
            "localhost",
            "[::ffff:127.0.0.1]",
            "[::1]",
            "0.0.0.0",
        ]
        for host in hosts:
            for text in (f"http://{host}:{hook.port}/", f"https://{host}:{hook.port}/"):
                try:
                    read_url(text)
                except ValueError:
                    continue
                assert await sent(names, text) == "forbidden_address", text
        await asyncio.sleep(0)
        assert hook.connections == 0


async def test_a_redirect_is_not_followed() -> None:
    async with receiver(behaviour=Behaviour.REDIRECT) as hook:
        assert await sent(Guard(allowed=LOOPBACK), hook.url) == "redirect_refused"
        assert len(hook.messages) == 1


async def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async with receiver() as proxy, receiver() as hook:
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        assert await sent(Guard(allowed=LOOPBACK), hook.url) == ""
        assert (proxy.connections, hook.connections) == (0, 1)
