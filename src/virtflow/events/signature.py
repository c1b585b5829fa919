"""Signatures of webhooks as Standard Webhooks has them: HMAC-SHA256 over id, time and body."""

import base64
import hashlib
import hmac
from collections.abc import Iterable

from virtflow.model.secret import Secret
from virtflow.model.webhook import secret_key

VERSION = "v1"
#: a message whose time is further away than this is not believed
TOLERANCE_S = 300


def sign(secrets: Iterable[Secret], *, message_id: str, timestamp: int, body: bytes) -> str:
    """One signature for each secret, so that either of two passes while one takes the other's place."""
    return " ".join(f"{VERSION},{_digest(secret.reveal(), message_id, str(timestamp), body)}" for secret in secrets)


def is_signed(
    secrets: Iterable[Secret], *, message_id: str, timestamp: str, signature: str, body: bytes, now_s: float
) -> bool:
    """Whether somebody who knows one of the secrets sent exactly this, just now."""
    if not (timestamp.isascii() and timestamp.isdecimal() and len(timestamp) < 15):
        return False
    if abs(now_s - int(timestamp)) > TOLERANCE_S:
        return False
    expected = [_digest(secret.reveal(), message_id, timestamp, body).encode() for secret in secrets]
    given = [word.partition(",")[2].encode() for word in signature.split(" ") if word.startswith(f"{VERSION},")]
    return any(hmac.compare_digest(one, other) for one in given for other in expected)


def _digest(secret: str, message_id: str, timestamp: str, body: bytes) -> str:
    signed = b".".join((message_id.encode(), timestamp.encode(), body))
    return base64.b64encode(hmac.digest(secret_key(secret), signed, hashlib.sha256)).decode()
