"""Lease objects of a Kubernetes API: read, made, and replaced by compare-and-set."""

import json
import ssl
from pathlib import Path
from typing import Any

import httpx

from virtflow.model.errors import Busy, Unavailable, VirtflowError

#: a Lease is smaller than 1 KiB; labels and annotations may add to it
ANSWER_BYTES_MAX = 2**20
TOKEN_BYTES_MAX = 2**16
RETRY_AFTER_S_MAX = 60
#: whoever asks has a shorter deadline of his own
CALL_S_MAX = 60.0
_HEADERS = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "virtflow"}
_CONFLICT = 409

Lease = dict[str, Any]


class Refused(Unavailable):
    """The API answers, and says no: asking again cannot help until somebody changes something there."""

    def __init__(self, status: int, detail: str, *, remedy: str) -> None:
        super().__init__(detail, remedy=remedy)
        self.status = status


class Untrusted(Unavailable):
    """What answers there cannot show that it is the API."""


class LeaseApi:
    """`account`: the folder with `token` and `ca.crt`. Deadlines are the caller's, below `CALL_S_MAX`."""

    def __init__(self, url: str, *, account: Path, namespace: str, name: str) -> None:
        self.url = url.rstrip("/")
        self.namespace = namespace
        self._name = name
        self._account = account
        self._folder = f"{self.url}/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._client: httpx.AsyncClient | None = None

    async def read(self) -> Lease | None:
        return await self._ask("GET", f"{self._folder}/{self._name}", verb="get", absent=(404,))

    async def create(self, lease: Lease, *, dry: bool = False) -> Lease | None:
        """None when there is one. A rehearsal (`dry`) answers nothing of interest."""
        return await self._ask("POST", self._folder, verb="create", body=lease, dry=dry, absent=(_CONFLICT,))

    async def replace(self, lease: Lease, *, dry: bool = False) -> Lease | None:
        """None when it is not as it was read. One that was deleted meanwhile is there again: so Kubernetes wants it."""
        path = f"{self._folder}/{self._name}"
        return await self._ask("PUT", path, verb="update", body=lease, dry=dry, absent=(_CONFLICT,))

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()

    async def _ask(
        self,
        method: str,
        url: str,
        *,
        verb: str,
        absent: tuple[int, ...],
        body: Lease | None = None,
        dry: bool = False,
    ) -> Lease | None:
        status, headers, text = await self._exchange(method, url, body, dry=dry)
        if status in absent:
            return None
        if status == httpx.codes.TOO_MANY_REQUESTS:
            raise Busy(f"the Kubernetes API at {self.url} is busy", retry_after_s=_retry_after_s(headers))
        if status in (401, 403, 404):
            raise self._refused(status, verb)
        if status not in (200, 201):
            raise Unavailable(f"the Kubernetes API at {self.url} answered {status}")
        return {} if dry else self._lease(text)

    async def _exchange(self, method: str, url: str, body: Lease | None, *, dry: bool) -> tuple[int, Any, bytes]:
        """Token and certificates are read anew: Kubernetes exchanges them while we run."""
        try:
            async with self._connected().stream(
                method,
                url,
                params={"dryRun": "All"} if dry else None,
                headers=self._authorization(),
                json=body,
            ) as response:
                text = bytearray()
                async for chunk in response.aiter_raw():
                    text += chunk
                    if len(text) > ANSWER_BYTES_MAX:
                        raise Unavailable(f"{self.url} answers with more than any Lease has")
                return response.status_code, response.headers, bytes(text)
        except (httpx.HTTPError, OSError) as error:
            raise self._unreachable(error) from error

    def _connected(self) -> httpx.AsyncClient:
        if self._client is None:
            # the certificate of the cluster alone, and no proxy: the token is for nobody else's eyes
            trust = (
                ssl.create_default_context(cafile=self._account / "ca.crt") if self.url.startswith("https:") else False
            )
            self._client = httpx.AsyncClient(
                headers=_HEADERS, timeout=CALL_S_MAX, follow_redirects=False, trust_env=False, verify=trust
            )
        return self._client

    def _authorization(self) -> dict[str, str]:
        with (self._account / "token").open(encoding="ascii") as file:
            token = file.read(TOKEN_BYTES_MAX).strip()
        return {"Authorization": f"Bearer {token}"} if token else {}

    def _lease(self, text: bytes) -> Lease:
        try:
            lease = json.loads(text)
            if isinstance(lease["metadata"]["resourceVersion"], str) and isinstance(lease.get("spec", {}), dict):
                return dict(lease)
        except (ValueError, TypeError, KeyError):
            pass
        raise Unavailable(f"{self.url} answered with something else than a Lease")

    def _refused(self, status: int, verb: str) -> Refused:
        where = f"in namespace {self.namespace!r}"
        if status == 401:
            return Refused(
                status,
                f"the Kubernetes API at {self.url} does not accept the token in {self._account}",
                remedy="mount the token of a service account there",
            )
        if status == 403:
            return Refused(
                status,
                f"the service account may not {verb} leases {where}",
                remedy=f"give it a Role with get, create and update of leases (coordination.k8s.io) {where}",
            )
        return Refused(
            status,
            f"there is no namespace {self.namespace!r} at {self.url}, or no leases in it",
            remedy="name the Lease as <namespace>/<name> with a namespace that exists",
        )

    def _unreachable(self, error: Exception) -> VirtflowError:
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, ssl.SSLCertVerificationError):
                return Untrusted(
                    f"the certificate of {self.url} is not one of {self._account / 'ca.crt'}: {cause.verify_message}",
                    remedy="mount the certificate of the cluster's authority there",
                )
            cause = cause.__cause__ or cause.__context__
        return Unavailable(f"the Kubernetes API at {self.url} cannot be asked: {str(error) or type(error).__name__}")


def _retry_after_s(headers: Any) -> int:
    told = headers.get("Retry-After", "")
    return min(int(told), RETRY_AFTER_S_MAX) if told.isdecimal() else 1
