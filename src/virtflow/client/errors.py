"""What can go wrong between a client and a server.

ClientError
├── NotReachable    nobody answered at that address, or the answer broke off again and again
├── BadAnswer       somebody answered, but not as virtflow does (a proxy, another program, another version)
└── ApiError        the server refused, and its problem document says why
"""

import msgspec

from virtflow.model.errors import FieldProblem


class ClientError(Exception):
    def __init__(self, detail: str, *, remedy: str = "") -> None:
        super().__init__(detail)
        self.detail = detail
        self.remedy = remedy


class NotReachable(ClientError):
    def __init__(self, server: str, cause: str) -> None:
        super().__init__(f"{server} does not answer: {cause}", remedy="start it with: virtflow serve")
        self.server = server


class BadAnswer(ClientError):
    pass


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """A problem document (RFC 9457), read with tolerance: proxies on the way write poorer ones."""

    title: str = ""
    detail: str = ""
    code: str = ""
    remedy: str = ""
    errors: tuple[FieldProblem, ...] = ()
    current_version: int | None = None


class ApiError(ClientError):
    """`status` is HTTP's; `code` is what to test; `document` is the whole problem document as it was answered."""

    def __init__(self, status: int, problem: Problem, document: dict[str, object]) -> None:
        super().__init__(problem.detail or problem.title or f"the server answered {status}", remedy=problem.remedy)
        self.status = status
        self.code = problem.code
        self.fields = problem.errors
        self.current_version = problem.current_version
        self.document = document


def read_problem(status: int, reason: str, content: bytes) -> ApiError:
    """The error in an answer, also when what answered was no virtflow."""
    try:
        document = msgspec.json.decode(content, type=dict[str, object])
        problem = msgspec.convert(document, Problem)
    except (msgspec.DecodeError, msgspec.ValidationError):
        problem = Problem(title=f"{status} {reason}".strip(), code="no_problem_document")
        return ApiError(status, problem, {"status": status, "body": content[:1000].decode(errors="replace")})
    return ApiError(status, problem, document)
