"""What we write on: how wide it is, whether it shows colours, what time it is."""

import datetime
import os
import re
import shutil
import sys
import textwrap
from dataclasses import dataclass
from typing import TextIO

_CODES = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
}


#: all that moves the cursor or worse; colours may pass
_CONTROLS = re.compile(r"\x1b(?!\[[0-9;]*m)|[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f-\x9f]")


def harmless(line: str) -> str:
    """What others wrote (an inventory's error, a label) shall not play with the terminal."""
    return _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", line)


@dataclass(frozen=True, slots=True, kw_only=True)
class Screen:
    """Passed to everything that draws, so that drawing is a plain function."""

    #: None: as wide as the text, for files and pipes
    width: int | None = 80
    has_colour: bool = False
    has_blocks: bool = True
    is_terminal: bool = False
    now: datetime.datetime

    def paint(self, text: str, *styles: str) -> str:
        codes = ";".join(_CODES[style] for style in styles if style)
        return f"\x1b[{codes}m{text}\x1b[0m" if self.has_colour and codes and text else text

    def wrap(self, text: str, indent: str = "") -> list[str]:
        """Sentences in lines as wide as the screen; commands are never wrapped, they have to be pasted whole."""
        if self.width is None:
            return [indent + text]
        return textwrap.wrap(text, max(40, self.width), initial_indent=indent, subsequent_indent=indent) or [""]

    @property
    def columns(self) -> int:
        """For pictures, which need some width."""
        return self.width or 80


def screen_of(stream: TextIO | None = None) -> Screen:
    stream = stream or sys.stdout
    is_terminal = stream.isatty()
    return Screen(
        width=shutil.get_terminal_size().columns if is_terminal or "COLUMNS" in os.environ else None,
        has_colour=_wants_colour(is_terminal),
        has_blocks="utf" in (stream.encoding or "").lower(),
        is_terminal=is_terminal,
        now=datetime.datetime.now(datetime.UTC),
    )


def _wants_colour(is_terminal: bool) -> bool:
    """https://no-color.org and https://force-color.org"""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return is_terminal and os.environ.get("TERM") != "dumb"
