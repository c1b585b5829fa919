"""Ids that sort by time: fast to insert, and shaped like a version 4 UUID for clients that check."""

from collections.abc import Callable

from virtflow.model.clock import Clock

_SEQUENCE_MAX = 0xFFF
_CHANCE_BYTES = 8
_POOL_IDS = 512


class Ids:
    """48 bits of milliseconds, a 12-bit sequence within one, 62 bits of chance."""

    def __init__(self, clock: Clock, entropy: Callable[[int], bytes]) -> None:
        self._clock = clock
        self._entropy = entropy
        self._last_ms = 0
        self._sequence = 0
        self._pool = b""
        self._used = 0

    def next(self) -> bytes:
        now = self._clock.now_ms()
        if now > self._last_ms:
            self._last_ms, self._sequence = now, 0
        elif self._sequence < _SEQUENCE_MAX:
            self._sequence += 1
        else:  # more than 4096 in a millisecond, or a clock that went back: run ahead, stay in order
            self._last_ms, self._sequence = self._last_ms + 1, 0
        if self._used >= len(self._pool):
            self._pool, self._used = self._entropy(_POOL_IDS * _CHANCE_BYTES), 0
        chance = int.from_bytes(self._pool[self._used : self._used + _CHANCE_BYTES], "big")
        self._used += _CHANCE_BYTES
        number = (
            self._last_ms << 80
            | (0x4000 | self._sequence) << 64
            | 0x8000_0000_0000_0000
            | chance & 0x3FFF_FFFF_FFFF_FFFF
        )
        return number.to_bytes(16, "big")
