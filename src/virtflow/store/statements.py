"""SQL stands in files: blocks named `-- name --` or `-- name [dialect] --`, a sentence, the query."""

import re
from functools import cache
from importlib.resources import files
from typing import Literal

Dialect = Literal["sqlite", "postgresql"]

_HEAD = re.compile(r"^-- (?P<name>[a-z_]+)(?: \[(?P<dialect>[a-z]+)\])? --$", re.MULTILINE)
_PIECE = re.compile(r"\{([a-z_]+)\}")


@cache
def statements(dialect: Dialect) -> dict[str, str]:
    """Every statement by name, as this dialect says it."""
    found: dict[str, str] = {}
    for file in sorted(files("virtflow.store").joinpath("sql").iterdir(), key=lambda file: file.name):
        if file.name.endswith(".sql"):
            found |= _with_pieces(_blocks(file.read_text(encoding="utf-8"), dialect))
    return found


def _blocks(text: str, dialect: Dialect) -> dict[str, str]:
    general: dict[str, str] = {}
    special: dict[str, str] = {}
    heads = list(_HEAD.finditer(text))
    ends = [head.start() for head in heads[1:]] + [len(text)]
    for head, end in zip(heads, ends, strict=True):
        block = _without_comments(text[head.end() : end])
        if head["dialect"] is None:
            general[head["name"]] = block
        elif head["dialect"] == dialect:
            special[head["name"]] = block
    return general | special


def _without_comments(block: str) -> str:
    lines = (line for line in block.strip().splitlines() if not line.startswith("--"))
    return "\n".join(lines).strip().rstrip(";")


def _with_pieces(blocks: dict[str, str]) -> dict[str, str]:
    """`{host_columns}` stands for the block of that name in the same file."""
    return {name: _PIECE.sub(lambda piece: blocks[piece[1]], block) for name, block in blocks.items()}
