"""`virtflow doctor`."""

import asyncio
import logging
import os
from collections.abc import Iterator, Sequence

import msgspec
import structlog

from virtflow.main.checkup.examine import examine
from virtflow.main.doors.door import flags_of, guarded, register_guests, take_option
from virtflow.model.finding import Finding, Verdict

#: where a finding's words begin
_INDENT = 20


def doctor(argv: Sequence[str]) -> int:
    """`virtflow doctor`: looks at every part. Exit code 1 when something does not work."""
    words = list(argv)
    as_json = take_option(words, "-o", "--output") == "json"
    return guarded(lambda: _doctor(words, as_json=as_json))


def _doctor(words: Sequence[str], *, as_json: bool) -> int:
    _be_quiet()
    register_guests()
    findings = asyncio.run(examine(os.environ, flags_of(words)))
    if as_json:
        print(msgspec.json.encode(findings).decode())
    else:
        for line in lines_of(findings):
            print(line)
    return 1 if any(finding.verdict is Verdict.BAD for finding in findings) else 0


def lines_of(findings: Sequence[Finding]) -> Iterator[str]:
    for finding in findings:
        yield f"{finding.verdict:<5} {finding.part:<{_INDENT - 7}} {finding.text}"
        if finding.remedy:
            yield f"{'':{_INDENT - 2}}→ {finding.remedy}"
    counts = {verdict: sum(finding.verdict is verdict for finding in findings) for verdict in Verdict}
    yield ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)


def _be_quiet() -> None:
    """What libraries log about broken parts is said by the findings."""
    logging.disable(logging.CRITICAL)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
