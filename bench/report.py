"""What was measured beside what was aimed at: a table to read, a document for programs, and a picture."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One number. Without a goal it is there to be compared with."""

    key: str
    what: str
    measured: float
    unit: str
    goal: float | None = None
    stretch: float | None = None
    less_is_better: bool = False
    #: of the same run: what a plainer way costs, and the like
    beside: str = ""

    @property
    def verdict(self) -> str:
        """Whether the goal is met, or how far away it is."""
        if self.goal is None:
            return ""
        if self.stretch is not None and self._reaches(self.stretch):
            return "stretch met"
        if self._reaches(self.goal):
            return "met"
        return f"{self._distance(self.goal):.2f}× short"

    @property
    def is_met(self) -> bool:
        return self.goal is None or self._reaches(self.goal)

    def document(self) -> dict[str, object]:
        return {**asdict(self), "verdict": self.verdict}

    def _reaches(self, aim: float) -> bool:
        return self.measured <= aim if self.less_is_better else self.measured >= aim

    def _distance(self, aim: float) -> float:
        far, near = (self.measured, aim) if self.less_is_better else (aim, self.measured)
        return far / near if near > 0 else math.inf


def table(figures: Sequence[Figure]) -> str:
    """Figures and goals as Markdown."""
    head = ("figure", "goal", "stretch", "measured", "verdict", "beside, same run")
    return grid(head, [_row(figure) for figure in figures])


def grid(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """Markdown whose columns are aligned, so that it reads as plain text, too."""
    rows = [head, *body]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    lines = [_line(row, widths) for row in rows]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def _row(figure: Figure) -> tuple[str, ...]:
    aims = [_aim(figure, aim) for aim in (figure.goal, figure.stretch)]
    return (figure.what, *aims, shown(figure.measured, figure.unit), figure.verdict, figure.beside)


def _aim(figure: Figure, aim: float | None) -> str:
    return "" if aim is None else ("≤ " if figure.less_is_better else "≥ ") + shown(aim, figure.unit)


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    return "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"


def shown(value: float, unit: str) -> str:
    """As many digits as mean something."""
    if abs(value) >= 1000:
        text = f"{value:,.0f}"
    elif abs(value) >= 10:
        text = f"{value:.1f}".removesuffix(".0")
    else:
        text = f"{value:.3g}"
    return f"{text} {unit}".strip()


def machine_lines(machine: Mapping[str, Any]) -> list[str]:
    versions = ", ".join(f"{name} {number}" for name, number in machine["versions"].items() if number)
    return [
        f"Machine: {machine['cores']} cores ({machine['model']}), {machine['memory_gib']} GiB, {machine['system']}",
        f"Python {machine['python']}, {versions}",
        f"Load before the run: {', '.join(map(str, machine['load_average']))}",
        *[
            f"fdatasync on {place}: p50 {fsync['p50_ms']:.3f} ms, p99 {fsync['p99_ms']:.3f} ms ({fsync['times']} times)"
            for place, fsync in machine["fsync"].items()
        ],
    ]


def write(folder: Path, document: Mapping[str, Any], figures: Sequence[Figure]) -> list[Path]:
    """bench.json, bench.md and, where matplotlib is installed, bench.svg."""
    folder.mkdir(parents=True, exist_ok=True)
    data, text = folder / "bench.json", folder / "bench.md"
    data.write_text(json.dumps(document, indent=1) + "\n")
    text.write_text("\n".join([*(f"- {line}" for line in machine_lines(document["machine"])), "", table(figures), ""]))
    drawn = _draw(folder / "bench.svg", document)
    return [data, text, *([drawn] if drawn else [])]


# ── the picture ───────────────────────────────────────────────────────────────────────────────────


def _draw(path: Path, document: Mapping[str, Any]) -> Path | None:
    try:
        from matplotlib.figure import Figure as Canvas  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        return None
    canvas = Canvas(figsize=(12, 4.6), layout="constrained")
    curves, bars = canvas.subplots(1, 2)
    _draw_growth(curves, document.get("growth", {}))
    _draw_http(bars, document.get("http", []))
    canvas.savefig(path)
    return path


def _draw_growth(axes: Any, growth: Mapping[str, Mapping[str, float]]) -> None:
    for name, points in growth.items():
        hosts = sorted(int(count) for count in points)
        axes.plot(hosts, [points[str(count)] for count in hosts], marker="o", label=name)
    axes.set(xscale="log", yscale="log", xlabel="hosts", ylabel="µs per decision", title="One decision")
    axes.grid(visible=True, which="major", alpha=0.3)
    if growth:
        axes.legend()


def _draw_http(axes: Any, measured: Sequence[Mapping[str, Any]]) -> None:
    names = [f"{one['kind']}\n{one['database']}\n{one['place']}" for one in measured]
    rates = [one["outcome"]["vms_per_s"] for one in measured]
    bars = axes.bar(range(len(names)), rates, color=["C0" if one["place"] == "disk" else "C1" for one in measured])
    axes.bar_label(bars, labels=[f"{rate:,.0f}" for rate in rates], fontsize=7)
    axes.set_xticks(range(len(names)), names, fontsize=7)
    axes.set(ylabel="VMs/s, placed and durable", title="Through HTTP")
