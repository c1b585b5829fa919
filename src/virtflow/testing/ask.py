"""Asking a server on this machine, many times a second: without TLS, and without keeping a connection it may close."""

import httpx

#: one for all: making a client reads the list of all authorities, which takes longer than a hundred answers
_CLIENT = httpx.Client(verify=False, trust_env=False, limits=httpx.Limits(max_keepalive_connections=0))  # noqa: S501


def ask(url: str, *, within_s: float, headers: dict[str, str] | None = None) -> httpx.Response | None:
    """None when it does not answer in time, or nobody listens."""
    try:
        return _CLIENT.get(url, timeout=within_s, headers=headers)
    except httpx.HTTPError:
        return None
