"""Hosts from a file: YAML, JSON or TOML, read again when it changes."""

import asyncio
import json
import os
import stat
import tomllib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Hashable, Mapping
from contextlib import aclosing
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import watchfiles
import yaml

from virtflow.inventory.contract import INVENTORY_BYTES_MAX, Fetched
from virtflow.inventory.records import BadRecordError, json_integer, read_any, read_pool, read_records
from virtflow.model.errors import Unavailable
from virtflow.model.host import Source
from virtflow.model.pool import PoolSpec

#: How often the file is looked at where the system does not tell, or not reliably (network drives).
LOOK_S = 5.0
#: A writer makes several changes in a row; one knock is enough.
SETTLE_MS = 200
DEPTH_MAX = 32
_SECTIONS = ("hosts", "pools")


class _Mark(NamedTuple):
    """By what a change of the file is known: a write, a rename and a swapped link change at least one of them."""

    device: int
    inode: int
    size: int
    modified_ns: int
    changed_ns: int


class FileInventory:
    """One file. Remembers what it last read, and knocks when the file is no longer that."""

    source = Source.FILE

    def __init__(self, path: Path, *, bytes_max: int = INVENTORY_BYTES_MAX, look_s: float = LOOK_S) -> None:
        self.location = str(path)
        self._path = path
        self._bytes_max = bytes_max
        self._look_s = look_s
        self._read_mark: _Mark | None = None

    async def fetch(self) -> Fetched:
        # beside the loop: a disk may be slow, and a large YAML file takes seconds to read
        return await asyncio.to_thread(self._fetch)

    def _fetch(self) -> Fetched:
        # marked before it is read: what is written meanwhile is a change
        self._read_mark = self._mark()
        try:
            return read_document(self._parse(self._content()))
        except (OSError, ValueError, BadRecordError) as error:
            raise self._unavailable(_in_words(error)) from error
        except RecursionError as error:
            raise self._unavailable("it is nested too deeply") from error

    def _content(self) -> bytes:
        # a named pipe must not keep us waiting for its writer
        with os.fdopen(os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ValueError("it is not a file")
            content = file.read(self._bytes_max + 1)
        if len(content) > self._bytes_max:
            raise ValueError(f"it is larger than {self._bytes_max} bytes")
        if not content.strip():
            # what an editor leaves between two steps; a fleet without hosts is written as []
            raise ValueError("it is empty")
        return content

    def _parse(self, content: bytes) -> object:
        suffix = self._path.suffix.lower()
        if suffix not in PARSERS:
            raise ValueError(f"its name must end in one of {', '.join(PARSERS)}")
        return PARSERS[suffix](content.decode("utf-8-sig"))

    def _mark(self) -> _Mark | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return _Mark(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)

    def _unavailable(self, problem: str) -> Unavailable:
        return Unavailable(
            f"inventory {self.location}: {problem}",
            code="inventory_unavailable",
            remedy="the hosts last read stay in use; the file is read again when it changes",
        )

    async def changes(self) -> AsyncIterator[None]:
        """Whenever the file is no longer the one last read."""
        knocked_for = self._read_mark
        while True:
            async with aclosing(self._wakes()) as wakes:
                async for _ in wakes:
                    mark = await asyncio.to_thread(self._mark)
                    if mark not in (self._read_mark, knocked_for):
                        knocked_for = mark
                        yield

    async def _wakes(self) -> AsyncGenerator[None, None]:
        """Reasons to look: something happened in the folder, or some time went by. Ends when the folder is another.

        The folder is watched, not the file: editors and Kubernetes replace the file, and a watch would stay with the
        old one.
        """
        folder = self._path.parent
        identity = await asyncio.to_thread(_identity, folder)
        watch = watchfiles.awatch(
            folder,
            watch_filter=None,
            recursive=False,
            debounce=SETTLE_MS,
            rust_timeout=int(self._look_s * 1000),
            yield_on_timeout=True,
        )
        try:
            async with aclosing(watch):
                async for _ in watch:
                    yield
                    if await asyncio.to_thread(_identity, folder) != identity:
                        return
        except (OSError, RuntimeError):  # no such folder yet, or no watches left on this machine
            await asyncio.sleep(self._look_s)
            yield


def _identity(folder: Path) -> tuple[int, int] | None:
    try:
        found = folder.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _in_words(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "there is no such file"
    if isinstance(error, OSError):
        return error.strerror or str(error)
    if isinstance(error, UnicodeDecodeError):
        return f"it is not UTF-8 at byte {error.start}"
    return str(error)


# From text to plain values. Each parser raises ValueError with line and column.


_SafeLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_SafeLoader):  # type: ignore[misc, valid-type]
    """Plain values only, and no key twice: of two hosts under one key, the first would vanish without a word."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[object] = set()
        for key_node, _ in node.value:
            key = key_node.value if isinstance(key_node, yaml.ScalarNode) else id(key_node)
            if key in seen:
                mark = key_node.start_mark
                raise ValueError(f"the key {key!r} comes twice at line {mark.line + 1}, column {mark.column + 1}")
            seen.add(key)
        mapping: dict[Hashable, Any] = super().construct_mapping(node, deep)
        return mapping


def parse_yaml(text: str) -> object:
    try:
        _check_depth(text)
        return yaml.load(text, Loader=_Loader)  # noqa: S506  (a safe loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise ValueError(f"it is not YAML: {error.problem or error.context}{where}") from error
    except yaml.YAMLError as error:
        raise ValueError(f"it is not YAML: {' '.join(str(error).split())}") from error


def _check_depth(text: str) -> None:
    """The loader written in C recurses without a limit, and takes the whole process with it."""
    depth = 0
    for event in yaml.parse(text, Loader=_SafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEPTH_MAX:
            raise ValueError(f"it is nested more than {DEPTH_MAX} deep at line {event.start_mark.line + 1}")  # type: ignore[union-attr]


def parse_json(text: str) -> object:
    try:
        return json.loads(text, object_pairs_hook=_without_twins, parse_int=json_integer)
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON: {error.msg} at line {error.lineno}, column {error.colno}") from error


def _without_twins(pairs: list[tuple[str, object]]) -> dict[str, object]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        twin = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twin!r} comes twice in one object")
    return fields


def parse_toml(text: str) -> object:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"it is not TOML: {error}") from error


PARSERS: Mapping[str, Callable[[str], object]] = MappingProxyType(
    {".yaml": parse_yaml, ".yml": parse_yaml, ".json": parse_json, ".toml": parse_toml}
)


def read_document(document: object) -> Fetched:
    """A list of records, or `{hosts: […], pools: […]}`; a list under `nodes` or `items` will do for hosts."""
    if isinstance(document, list):
        return read_records(document, read=read_any)
    if not isinstance(document, dict):
        raise ValueError("it must be a list of hosts, or hosts: and pools:")  # noqa: TRY004  (the file's fault)
    sections = {{"nodes": "hosts", "items": "hosts"}.get(str(name), str(name)): part for name, part in document.items()}
    unknown = sorted(sections.keys() - set(_SECTIONS))
    if unknown:
        raise ValueError(f"it has {unknown[0]!r} beside {' and '.join(_SECTIONS)}")
    return read_records(_list(sections, "hosts"), read=read_any, pools=_pools(_list(sections, "pools")))


def _list(sections: Mapping[str, object], name: str) -> list[object]:
    part = sections.get(name)
    if part is None:
        return []
    if not isinstance(part, list):
        raise ValueError(f"{name} must be a list")  # noqa: TRY004  (the file's fault)
    return part


def _pools(records: list[object]) -> tuple[PoolSpec, ...]:
    pools: dict[str, PoolSpec] = {}
    for number, record in enumerate(records):
        try:
            pool = read_pool(record)
        except BadRecordError as problem:
            raise BadRecordError(f"pool #{number}: {problem}") from problem
        if pool.name in pools:
            raise BadRecordError(f"pool #{number}: another one has the same name")
        pools[pool.name] = pool
    return tuple(pools.values())
