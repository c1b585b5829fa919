"""What a client does, written down before and after: the lines that `virtflow fsck --history --clients` reads."""

import itertools
import json
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self


class History:
    """One client's file."""

    def __init__(self, file: Path, client: str) -> None:
        self.file = file
        self._client = client
        self._ops = itertools.count(1)
        self._lines = file.open("a", buffering=1)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lines.close()

    def call(self, do: str, kind: str, name: str, *, key: str = "") -> int:
        """Before the request leaves; returns the number of the operation."""
        op = next(self._ops)
        self._write(op, "call", do=do, kind=kind, name=name, key=key)
        return op

    def end(self, op: int, phase: str, **told: Any) -> None:
        """`ok`, `fail` (it certainly did nothing) or `info` (nobody knows), and what was answered."""
        self._write(op, phase, **told)

    def _write(self, op: int, phase: str, **more: Any) -> None:
        line = {"at": time.monotonic_ns(), "client": self._client, "op": op, "phase": phase, **more}
        self._lines.write(json.dumps(line) + "\n")
