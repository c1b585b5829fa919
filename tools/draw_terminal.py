"""Draws what a command prints in a colour terminal as an SVG: `python tools/draw_terminal.py OUT.svg COMMAND…`."""

import fcntl
import html
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

COLUMNS, LINES_MAX = 100, 84
CELL_W, CELL_H, MARGIN, TITLE_H = 7.8, 16.5, 14, 30
COLOURS = {
    "30": "#5c6370", "31": "#e06c75", "32": "#98c379", "33": "#e5c07b", "34": "#61afef", "35": "#c678dd",
    "36": "#56b6c2", "37": "#dcdfe4", "90": "#7f848e", "91": "#e06c75", "92": "#98c379", "93": "#e5c07b",
    "94": "#61afef", "95": "#c678dd", "96": "#56b6c2", "97": "#ffffff",
}  # fmt: skip
INK, PAPER, FRAME = "#dcdfe4", "#1e2127", "#2c313a"


def printed(command: list[str]) -> str:
    """What the command prints on a terminal of a fixed width."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(COLUMNS)}
    child = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    pieces = []
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:
            break  # the terminal closed with its last program
        if not piece:
            break
        pieces.append(piece)
    child.wait()
    return b"".join(pieces).decode(errors="replace")


def settled(text: str) -> list[str]:
    """The lines as they stand at the end: a carriage return begins its line anew."""
    lines = [re.split(r"\r(?:\x1b\[K|\x1b\[2K)?", line.rstrip("\r"))[-1] for line in text.split("\n")]
    lines = [re.sub(r"\x1b\[[0-9;?]*[A-KSTfhl]", "", line) for line in lines]
    while lines and not lines[-1].strip():
        lines.pop()
    return lines


def spans(line: str) -> list[tuple[int, str, str]]:
    """(column, text, style) of each stretch of one colour."""
    found, column, colour, weight = [], 0, INK, ""
    for piece in re.split(r"(\x1b\[[0-9;]*m)", line):
        if piece.startswith("\x1b"):
            for code in piece[2:-1].split(";"):
                if code in ("", "0"):
                    colour, weight = INK, ""
                elif code == "1":
                    weight = "bold"
                elif code == "2":
                    colour = COLOURS["90"]
                elif code in COLOURS:
                    colour = COLOURS[code]
                elif code in ("22", "39"):
                    colour, weight = (colour, "") if code == "22" else (INK, weight)
        elif piece:
            style = f'fill="{colour}"' + (' font-weight="bold"' if weight else "")
            found.append((column, piece, style))
            column += len(piece)
    return found


def picture(lines: list[str], title: str) -> str:
    shown = lines[:LINES_MAX]
    columns = max([COLUMNS, *(len(re.sub(r"\x1b\[[0-9;]*m", "", line)) for line in shown)])
    width = int(columns * CELL_W + 2 * MARGIN)
    height = int(len(shown) * CELL_H + 2 * MARGIN + TITLE_H)
    dots = "".join(
        f'<circle cx="{18 + 18 * n}" cy="15" r="5.5" fill="{c}"/>'
        for n, c in enumerate(("#e06c75", "#e5c07b", "#98c379"))
    )
    rows = [
        f'<text x="{MARGIN + column * CELL_W:.1f}" y="{TITLE_H + MARGIN + (row + 0.75) * CELL_H:.1f}" {style} '
        f'textLength="{len(text) * CELL_W:.1f}">{html.escape(text)}</text>'
        for row, line in enumerate(shown)
        for column, text, style in spans(line)
        if text.strip()
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">\n'
        f'<rect width="{width}" height="{height}" rx="8" fill="{PAPER}"/>\n'
        f'<path d="M0 8a8 8 0 0 1 8-8h{width - 16}a8 8 0 0 1 8 8v{TITLE_H - 8}H0z" fill="{FRAME}"/>{dots}\n'
        f'<text x="{width / 2}" y="20" fill="{COLOURS["90"]}" text-anchor="middle" font-family="sans-serif" '
        f'font-size="12">{html.escape(title)}</text>\n'
        '<g font-family="ui-monospace, Menlo, Consolas, DejaVu Sans Mono, monospace" font-size="13" '
        'xml:space="preserve" lengthAdjust="spacingAndGlyphs">\n' + "\n".join(rows) + "\n</g>\n</svg>\n"
    )


if __name__ == "__main__":
    target, command = Path(sys.argv[1]), sys.argv[2:]
    target.write_text(picture(settled(printed(command)), " ".join(Path(word).name for word in command)))
