"""The steps that make the tables, forwards only: a step adds, so that the previous version may still be running."""

import re
from collections.abc import Sequence
from importlib.resources import files
from typing import NamedTuple

from virtflow.store.failures import UnusableDatabase
from virtflow.store.statements import Dialect

_FILE = re.compile(r"(?P<version>\d{4})_[a-z_]+\.(?P<dialect>[a-z]+)\.sql")


class Step(NamedTuple):
    version: int
    sql: str


def steps(dialect: Dialect) -> list[Step]:
    found = []
    for file in files(__name__).iterdir():
        named = _FILE.fullmatch(file.name)
        if named and named["dialect"] == dialect:
            found.append(Step(int(named["version"]), file.read_text(encoding="utf-8")))
    return sorted(found)


def newest(known: Sequence[Step]) -> int:
    return known[-1].version


def missing(known: Sequence[Step], version: int, *, url: str) -> list[Step]:
    """The steps still to take; refuses a database that a newer program has made."""
    if version > newest(known):
        raise UnusableDatabase(
            url,
            cause=f"its tables are of version {version}, and this program knows them up to {newest(known)}",
            remedy="start the newer program again, or restore the backup from before its start",
        )
    return [step for step in known if step.version > version]


def require_newest(known: Sequence[Step], version: int, *, url: str) -> None:
    """For those who only look, and may not migrate."""
    if missing(known, version, url=url):
        raise UnusableDatabase(
            url,
            cause=f"its tables are of version {version}, older than version {newest(known)} of this program",
            remedy="start this version of virtflow on it once: that brings it up to date",
        )
