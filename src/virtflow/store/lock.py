"""One process per database file, and whether the last one said goodbye."""

import fcntl
import os
from pathlib import Path
from typing import NamedTuple

_CLOSED = b"closed\n"


class Held(Exception):
    """Somebody has it; `owner` is what that process wrote into it."""

    def __init__(self, owner: str) -> None:
        super().__init__(owner)
        self.owner = owner


class Mark(NamedTuple):
    """What a lock says to those who only look."""

    #: empty when nobody holds it
    owner: str
    was_left_cleanly: bool


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

    @staticmethod
    def look(path: Path) -> "Mark":
        """Who holds it and what is written there, without touching the lock: that could refuse a process that starts.

        OSError: it cannot be read.
        """
        try:
            text = path.read_bytes()[:100]
        except FileNotFoundError:
            return Mark(owner="", was_left_cleanly=True)
        held = _is_locked(path)
        owner = (text.decode(errors="replace").strip() or "a process") if held else ""
        return Mark(owner=owner, was_left_cleanly=text == _CLOSED)

    def leave(self, *, cleanly: bool) -> None:
        if cleanly:
            self._write(_CLOSED)
        os.close(self._descriptor)

    def _write(self, text: bytes) -> None:
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, text, 0)
        os.fsync(self._descriptor)  # after a power cut it must still say that nobody said goodbye


def _is_locked(path: Path) -> bool:
    """By the list of the kernel: `1: FLOCK ADVISORY WRITE <process> <major>:<minor>:<inode> 0 EOF`."""
    inode = str(path.stat().st_ino)
    lines = Path("/proc/locks").read_text().splitlines()
    return any(line.split()[1] == "FLOCK" and line.split()[5].rpartition(":")[2] == inode for line in lines)
