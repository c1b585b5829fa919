"""Can this machine serve: files, memory, clocks?"""

import os
import resource
from collections.abc import Iterator, Sequence
from pathlib import Path

from virtflow.config import Config
from virtflow.main.parts import node_of
from virtflow.model.finding import Finding, ok, warn

PART = "machine"
#: a connection is a file, and so is what the database needs
FILES_WARN = 4096


async def check_machine(config: Config) -> Sequence[Finding]:
    return [*_check_files(), *_check_user(), *_check_node(config), *_check_config_files(config)]


def _check_files() -> Iterator[Finding]:
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    text = f"{'any number of' if most == resource.RLIM_INFINITY else most} files may be open"
    if most != resource.RLIM_INFINITY and most < FILES_WARN:
        yield warn(PART, text, f"ulimit -n {FILES_WARN}, or LimitNOFILE= in the unit")
    else:
        yield ok(PART, text)


def _check_user() -> Iterator[Finding]:
    if os.geteuid() == 0:
        yield warn(PART, "this is root, which nothing here needs", "run it as a user of its own: docs/deploy.md")


def _check_node(config: Config) -> Iterator[Finding]:
    node = node_of(config)
    yield ok(PART, f"a host called {node} is never a candidate" if node else "no host is left out for our sake")


def _check_config_files(config: Config) -> Iterator[Finding]:
    """Files that may hold secrets, and that others may read."""
    sources = {source.removeprefix("file ") for source in config.origins.values() if source.startswith("file ")}
    keys = [config.secrets_key_file] if config.secrets_key_file and config.secrets_key_file.is_file() else []
    for path in sorted([*map(Path, sources), *keys]):
        mode = path.expanduser().stat().st_mode
        if mode & 0o007:
            yield warn(PART, f"everybody may read {path} (mode {mode & 0o777:o})", f"chmod o= {path}")
