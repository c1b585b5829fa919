"""What every door has in common: settings from words, and nobody but a developer ever sees a traceback."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import entry_points
from types import MappingProxyType

from virtflow.config import Config, load_config
from virtflow.engine import strategies
from virtflow.model.errors import VirtflowError

EXIT_CONFIGURATION = 78


def guarded(run: Callable[[], int], *, exits: Mapping[type[VirtflowError], int] = MappingProxyType({})) -> int:
    """Nobody but a developer ever sees a traceback. `exits`: the codes of errors that scripts should tell apart."""
    try:
        return run()
    except VirtflowError as error:
        remedy = f"\n{error.remedy}" if error.remedy else ""
        print(f"virtflow: {error.detail}{remedy}", file=sys.stderr)
        if error.error_code == "invalid_setting":
            return EXIT_CONFIGURATION
        return next((code for kind, code in exits.items() if isinstance(error, kind)), 1)
    except KeyboardInterrupt:
        return 130


def config_from(argv: Sequence[str]) -> Config:
    register_guests()
    return load_config(environ=os.environ, known_strategies=strategies.names(), flags=flags_of(argv))


def register_guests() -> None:
    """Strategies of other packages, found by their entry points."""
    for point in entry_points(group="virtflow.strategies"):
        strategies.register(point.load())


def flags_of(argv: Sequence[str]) -> dict[str, str]:
    """`--database-url X` and `--database-url=X` as settings; config knows the names and judges the values."""
    flags: dict[str, str] = {}
    words = list(argv)
    while words:
        word = words.pop(0)
        name, equals, value = word.removeprefix("--").partition("=")
        flags[name.replace("-", "_")] = value if equals else words.pop(0) if words else ""
    return flags


def take_option(words: list[str], *names: str) -> str | None:
    """Takes `-o json`, `--output json` or `--output=json` out of the words."""
    for place, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name in names:
            del words[place]
            return value if equals else words.pop(place) if place < len(words) else ""
    return None


def take_options(words: list[str], *names: str) -> list[str]:
    """The same for an option that may be repeated."""
    values: list[str] = []
    while (value := take_option(words, *names)) is not None:
        values.append(value)
    return values


def take_switch(words: list[str], name: str) -> bool:
    if name not in words:
        return False
    words.remove(name)
    return True
