"""Draw something again whenever events say that it may have changed."""

import queue
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from virtflow.client import Client

#: a thousand events in a moment are one picture
CALM_S = 0.3
_CLEAR = "\x1b[H\x1b[2J\x1b[3J"


def draw_on_events(client: "Client", draw: Callable[[], int], types: Sequence[str]) -> int:
    """Until Ctrl-C. On a terminal in place, elsewhere one below the other."""
    after = client.events.range().newest
    news: queue.SimpleQueue[Exception | None] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(client, after, types, news), daemon=True).start()
    while True:
        if sys.stdout.isatty():
            sys.stdout.write(_CLEAR)
        draw()
        sys.stdout.flush()
        _wait(news)
        if not sys.stdout.isatty():
            print()


def _listen(client: "Client", after: int, types: Sequence[str], news: "queue.SimpleQueue[Exception | None]") -> None:
    try:
        for _ in client.events.follow(after=after, types=types):
            news.put(None)
    except Exception as error:  # told to the one who waits, in whose thread it can be reported
        news.put(error)


def _wait(news: "queue.SimpleQueue[Exception | None]") -> None:
    error = news.get()
    time.sleep(CALM_S)
    while error is None and not news.empty():
        error = news.get()
    if error is not None:
        raise error
