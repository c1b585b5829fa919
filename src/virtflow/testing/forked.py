"""A server that is started again and again, begun where its imports end.

Importing is most of a start. Who kills a server a hundred times forks it from a process that has imported everything
and has done nothing else. From there on all is its own: memory, files, sockets, and its death.
"""

import multiprocessing
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.context import ForkServerProcess
from pathlib import Path

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload([
    "__main__",
    "apsw",
    "asyncpg",
    "uvloop",
    "virtflow.api.app",
    "virtflow.api.server",
    "virtflow.main.doors.serve",
    "virtflow.store.postgres",
    "virtflow.store.sqlite",
    "virtflow.testing.crashable",
])  # fmt: skip


def start_forked(
    run: Callable[[], int], words: Sequence[str], *, environ: Mapping[str, str], log: Path
) -> ForkServerProcess:
    """`run` is a function of a module; it finds `words` where a program finds its own."""
    process = _CONTEXT.Process(target=_run, args=(run, list(words), dict(environ), log), daemon=True)
    process.start()
    return process


def _run(run: Callable[[], int], words: list[str], environ: dict[str, str], log: Path) -> None:
    os.environ.clear()
    os.environ.update(environ)
    sys.argv[1:] = words
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)
    sys.exit(run())
