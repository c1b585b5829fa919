"""Ids that sort by time: fast to insert, and shaped like a version 4 UUID for clients that check."""

from collections.abc import Callable

from virtflow.model.clock import Clock

_SEQUENCE_MAX = 0xFFF
_CHANCE_BYTES = 8
_POOL_IDS = 512


#: a byte with the two bits that mark the variant
_WITH_VARIANT = bytes(number & 0x3F | 0x80 for number in range(256))


class Ids:
    """48 bits of milliseconds, a 12-bit sequence within one, 62 bits of chance."""

    def __init__(self, clock: Clock, entropy: Callable[[int], bytes]) -> None:
        self._clock = clock
        self._entropy = entropy
        self._last_ms = 0
        self._sequence = 0
        self._pool = bytearray()
        self._used = 0

    def next(self) -> bytes:
        now = self._clock.now_ms()
        if now > self._last_ms:
            self._last_ms, self._sequence = now, 0
        elif self._sequence < _SEQUENCE_MAX:
            self._sequence += 1
        else:  # more than 4096 in a millisecond, or a clock that went back: run ahead, stay in order
            self._last_ms, self._sequence = self._last_ms + 1, 0
        used = self._used
        if used >= len(self._pool):
            self._refill()
            used = 0
        self._used = used + _CHANCE_BYTES
        head = (self._last_ms << 16 | 0x4000 | self._sequence).to_bytes(8, "big")
        return head + self._pool[used : used + _CHANCE_BYTES]

    def run_after(self, key: bytes | None) -> None:
        """What comes next sorts after that one, which a clock made that was ahead of ours."""
        if key is not None:
            self._last_ms = max(self._last_ms, int.from_bytes(key[:6], "big") + 1)

    def _refill(self) -> None:
        self._pool = bytearray(self._entropy(_POOL_IDS * _CHANCE_BYTES))
        self._pool[::_CHANCE_BYTES] = self._pool[::_CHANCE_BYTES].translate(_WITH_VARIANT)
