"""What takes a while says so: before, on the way, and how long it took."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from virtflow.cli.screen import Screen, screen_of


def title(text: str) -> str:
    return screen_of().paint(text, "bold")


class Step:
    """What is going on; who knows how many it placed says so."""

    count: int | None = None


@contextmanager
def step(what: str) -> Iterator[Step]:
    """`what … 1.2 s`, said before and after, so that a wait is no riddle."""
    done, began = Step(), time.monotonic()
    print(f"{what} … ", end="", flush=True)
    try:
        yield done
    except BaseException:
        print()
        raise
    took_s = max(time.monotonic() - began, 1e-6)
    rate = "" if done.count is None else f", {done.count:,} placed: {done.count / took_s:,.0f}/s"
    print(f"{took_s:.2f} s{rate}")


class Progress:
    """One line with a bar, redrawn on a terminal; elsewhere only its end."""

    def __init__(self, screen: Screen, what: str, total: int) -> None:
        self._screen, self._what, self._total = screen, what, total
        self._count, self._began, self._drawn_at = 0, time.monotonic(), 0.0

    def advance(self) -> None:
        self._count += 1
        now = time.monotonic()
        if self._screen.is_terminal and now - self._drawn_at > 0.1:
            self._drawn_at = now
            print(f"\r{self._line()}", end="", flush=True)

    def end(self) -> None:
        print(f"\r{self._line()}" if self._screen.is_terminal else self._line())

    def _line(self) -> str:
        from virtflow.cli.fleet import bar

        rate = self._count / max(time.monotonic() - self._began, 1e-6)
        fill = bar(self._count / self._total, 20, self._screen)
        return f"{self._what}  {fill} {self._count:,}/{self._total:,}, {rate:,.0f}/s"
