"""What a clock can say. The domain never asks one: it is handed the time."""

from typing import Protocol


class Clock(Protocol):
    def now_ms(self) -> int:
        """Wall time, for what people read. Never used for safety."""
        ...

    def monotonic_s(self) -> float:
        """Time that only goes forward, for leases, time-outs and waits."""
        ...
