"""ETag and If-Match: nothing is overwritten that its writer has not seen."""

import re

from virtflow.api.body import Headers, single
from virtflow.api.errors import BadHeader

_TAG = re.compile(r'"(0|[1-9][0-9]{0,17})"', re.ASCII)
ANY = "*"


def etag(version: int) -> tuple[str, str]:
    return ("etag", f'"{version}"')


def expected_version(headers: Headers) -> int | str | None:
    """The version named by If-Match; ANY for `*` (it must exist, whatever its version); None when nothing is said."""
    if b"if-none-match" in headers or b"if-unmodified-since" in headers:
        raise BadHeader("only If-Match is obeyed here", remedy="leave If-None-Match and If-Unmodified-Since out")
    text = single(headers, b"if-match")
    if text is None or text.strip() == ANY:
        return None if text is None else ANY
    found = _TAG.fullmatch(text.strip())
    if found is None:
        weak = "a weak one names no version; " if text.strip().startswith("W/") else ""
        raise BadHeader(
            f"If-Match must be one version in quotes, or *, not {text[:40]}", remedy=f'{weak}send If-Match: "3"'
        )
    return int(found[1])
