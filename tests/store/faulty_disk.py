"""A disk that fails or is slow when it shall: SQLite's own way to files, with a finger in between."""

import contextlib
import time
from collections.abc import Iterator

import apsw

_NAME = "faulty"
_REAL = apsw.vfs_names()[0]


class FaultyDisk(apsw.VFS):
    """The default file system of SQLite while it is registered."""

    def __init__(self) -> None:
        self.sync_fails = False
        self.sync_takes_s = 0.0
        self.syncs = 0
        super().__init__(_NAME, _REAL, makedefault=True)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> "_File":
        return _File(self, name, flags)


class _File(apsw.VFSFile):
    def __init__(self, disk: FaultyDisk, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        self._disk = disk
        super().__init__(_REAL, name, flags)

    def xSync(self, flags: int) -> None:
        self._disk.syncs += 1
        if self._disk.sync_takes_s:
            time.sleep(self._disk.sync_takes_s)
        if self._disk.sync_fails:
            error = apsw.IOError("injected")
            error.extendedresult = apsw.SQLITE_IOERR_FSYNC
            raise error
        super().xSync(flags)


@contextlib.contextmanager
def faulty_disk() -> Iterator[FaultyDisk]:
    disk = FaultyDisk()
    try:
        yield disk
    finally:
        disk.unregister()
        apsw.set_default_vfs(_REAL)
