"""What can go wrong, as seen by callers. The class says what happened, the code is what clients test.

VirtflowError
├── InvalidRequest        the request itself is wrong; sending it again as it is cannot help
│   └── InvalidStrategy   no strategy of that name
├── NotFound              nothing of that name, or no longer
├── Conflict              the thing changed, exists already, or is in a state that forbids this
│   ├── VersionMismatch   If-Match named an older version
│   └── KeyReused         the Idempotency-Key came with another body
├── Gone                  events that old are no longer kept
│   └── HistoryOver       the database was restored from a backup; what was read never happened here
├── Unplaceable           nothing fits, and the request asked to fail rather than wait
├── Busy                  more requests than can be written down; try again in a moment
├── Unavailable           a part we need does not answer (database, inventory)
│   ├── OutcomeUnknown    the commit's answer was lost; the same Idempotency-Key tells
│   └── Fenced            somebody newer is the leader; this process stops deciding
└── InvalidSetting        a setting is wrong; the program refuses to start
"""

from collections.abc import Sequence
from typing import ClassVar

import msgspec


class FieldProblem(msgspec.Struct, frozen=True):
    """One wrong field: where it is (a JSON pointer), what is wrong, and what would be right."""

    pointer: str
    detail: str
    remedy: str = ""


class VirtflowError(Exception):
    code: ClassVar[str] = "internal_error"

    def __init__(
        self, detail: str, *, code: str | None = None, remedy: str = "", fields: Sequence[FieldProblem] = ()
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.error_code = code or type(self).code
        self.remedy = remedy
        self.fields = tuple(fields)


class InvalidRequest(VirtflowError):
    code = "invalid_request"


class InvalidStrategy(InvalidRequest):
    code = "invalid_strategy"


class NotFound(VirtflowError):
    code = "not_found"


class Conflict(VirtflowError):
    code = "conflict"


class VersionMismatch(Conflict):
    code = "version_mismatch"

    def __init__(self, detail: str, *, current_version: int) -> None:
        super().__init__(detail, remedy=f'read it again and repeat with If-Match: "{current_version}"')
        self.current_version = current_version


class KeyReused(Conflict):
    code = "idempotency_key_reused"


class Gone(VirtflowError):
    code = "events_gone"


class HistoryOver(Gone):
    code = "history_over"


class Unplaceable(VirtflowError):
    code = "insufficient_resources"


class Busy(VirtflowError):
    code = "too_many_requests"

    def __init__(self, detail: str, *, retry_after_s: int = 1) -> None:
        super().__init__(detail, remedy=f"send it again after {retry_after_s} s")
        self.retry_after_s = retry_after_s


class Unavailable(VirtflowError):
    code = "unavailable"


class OutcomeUnknown(Unavailable):
    code = "outcome_unknown"


class Fenced(Unavailable):
    code = "fenced"


class InvalidSetting(VirtflowError):
    code = "invalid_setting"

    def __init__(self, setting: str, value: str, *, expected: str, source: str = "") -> None:
        origin = f" ({source})" if source else ""
        super().__init__(f"{setting}={value!r}{origin} is not valid", remedy=f"expected: {expected}")
        self.setting = setting
        self.value = value
