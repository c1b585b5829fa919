"""One HTTP request, repeated where that is safe until it is answered or patience ends."""

import dataclasses
import ipaddress
import random
import ssl
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar
from urllib.parse import quote, urlsplit

import httpx
import msgspec

from virtflow import __version__
from virtflow.client.errors import ApiError, BadAnswer, NotReachable, read_problem
from virtflow.client.records import R, read
from virtflow.model.errors import InvalidSetting
from virtflow.model.secret import Secret

T = TypeVar("T")
Value = str | int | float | bool
Params = Mapping[str, Value | Sequence[Value] | None]
Sleep = Callable[[float], None]

#: "ask again later", as opposed to a refusal
BUSY = frozenset({429, 503})
#: our own first attempt, whose answer we lost, is still under way
STILL_AT_IT = "idempotency_key_in_use"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long a client goes on trying. Waits double, are jittered, and never longer than the server asks for."""

    tries_max: int = 5
    #: when nobody even takes the connection
    connect_tries_max: int = 5
    first_wait_s: float = 0.2
    wait_s_max: float = 10.0
    #: all waits of one call together
    total_wait_s_max: float = 30.0
    #: for one answer
    timeout_s: float = 30.0

    def wait_s(self, tries: int, chance: float) -> float:
        """Between half and all of the doubled wait, so that clients that failed together do not return together."""
        doubled = self.first_wait_s * 2.0 ** min(tries, 16)
        return min(self.wait_s_max, doubled) * (0.5 + chance / 2)


def server_address(text: str, *, setting: str = "server") -> str:
    """`127.0.0.1:8080` and `https://virtflow.example/` as one canonical address without a slash at its end."""
    full = text if "://" in text else f"http://{text}"
    expected = "an address such as http://127.0.0.1:8080"
    try:
        parts = urlsplit(full)
        _ = parts.port  # raises when it is no number
    except ValueError as error:
        raise InvalidSetting(setting, text, expected=expected) from error
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment:
        raise InvalidSetting(setting, text, expected=expected)
    return full.rstrip("/")


def segment(name: str) -> str:
    """A name as one piece of a path; the pool "" is spelled "-" there."""
    return quote(name, safe="") or "-"


class Transport:
    def __init__(
        self,
        server: str,
        *,
        token: Secret | str | None = None,
        ca_file: str | None = None,
        patience: Patience | None = None,
        sleep: Sleep = time.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.server = server_address(server)
        self.patience = patience or Patience()
        self.sleep = sleep
        self.chance = chance
        secret = token.reveal() if isinstance(token, Secret) else token
        self._http = httpx.Client(
            base_url=self.server,
            headers={
                "Accept": "application/json",
                "User-Agent": f"virtflow/{__version__}",
                **({"Authorization": f"Bearer {secret}"} if secret else {}),
            },
            timeout=self.patience.timeout_s,
            verify=_authorities(self.server, ca_file),
            # a proxy knows another 127.0.0.1 than we do
            trust_env=not _is_loopback(self.server),
        )

    def close(self) -> None:
        self._http.close()

    def get(self, path: str, of: type[R], params: Params | None = None) -> R:
        return read(self.send("GET", path, params=params).content, of)

    def post(self, path: str, of: type[R], body: object = None, params: Params | None = None) -> R:
        return read(self.send("POST", path, params=params, body=body).content, of)

    def put(self, path: str, of: type[R], body: object, *, if_match: int | None = None) -> R:
        return read(self.send("PUT", path, body=body, if_match=if_match).content, of)

    def patch(self, path: str, of: type[R], body: object, *, if_match: int | None = None) -> R:
        return read(self.send("PATCH", path, body=body, if_match=if_match).content, of)

    def delete(self, path: str, *, if_match: int | None = None) -> None:
        self.send("DELETE", path, if_match=if_match)

    def send(
        self,
        method: str,
        path: str,
        *,
        params: Params | None = None,
        body: object = None,
        if_match: int | None = None,
    ) -> httpx.Response:
        """The answer below 400; ApiError, or NotReachable when nobody answered in time."""
        request = self._http.build_request(
            method,
            path,
            params=_query(params or {}),
            content=None if body is None else msgspec.json.encode(body),
            headers=_headers(method, has_body=body is not None, if_match=if_match),
        )
        # repeating a conditional write whose answer was lost would be refused because of our own success
        lost_tries_max = self.patience.tries_max if if_match is None else 1
        waited_s, tries = 0.0, 0
        while True:
            result, asked_wait_s, tries_max = self._try(request, lost_tries_max)
            if isinstance(result, httpx.Response):
                return result
            wait_s = max(asked_wait_s, self.patience.wait_s(tries, self.chance()))
            tries, waited_s = tries + 1, waited_s + wait_s
            if tries >= tries_max or waited_s > self.patience.total_wait_s_max:
                raise result
            self.sleep(wait_s)

    def _try(
        self, request: httpx.Request, lost_tries_max: int
    ) -> tuple[httpx.Response | ApiError | BadAnswer | NotReachable, float, int]:
        """The answer or the error; how long the server asks us to wait; how often the same may be sent at most."""
        try:
            response = self._http.send(request)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            return self.not_reachable(error), 0.0, self.patience.connect_tries_max
        except httpx.TransportError as error:
            return self.not_reachable(error), 0.0, lost_tries_max
        if response.is_success:
            return response, 0.0, 1
        if response.is_redirect:
            return self._redirected(response), 0.0, 1
        refusal = read_problem(response.status_code, response.reason_phrase, response.content)
        is_busy = refusal.status in BUSY or refusal.code == STILL_AT_IT
        tries_max = self.patience.tries_max if is_busy else 1
        return refusal, _retry_after_s(response), tries_max

    def stream(self, path: str, *, params: Params, headers: Mapping[str, str], timeout_s: float) -> httpx.Response:
        """An open answer to be read line by line; the caller closes it."""
        request = self._http.build_request(
            "GET",
            path,
            params=_query(params),
            headers=headers,
            timeout=httpx.Timeout(self.patience.timeout_s, read=timeout_s),
        )
        response = self._http.send(request, stream=True)
        if response.is_success:
            return response
        try:
            raise read_problem(response.status_code, response.reason_phrase, response.read())
        finally:
            response.close()

    def not_reachable(self, error: Exception) -> NotReachable:
        return NotReachable(self.server, _cause(error))

    def _redirected(self, response: httpx.Response) -> BadAnswer:
        target = response.headers.get("Location", "another place")
        return BadAnswer(f"{self.server} sends us on to {target}", remedy="name that server instead")


def _authorities(server: str, ca_file: str | None) -> ssl.SSLContext | bool:
    """Whose certificates count. Without TLS nobody's, since reading the usual list takes 30 ms."""
    if not server.startswith("https:"):
        return False
    if ca_file is None:
        return True
    try:
        return ssl.create_default_context(cafile=ca_file)
    except OSError as error:  # also what is no certificate
        raise InvalidSetting("ca_file", ca_file, expected="a file with certificates in PEM form") from error


def _headers(method: str, *, has_body: bool, if_match: int | None) -> dict[str, str]:
    headers = {}
    if has_body:
        headers["Content-Type"] = "application/json"
    if method == "POST":
        # the same key in every repetition: what was done once is answered again, not done again
        headers["Idempotency-Key"] = str(uuid.uuid4())
    if if_match is not None:
        headers["If-Match"] = f'"{if_match}"'
    return headers


def _query(params: Params) -> httpx.QueryParams:
    pairs: list[tuple[str, Value | None]] = []
    for name, value in params.items():
        if value is None:
            continue
        several = value if isinstance(value, Sequence) and not isinstance(value, str) else (value,)
        pairs += [(name, _text(one)) for one in several]
    return httpx.QueryParams(pairs)


def _text(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _retry_after_s(response: httpx.Response) -> float:
    """Only the form in seconds: it is the one our server writes."""
    try:
        return max(0.0, float(response.headers.get("Retry-After", "0")))
    except ValueError:
        return 0.0


def _is_loopback(server: str) -> bool:
    host = urlsplit(server).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _cause(error: Exception) -> str:
    """'connection refused' instead of '[Errno 111] Connection refused'."""
    if isinstance(error, httpx.TimeoutException):
        return "no answer in time"
    text = str(error) or type(error).__name__
    return text.partition("] ")[2] or text
