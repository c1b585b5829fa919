"""The strategy from a file: read at the start, read again while running, never a reason to stop."""

import asyncio
import os
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from virtflow.control.strategy_file import BYTES_MAX, FILE_NAME, StrategyFile, read_strategy
from virtflow.main import Service
from virtflow.model.errors import InvalidSetting

KNOWN = ("least_loaded", "best_fit", "hybrid")
Start = Callable[..., AbstractAsyncContextManager[Service]]


class ConfigMap:
    """A folder as the kubelet mounts it: the file is a link into `..data`, which is a link that is swapped."""

    def __init__(self, folder: Path, content: str) -> None:
        self.folder = folder
        self._swaps = 0
        folder.mkdir()
        self.write(content)
        (folder / FILE_NAME).symlink_to(Path("..data") / FILE_NAME)

    def write(self, content: str) -> None:
        self._swaps += 1
        version = self.folder / f"..version_{self._swaps}"
        version.mkdir()
        (version / FILE_NAME).write_text(content)
        fresh = self.folder / "..data_tmp"
        fresh.symlink_to(version.name)
        fresh.rename(self.folder / "..data")


async def until(claim: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not claim():
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("content", ["best_fit", " best_fit\n", "\n\nbest_fit\r\n"])
def test_a_file_holds_a_name_and_nothing_else(tmp_path: Path, content: str) -> None:
    file = tmp_path / "any-name"
    file.write_text(content)

    assert read_strategy(file, KNOWN) == "best_fit"


def test_a_folder_is_a_mounted_config_map(tmp_path: Path) -> None:
    mounted = ConfigMap(tmp_path / "mounted", "hybrid")

    assert read_strategy(mounted.folder, KNOWN) == "hybrid"
    assert read_strategy(mounted.folder / FILE_NAME, KNOWN) == "hybrid"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "not ''"),
        (b"best_fitt", "did you mean best_fit?"),
        (b"best_fit hybrid", "one of least_loaded, best_fit, hybrid"),
        (b"\xff\xfe", "can't decode"),
        (b"x" * (BYTES_MAX + 1), f"larger than {BYTES_MAX} bytes"),
        (None, "No such file"),
    ],
)
def test_what_is_no_strategy_is_refused_with_what_would_be_one(
    tmp_path: Path, content: bytes | None, says: str
) -> None:
    file = tmp_path / FILE_NAME
    if content is not None:
        file.write_bytes(content)

    with pytest.raises(InvalidSetting) as caught:
        read_strategy(file, KNOWN)

    assert caught.value.setting == "strategy_file"
    assert str(file) in caught.value.detail
    assert says in caught.value.remedy


def test_a_named_pipe_keeps_nobody_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / FILE_NAME)

    with pytest.raises(InvalidSetting):
        read_strategy(tmp_path, KNOWN)


async def test_wrong_content_keeps_the_last_good_word_and_says_so_once(tmp_path: Path) -> None:
    file, told = tmp_path / FILE_NAME, list[str]()
    file.write_text("best_fit")
    watched = StrategyFile(file, known=lambda: KNOWN, use=told.append)
    watched.read()

    file.write_text("besser")
    await watched.look()
    await watched.look()

    assert (told, watched.in_use) == ([], "best_fit")
    assert watched.state.startswith("best_fit is kept: strategy_file=")

    file.write_text("hybrid")
    await watched.look()
    await watched.look()

    assert (told, watched.state) == (["hybrid"], "ok")


async def test_a_swapped_config_map_changes_the_strategy_of_a_running_process(start: Start, tmp_path: Path) -> None:
    mounted = ConfigMap(tmp_path / "mounted", "best_fit\n")
    async with start(strategy_file=str(mounted.folder)) as service:
        house = service.house
        assert house.placements.default_strategy == "best_fit"
        assert (await house.summary.fleet()).default_strategy == "best_fit"

        mounted.write("round_robin")
        await until(lambda: house.placements.default_strategy == "round_robin")

        mounted.write("round_robbin")
        await until(lambda: service.strategy_file.state != "ok")
        health = await house.health.check()
        assert health.ok  # a restart would not mend it
        assert "did you mean round_robin?" in health.parts["strategy_file"]
        assert b"virtflow_strategy_file_up 0.0" in await house.metrics.text()
        assert house.placements.default_strategy == "round_robin"

        mounted.write("hybrid")
        await until(lambda: house.placements.default_strategy == "hybrid")
        assert (await house.health.check()).parts["strategy_file"] == "ok"
        assert b"virtflow_strategy_file_up 1.0" in await house.metrics.text()


async def test_a_file_that_goes_away_is_found_again(start: Start, tmp_path: Path) -> None:
    file = tmp_path / "strategy"
    file.write_text("best_fit")
    async with start(strategy_file=str(file)) as service:
        file.unlink()
        await until(lambda: service.strategy_file.state != "ok")
        file.write_text("memory")
        await until(lambda: service.house.placements.default_strategy == "memory")


async def test_a_start_with_a_wrong_file_is_refused(start: Start, tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match="strategy_file="):
        async with start(strategy_file=str(tmp_path / "nowhere")):
            pass
