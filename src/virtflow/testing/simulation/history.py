"""What clients asked and what they were told: written down before and after each call, judged at the end."""

import dataclasses
from enum import Enum
from typing import Any


class Outcome(Enum):
    #: answered: it is so
    DONE = "done"
    #: refused with a reason: it is not so
    REFUSED = "refused"
    #: no answer, or one that leaves it open
    UNKNOWN = "unknown"


@dataclasses.dataclass(slots=True)
class Call:
    client: str
    verb: str
    #: the name, id or key it is about
    about: str
    asked_s: float
    #: for the last time
    sent_s: float = -1.0
    answered_s: float = -1.0
    outcome: Outcome = Outcome.UNKNOWN
    code: str = ""
    result: Any = None
    #: how often it was sent
    tries: int = 0


class History:
    def __init__(self) -> None:
        self.calls: list[Call] = []

    def of(self, verb: str, *outcomes: Outcome) -> list[Call]:
        return [call for call in self.calls if call.verb == verb and (not outcomes or call.outcome in outcomes)]
