"""One process per database file, and whether the last one said goodbye."""

import fcntl
import os
from pathlib import Path

_CLOSED = b"closed\n"


class Held(Exception):
    """Somebody has it; `owner` is what that process wrote into it."""

    def __init__(self, owner: str) -> None:
        super().__init__(owner)
        self.owner = owner


class FileLock:
    """Held until the process ends, however it ends: the kernel lets go of it."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            owner = os.pread(self._descriptor, 100, 0).decode(errors="replace").strip()
            os.close(self._descriptor)
            raise Held(owner) from error
        self.was_left_cleanly = os.pread(self._descriptor, len(_CLOSED), 0) == _CLOSED
        self._write(f"process {os.getpid()}\n".encode())

    def leave(self, *, cleanly: bool) -> None:
        if cleanly:
            self._write(_CLOSED)
        os.close(self._descriptor)

    def _write(self, text: bytes) -> None:
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, text, 0)
        os.fsync(self._descriptor)  # after a power cut it must still say that nobody said goodbye
