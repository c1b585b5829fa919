"""What an examination found: one line about one part, and how to mend it."""

import enum

import msgspec


class Verdict(enum.StrEnum):
    OK = "ok"
    #: works, and will not under some circumstances
    WARN = "warn"
    #: does not work
    BAD = "bad"


class Finding(msgspec.Struct, frozen=True):
    part: str
    verdict: Verdict
    text: str
    #: how to mend it; empty where there is nothing to mend
    remedy: str = ""


def ok(part: str, text: str) -> Finding:
    return Finding(part, Verdict.OK, text)


def warn(part: str, text: str, remedy: str) -> Finding:
    return Finding(part, Verdict.WARN, text, remedy)


def bad(part: str, text: str, remedy: str) -> Finding:
    return Finding(part, Verdict.BAD, text, remedy)
