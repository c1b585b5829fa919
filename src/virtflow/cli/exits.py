"""How a command ends: the exit codes, and every failure in one or two sentences on stderr."""

import enum
import sys
import traceback
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from virtflow.cli.screen import harmless

if TYPE_CHECKING:
    from virtflow.client import ApiError


class Exit(enum.IntEnum):
    """Documented in docs/cli.md; scripts rely on them."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    CONFLICT = 4
    NOT_REACHABLE = 5
    NO_ROOM = 6
    CONFIGURATION = 78
    INTERRUPTED = 130


_OF_STATUS = {404: Exit.NOT_FOUND, 409: Exit.CONFLICT, 412: Exit.CONFLICT}
_OF_CODE = {"insufficient_resources": Exit.NO_ROOM}


class CommandError(Exception):
    """Raised by commands for what went wrong on this side of the wire."""

    def __init__(self, detail: str, *, remedy: str = "", exit_code: Exit = Exit.FAILED) -> None:
        super().__init__(detail)
        self.detail = detail
        self.remedy = remedy
        self.exit_code = exit_code


class UsageError(CommandError):
    def __init__(self, detail: str, *, remedy: str = "") -> None:
        super().__init__(detail, remedy=remedy, exit_code=Exit.USAGE)


def report(error: Exception, *, debug: bool = False) -> Exit:
    """Say what went wrong and how to get on; returns the exit code that says it to programs."""
    if debug:
        traceback.print_exception(error)
    exit_code, lines = _describe(error)
    print(harmless("\n".join(lines)), file=sys.stderr)
    return exit_code


def try_each(names: Iterable[str], act: Callable[[str], None]) -> Exit:
    """Do it for every name, also when some fail: each failure is told, and the worst one gives the exit code."""
    from virtflow.client import ApiError

    worst = Exit.OK
    for name in names:
        try:
            act(name)
        except ApiError as error:
            worst = max(worst, report(error))
    return worst


def _describe(error: Exception) -> tuple[Exit, list[str]]:
    # imported when something went wrong: the client costs more time than a page of help should
    from virtflow.client import ApiError, ClientError, NotReachable
    from virtflow.model.errors import InvalidSetting, VirtflowError

    match error:
        case CommandError():
            return error.exit_code, _lines(error.detail, error.remedy)
        case ApiError():
            return _exit_of(error), _problem(error)
        case NotReachable():
            return Exit.NOT_REACHABLE, _lines(error.detail, _how_to_reach(error.server))
        case ClientError():
            return Exit.FAILED, _lines(error.detail, error.remedy)
        case InvalidSetting():
            return Exit.CONFIGURATION, _lines(error.detail, error.remedy)
        case VirtflowError():
            return Exit.FAILED, _lines(error.detail, error.remedy)
        case OSError():
            return Exit.FAILED, _lines(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    kind = type(error).__name__
    return Exit.FAILED, _lines(f"this should not happen: {kind}: {error}", "run it again with --debug and report it")


def _exit_of(error: "ApiError") -> Exit:
    return _OF_CODE.get(error.code) or _OF_STATUS.get(error.status) or Exit.FAILED


def _problem(error: "ApiError") -> list[str]:
    """The problem document in words: what, each wrong field, the way out."""
    remedy = error.remedy
    if not remedy and error.status == 401:
        remedy = "put a token into VIRTFLOW_TOKEN"
    if error.code == "no_problem_document":
        remedy = "check that --server is a virtflow server's address"
    if len(error.fields) == 1 and error.detail.endswith(error.fields[0].detail):  # one mistake needs no list
        return _lines(error.detail, error.fields[0].remedy or ("" if "`errors`" in remedy else remedy))
    fields = [
        f"  {field.pointer or '/'}: {field.detail}" + (f"; {field.remedy}" if field.remedy else "")
        for field in error.fields
    ]
    head, *tail = _lines(error.detail, remedy)
    return [head, *fields, *tail]


def _lines(detail: str, remedy: str = "") -> list[str]:
    return [f"virtflow: {detail}", *([f"  {remedy}"] if remedy else [])]


def _how_to_reach(server: str) -> str:
    here = "127.0.0.1" in server or "localhost" in server
    start = "start one with `virtflow serve` (or `virtflow demo`), or " if here else ""
    return f"{start}name another with --server or VIRTFLOW_SERVER"
