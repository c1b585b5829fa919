"""What a look at one side of a world brought to light, beside the proof from database and log."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class Finding(NamedTuple):
    """Something that must not be."""

    #: an invariant of ours, or one of docs/chaos.md
    id: str
    times: int
    #: the first of them, in words
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    findings: tuple[Finding, ...] = ()
    #: what is counted and is no fault
    figures: Mapping[str, int] = field(default_factory=dict)


def of(figures: Mapping[str, int], *findings: Finding) -> Evidence:
    """Only what was found at all."""
    return Evidence(findings=tuple(one for one in findings if one.times), figures=figures)
