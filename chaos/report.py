"""Figures of a run: a table to read and a document for programs."""

from collections.abc import Iterable, Sequence
from typing import Any

from chaos.bounds import percentile, upper_bound
from chaos.run import Outcome

_HEADS = (
    "nemesis", "goal", "rounds", "violations", "rate ≤", "p50", "p99", "max", "task delay p99", "put off", "failed",
    "operations", "events",
)  # fmt: skip


def table(outcomes: Iterable[Outcome]) -> str:
    rows = [_HEADS, *(_row(outcome) for outcome in outcomes)]
    widths = [max(len(row[place]) for row in rows) for place in range(len(_HEADS))]
    lines = [
        "  ".join(
            cell.ljust(width) if place < 2 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
    return "\n".join(line.rstrip() for line in lines)


def notes(outcome: Outcome) -> list[str]:
    """What else was counted, in a line."""
    counted = ", ".join(f"{name} {count:,}" for name, count in outcome.judgement.figures.items())
    return [f"{outcome.nemesis.name}: {counted}"] if counted else []


def documents(outcomes: Iterable[Outcome]) -> list[dict[str, Any]]:
    return [_document(outcome) for outcome in outcomes]


def misses(outcome: Outcome) -> list[str]:
    """Goals of time that were missed: figures, not violations."""
    nemesis = outcome.nemesis
    goals = (("p50", 50, nemesis.p50_s_max), ("p99", 99, nemesis.p99_s_max))
    return [
        f"{nemesis.name}: {name} {value:.2f} s, the goal is {goal:g} s"
        for name, percent, goal in goals
        if goal is not None and (value := percentile(outcome.seconds, percent)) is not None and value > goal
    ]


def _row(outcome: Outcome) -> Sequence[str]:
    seconds, delays = outcome.seconds, outcome.judgement.delays_s
    return (
        outcome.nemesis.name,
        outcome.nemesis.goal,
        f"{outcome.rounds:,}",
        f"{outcome.violations:,}",
        f"{upper_bound(bool(outcome.violations), outcome.rounds):.2%}",
        _seconds(percentile(seconds, 50)),
        _seconds(percentile(seconds, 99)),
        _seconds(max(seconds, default=None)),
        _seconds(percentile(delays, 99)),
        f"{outcome.put_off:,}",
        f"{outcome.failed:,}",
        f"{outcome.operations:,}",
        f"{outcome.judgement.events:,}",
    )


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f} s"


def _document(outcome: Outcome) -> dict[str, Any]:
    nemesis, judged = outcome.nemesis, outcome.judgement
    return {
        "nemesis": nemesis.name,
        "does": nemesis.does,
        "goal": nemesis.goal,
        "rounds": outcome.rounds,
        "violations": outcome.violations,
        "violation_rate_at_most_95": upper_bound(bool(outcome.violations), outcome.rounds),
        "broken": judged.broken,
        "words": judged.words,
        "stale_writes_accepted": judged.broken.get("I14", 0),
        "acknowledged_lost": judged.broken.get("I16", 0) + judged.broken.get("I19", 0),
        "doubled": sum(judged.broken.get(key, 0) for key in ("I3", "I7", "I15")),
        "overcommitted": judged.broken.get("I1", 0) + judged.broken.get("I2", 0),
        "measures": nemesis.measures,
        **_quantiles("seconds", outcome.seconds),
        **_quantiles("task_delay_s", judged.delays_s),
        "missed": misses(outcome),
        "operations": outcome.operations,
        "events": judged.events,
        **judged.figures,
        "put_off": outcome.put_off,
        "unanswered": outcome.unanswered,
        "failed": outcome.failed,
        "slowest_answer_s": round(outcome.slowest_answer_s, 3),
        "took_s": round(outcome.took_s, 1),
    }


def _quantiles(name: str, values: Sequence[float]) -> dict[str, float | None]:
    found = {"p50": percentile(values, 50), "p99": percentile(values, 99), "max": max(values, default=None)}
    return {f"{name}_{key}": None if value is None else round(value, 3) for key, value in found.items()}
