"""Times as people and programs read them: RFC 3339 in UTC with milliseconds."""

import datetime
from functools import lru_cache


@lru_cache(maxsize=1024)
def _second(seconds: int) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S")


def time_text(ms: int) -> str:
    return f"{_second(ms // 1000)}.{ms % 1000:03d}Z"


def time_or_none(ms: int | None) -> str | None:
    return time_text(ms) if ms else None
