"""Files as people and machines write them: by hand, by renaming, by swapping links, and half."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from virtflow.inventory import file as file_module
from virtflow.inventory.file import FileInventory
from virtflow.model.errors import Unavailable
from virtflow.model.pool import PoolSpec

YAML = """
pools:
- {name: general, overcommit: {cpu: 4.0}, strategy: least_loaded}
- {name: "", accepts_work: false}
hosts:
- name: bm-1
  pool: general
  capacity: {cpu: 64000, memory: 262144, disk: 2000}
  labels: {ssd: "true"}
- {name: bm-2, cpu: 16, memory: 32768}
"""
TOML = """
[[pools]]
name = "general"
overcommit = {cpu = 4.0}
strategy = "least_loaded"

[[pools]]
name = ""
accepts_work = false

[[hosts]]
name = "bm-1"
pool = "general"
capacity = {cpu = 64000, memory = 262144, disk = 2000}
labels = {ssd = "true"}

[[hosts]]
name = "bm-2"
cpu = 16
memory = 32768
"""
SOON_S = 10.0


def inventory(folder: Path, text: str | bytes, name: str = "hosts.yaml") -> FileInventory:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return FileInventory(path, look_s=0.1)


async def why_not(of: FileInventory) -> str:
    with pytest.raises(Unavailable) as caught:
        await of.fetch()
    return caught.value.detail


async def test_hosts_and_pools_are_read_from_yaml_and_toml_alike(tmp_path: Path) -> None:
    fetched = await inventory(tmp_path, YAML).fetch()
    assert [found.spec.name for found in fetched.hosts] == ["bm-1", "bm-2"]
    assert fetched.hosts[1].spec.capacity == {"cpu": 16_000, "memory": 32_768, "vms": 1}
    assert fetched.pools == (
        PoolSpec(name="general", overcommit={"cpu": 4.0}, strategy="least_loaded"),
        PoolSpec(name="", accepts_work=False),
    )
    assert await inventory(tmp_path, TOML, "hosts.toml").fetch() == fetched


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("- name: [", "not YAML: did not find expected node content at line"),
        ("hosts: [a: b: c]", "line 1, column"),
        ("- name: a\n  name: b\n", "the key 'name' comes twice at line 2, column 3"),
        ("nothing: here\n", "it has 'nothing' beside hosts and pools"),
        ("hosts: 7\n", "hosts must be a list"),
        ("just words", "it must be a list of hosts"),
        (
            "pools:\n- {name: general, overcomit: {cpu: 2}}\n",
            "pool #0: it has an unknown field 'overcomit'; did you mean",
        ),
        ("pools: [{name: a}, {name: a}]", "pool #1: another one has the same name"),
        ("pools: [{strategy: x}]", "pool #0: it has no name"),
        ("- " * 1000, "nested more than 32 deep"),
        ("[" * 1000, "nested more than 32 deep"),
        ("- !!python/object/apply:os.system [true]", "could not determine a constructor"),
        ("a: b\n---\nc: d\n", "another document"),
        (b"- name: \xff", "not UTF-8"),
        ("", "it is empty"),
        ("  \n\n", "it is empty"),
        ("# only words\n", "it must be a list"),
    ],
)
async def test_a_broken_file_says_what_and_where(tmp_path: Path, text: str | bytes, says: str) -> None:
    assert says in await why_not(inventory(tmp_path, text))


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("a.toml", "hosts = [\n", "not TOML"),
        ("a.json", '{"hosts": [], "hosts": []}', "the key 'hosts' comes twice"),
        ("a.txt", "[]", "must end in one of .yaml, .yml, .json, .toml"),
    ],
)
async def test_each_format_says_what_is_wrong_in_its_own_words(tmp_path: Path, name: str, text: str, says: str) -> None:
    assert says in await why_not(inventory(tmp_path, text, name))


async def test_yaml_words_that_turn_into_something_else_are_told_with_the_remedy(tmp_path: Path) -> None:
    fetched = await inventory(tmp_path, "- {name: bm-1, zone: no}\n- {name: 007}\n- {name: bm-2}\n").fetch()
    assert [found.spec.name for found in fetched.hosts] == ["bm-2"]
    assert "zone is false; it must be text (in YAML: put it in quotes)" in fetched.skipped[0].problem


async def test_what_is_no_readable_file_is_unavailable(tmp_path: Path) -> None:
    assert "there is no such file" in await why_not(FileInventory(tmp_path / "none.yaml"))
    (tmp_path / "folder.yaml").mkdir()
    assert await why_not(FileInventory(tmp_path / "folder.yaml"))
    os.mkfifo(tmp_path / "pipe.yaml")
    assert "not a file" in await asyncio.wait_for(why_not(FileInventory(tmp_path / "pipe.yaml")), 5)


async def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "hosts.json"
    path.write_text("[" + " " * 5000 + "]")
    assert "larger than 1000 bytes" in await why_not(FileInventory(path, bytes_max=1000))


# Watching.


@asynccontextmanager
async def knocks_of(of: FileInventory) -> AsyncIterator[asyncio.Event]:
    knocked = asyncio.Event()

    async def follow() -> None:
        async for _ in of.changes():
            knocked.set()

    following = asyncio.create_task(follow())
    await asyncio.sleep(0.05)
    try:
        yield knocked
    finally:
        following.cancel()


async def knocks(knocked: asyncio.Event) -> None:
    await asyncio.wait_for(knocked.wait(), SOON_S)
    knocked.clear()


async def test_writing_replacing_and_restoring_the_file_each_knock(tmp_path: Path) -> None:
    hosts = inventory(tmp_path, "- name: bm-1\n")
    path = tmp_path / "hosts.yaml"
    await hosts.fetch()
    async with knocks_of(hosts) as knocked:
        path.write_text("- name: bm-1\n- name: bm-2\n")
        await knocks(knocked)
        assert len((await hosts.fetch()).hosts) == 2
        (tmp_path / ".hosts.yaml.new").write_text("- name: bm-3\n")
        (tmp_path / ".hosts.yaml.new").rename(path)
        await knocks(knocked)
        assert len((await hosts.fetch()).hosts) == 1
        path.unlink()
        await knocks(knocked)
        await why_not(hosts)
        path.write_text("- name: bm-4\n")
        await knocks(knocked)
        assert [found.spec.name for found in (await hosts.fetch()).hosts] == ["bm-4"]


async def test_a_link_swapped_as_kubernetes_does_it_knocks(tmp_path: Path) -> None:
    for version in ("1", "2"):
        (tmp_path / f"..v{version}").mkdir()
        (tmp_path / f"..v{version}" / "hosts.yaml").write_text(f"- name: bm-{version}\n")
    (tmp_path / "..data").symlink_to("..v1")
    (tmp_path / "hosts.yaml").symlink_to("..data/hosts.yaml")
    hosts = FileInventory(tmp_path / "hosts.yaml")
    await hosts.fetch()
    async with knocks_of(hosts) as knocked:
        (tmp_path / "..data_tmp").symlink_to("..v2")
        (tmp_path / "..data_tmp").rename(tmp_path / "..data")
        await knocks(knocked)
    assert [found.spec.name for found in (await hosts.fetch()).hosts] == ["bm-2"]


async def test_a_file_that_nobody_touched_does_not_knock(tmp_path: Path) -> None:
    hosts = inventory(tmp_path, "- name: bm-1\n")
    await hosts.fetch()
    async with knocks_of(hosts) as knocked:
        (tmp_path / "other").write_text("x")
        await asyncio.sleep(0.6)
        assert not knocked.is_set()


async def test_a_change_between_reading_and_following_is_not_missed(tmp_path: Path) -> None:
    hosts = inventory(tmp_path, "- name: bm-1\n")
    await hosts.fetch()
    (tmp_path / "hosts.yaml").write_text("- name: bm-2\n")
    async with knocks_of(hosts) as knocked:
        await knocks(knocked)


async def test_a_folder_that_comes_later_or_comes_back_is_watched(tmp_path: Path) -> None:
    folder = tmp_path / "later"
    hosts = FileInventory(folder / "hosts.yaml", look_s=0.1)
    await why_not(hosts)
    async with knocks_of(hosts) as knocked:
        folder.mkdir()
        (folder / "hosts.yaml").write_text("- name: bm-1\n")
        await knocks(knocked)
        await hosts.fetch()
        folder.rename(tmp_path / "old")
        await knocks(knocked)
        await why_not(hosts)
        folder.mkdir()
        (folder / "hosts.yaml").write_text("- name: bm-2\n")
        await knocks(knocked)
        assert [found.spec.name for found in (await hosts.fetch()).hosts] == ["bm-2"]


async def test_where_watching_is_impossible_the_file_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def no_watches_left(*_: object, **__: object) -> AsyncIterator[None]:
        raise OSError("inotify watch limit reached")
        yield

    monkeypatch.setattr(file_module.watchfiles, "awatch", no_watches_left)
    hosts = inventory(tmp_path, "- name: bm-1\n")
    await hosts.fetch()
    async with knocks_of(hosts) as knocked:
        (tmp_path / "hosts.yaml").write_text("- name: bm-2\n")
        await knocks(knocked)
