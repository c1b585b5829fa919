"""A clock that moves only when told to."""


class ManualClock:
    """Both times advance together; `set_wall` moves the wall clock alone, as an administrator may."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._wall_ms = now_ms
        self._monotonic_s = 0.0

    def now_ms(self) -> int:
        return self._wall_ms

    def monotonic_s(self) -> float:
        return self._monotonic_s

    def advance(self, seconds: float) -> None:
        if seconds < 0:
            raise ValueError("time does not go backwards; set_wall moves the wall clock alone")
        self._monotonic_s += seconds
        self._wall_ms += round(seconds * 1000)

    def set_wall(self, now_ms: int) -> None:
        self._wall_ms = now_ms
