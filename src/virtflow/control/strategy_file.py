"""The strategy in a file that somebody may change while we run: a mounted ConfigMap.

What is wrong with the file never stops anybody who runs: the last good word holds, and health and metrics say so.
"""

import asyncio
import difflib
import os
import stat
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from pathlib import Path

import structlog
import watchfiles

from virtflow.model.errors import InvalidSetting

log = structlog.get_logger(__name__)

#: the file in a folder that is named instead of a file: the key of the ConfigMap
FILE_NAME = "SCHEDULING_STRATEGY"
BYTES_MAX = 1024
#: how often the file is read where the system does not tell that it changed
LOOK_S = 5.0
#: a writer makes several changes in a row, and a ConfigMap swaps a link
SETTLE_MS = 50


class StrategyFile:
    """`use` is called with each new good name."""

    def __init__(
        self,
        path: Path,
        *,
        known: Callable[[], Sequence[str]],
        use: Callable[[str], None],
        look_s: float = LOOK_S,
    ) -> None:
        self._path = path
        self._known = known
        self._use = use
        self._look_s = look_s
        self.in_use = ""  # the last good word
        #: "ok", or why an older word holds
        self.state = "ok"

    def read(self) -> str:
        """The name in the file, in use from now on. InvalidSetting says what is wrong with it."""
        self.in_use = read_strategy(self._path, self._known())
        return self.in_use

    async def look(self) -> None:
        """Reads again; what is wrong is noted, and the last good word holds."""
        try:
            # beside the loop: the disk may be slow
            name = await asyncio.to_thread(read_strategy, self._path, self._known())
        except InvalidSetting as error:
            self._note(f"{self.in_use} is kept: {error.detail}; {error.remedy}")
            return
        self._note("ok")
        if name != self.in_use:
            log.info("strategy.changed", was=self.in_use, now=name, file=str(self._path))
            self.in_use = name
            self._use(name)

    def _note(self, state: str) -> None:
        if state == self.state:
            return  # one line for each change of state, not for each look
        self.state = state
        if state == "ok":
            log.info("strategy_file.recovered", file=str(self._path))
        else:
            log.warning("strategy_file.wrong", problem=state)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            async with aclosing(self._wakes()) as wakes:
                async for _ in wakes:
                    await self.look()

    async def _wakes(self) -> AsyncGenerator[None, None]:
        """Whenever something happened in the folder, or time went by.

        The folder is watched, not the file: a ConfigMap swaps a link beside it.
        """
        folder = self._path if await asyncio.to_thread(self._path.is_dir) else self._path.parent
        watch = watchfiles.awatch(
            folder,
            watch_filter=None,
            recursive=False,
            debounce=SETTLE_MS,
            rust_timeout=int(self._look_s * 1000),
            yield_on_timeout=True,
        )
        try:
            async with aclosing(watch):
                yield  # what changed before we watched
                async for _ in watch:
                    yield
        except (OSError, RuntimeError):  # no such folder now, or no watches left on this machine
            await asyncio.sleep(self._look_s)
            yield


def read_strategy(path: Path, known: Sequence[str]) -> str:
    """The name in the file, or in the file SCHEDULING_STRATEGY of the folder."""
    try:
        text = _content(path / FILE_NAME if path.is_dir() else path)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise _wrong(str(path), f"a file that can be read ({why})") from error
    name = text.strip()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise _wrong(str(path), f"a file that holds one of {', '.join(known)}{hint}, not {name[:100]!r}")
    return name


def _content(path: Path) -> str:
    # a named pipe must not keep us waiting for its writer
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError("it is not a file")
        content = file.read(BYTES_MAX + 1)
    if len(content) > BYTES_MAX:
        raise ValueError(f"it is larger than {BYTES_MAX} bytes")
    return content.decode()


def _wrong(path: str, expected: str) -> InvalidSetting:
    return InvalidSetting("strategy_file", path, expected=expected)
