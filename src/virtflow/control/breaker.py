"""Is it worth sending to a receiver now? Failures in a row open the breaker; then one try at a time finds out."""

from collections.abc import Callable

#: so many failures in a row, of whatever messages
FAILURES_MAX = 5
#: the first wait, doubled with each further failure
WAIT_S, WAIT_S_MAX = 1.0, 600.0


class Breaker:
    """Knows one receiver. It is told the time, and `chance` (0 to 1) spreads those who wait."""

    def __init__(
        self, *, chance: Callable[[], float], failures: int = 0, failing_since_ms: int | None = None, retry_ms: int = 0
    ) -> None:
        self._chance = chance
        #: in a row
        self.failures = failures
        self.failing_since_ms = failing_since_ms
        #: nothing is sent before then
        self.retry_ms = retry_ms

    @property
    def is_open(self) -> bool:
        return self.failures >= FAILURES_MAX

    def lets_pass(self, now_ms: int, *, under_way: int) -> bool:
        """While it is open, one at a time."""
        return now_ms >= self.retry_ms and not (self.is_open and under_way)

    def succeeded(self) -> bool:
        """Says whether that closed it."""
        was_open = self.is_open
        self.failures, self.failing_since_ms, self.retry_ms = 0, None, 0
        return was_open

    def failed(self, now_ms: int) -> None:
        self.failures += 1
        self.failing_since_ms = self.failing_since_ms or now_ms
        if self.is_open:
            wait_s = min(WAIT_S_MAX, WAIT_S * 2 ** min(self.failures - FAILURES_MAX, 20))
            self.pause(now_ms + round(wait_s * (0.5 + self._chance()) * 1000))

    def pause(self, until_ms: int) -> None:
        self.retry_ms = max(self.retry_ms, until_ms)

    def failing_s(self, now_ms: int) -> float:
        return 0.0 if self.failing_since_ms is None else (now_ms - self.failing_since_ms) / 1000
