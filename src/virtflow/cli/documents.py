"""Lists of things in files: YAML, JSON or TOML, or `-` for what comes in."""

import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

from virtflow.cli.exits import UsageError

#: far more than a bulk of 10,000 needs
FILE_BYTES_MAX = 64 * 2**20

Item = dict[str, object]


def read_lists(path: str, kinds: Sequence[str]) -> dict[str, list[Item]]:
    """kind -> its items. A list alone is of the first kind; a table may name several: `hosts: […]`, `pools: […]`."""
    content = _parse(path)
    if isinstance(content, list):
        content = {kinds[0]: content}
    if not isinstance(content, dict):
        raise UsageError(f"{path}: neither a list nor a table")
    if set(content) & set(kinds) == set() and "items" in content:
        content = {kinds[0]: content["items"]}  # an answer of the API as it came
    unknown = sorted(set(content) - set(kinds))
    if unknown and not set(content) & set(kinds):
        content, unknown = {kinds[0]: [content]}, []  # one item alone
    if unknown:
        raise UsageError(f"{path}: {unknown[0]!r} is not known", remedy=f"lists are named {' or '.join(kinds)}")
    return {kind: _items(path, kind, content.get(kind, [])) for kind in kinds}


def _items(path: str, kind: str, items: object) -> list[Item]:
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise UsageError(f"{path}: {kind} must be a list of tables")
    return items


def _parse(path: str) -> object:
    text = _read(path)
    suffix = Path(path).suffix.lower()
    try:
        if suffix == ".toml":
            return tomllib.loads(text)
        return _parse_json(text) if suffix == ".json" else _parse_yaml_or_json(text)
    except ValueError as error:
        raise UsageError(f"{path} is not readable: {error}") from error


def _read(path: str) -> str:
    try:
        data = sys.stdin.buffer.read(FILE_BYTES_MAX + 1) if path == "-" else _read_file(Path(path))
        if len(data) > FILE_BYTES_MAX:
            raise UsageError(f"{path} is larger than {FILE_BYTES_MAX} bytes", remedy="split it")
        return data.decode()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text") from error


def _read_file(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(FILE_BYTES_MAX + 1)


def _parse_json(text: str) -> object:
    import msgspec

    return msgspec.json.decode(text)


def _parse_yaml_or_json(text: str) -> object:
    """JSON first: it is YAML too, but read a hundred times faster."""
    if text.lstrip().startswith(("{", "[")):
        try:
            return _parse_json(text)
        except ValueError:
            pass  # YAML's flow style also begins so
    import yaml

    try:
        return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506  # both are safe
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from error
