"""Signatures: the judge of the standard accepts ours, and nothing that is not ours passes."""

import base64
import datetime
import os
import random

import pytest
import standardwebhooks
from hypothesis import given
from hypothesis import strategies as st

from virtflow.events.signature import TOLERANCE_S, is_signed, sign
from virtflow.model.secret import Secret
from virtflow.model.webhook import secret_key, secret_text

KEY = Secret(secret_text(bytes(range(24))))
OTHER = Secret(secret_text(bytes(range(1, 25))))
NOW_S = 1_795_124_246
ID, BODY = "history-7", b'{"type":"virtflow.task.failed"}'


def checked(*, secrets: tuple[Secret, ...] = (KEY,), now_s: float = NOW_S, **changed: object) -> bool:
    given = {
        "message_id": ID,
        "timestamp": str(NOW_S),
        "signature": sign([KEY], message_id=ID, timestamp=NOW_S, body=BODY),
        "body": BODY,
        **changed,
    }
    return is_signed(secrets, now_s=now_s, **given)  # type: ignore[arg-type]


def test_the_official_vector_has_the_official_signature() -> None:
    secret = Secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    signature = sign(
        [secret], message_id="msg_p5jXN8AQM9LWM0D4loKWxJek", timestamp=1614265330, body=b'{"test": 2432232314}'
    )
    assert signature == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@given(st.binary(min_size=24, max_size=64), st.binary(max_size=200))
def test_the_judge_signs_as_we_do(key: bytes, body: bytes) -> None:
    text = body.hex()
    secret = Secret(secret_text(key))
    judge = standardwebhooks.Webhook(secret.reveal())
    at = datetime.datetime.fromtimestamp(NOW_S, datetime.UTC)
    assert sign([secret], message_id=ID, timestamp=NOW_S, body=text.encode()) == judge.sign(ID, at, text)


def test_either_of_two_secrets_passes_while_one_takes_the_others_place() -> None:
    both = sign([OTHER, KEY], message_id=ID, timestamp=NOW_S, body=BODY)
    assert both.count("v1,") == 2
    for known in ((KEY,), (OTHER,), (KEY, OTHER)):
        assert checked(secrets=known, signature=both)
    assert not checked(secrets=(Secret(secret_text(b"x" * 24)),), signature=both)


@pytest.mark.parametrize(
    "changed",
    [
        {"message_id": "history-8"},
        {"timestamp": str(NOW_S + 1)},
        {"timestamp": "soon"},
        {"timestamp": ""},
        {"timestamp": "9" * 400},
        {"timestamp": "١٧٩٥١٢٤٢٤٦"},
        {"body": BODY + b" "},
        {"body": b""},
        {"signature": ""},
        {"signature": "v1,"},
        {"signature": "v2,abc"},
        {"secrets": (OTHER,)},
        {"secrets": ()},
        {"now_s": NOW_S + TOLERANCE_S + 1},
        {"now_s": NOW_S - TOLERANCE_S - 1},
    ],
)
def test_whatever_was_changed_or_is_old_is_refused(changed: dict[str, object]) -> None:
    assert not checked(**changed)  # type: ignore[arg-type]
    assert checked()


@pytest.mark.parametrize("times", [20_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_no_mutated_message_passes(times: int) -> None:
    """One bit anywhere in id, time, signature or body."""
    chance = random.Random(times)
    digest = base64.b64decode(sign([KEY], message_id=ID, timestamp=NOW_S, body=BODY).partition(",")[2])
    for _ in range(times):
        message_id, signature, body = bytearray(ID.encode()), bytearray(digest), bytearray(BODY)
        part = chance.choice((message_id, signature, body))
        part[chance.randrange(len(part))] ^= 1 << chance.randrange(8)
        given = f"v1,{base64.b64encode(signature).decode()}"
        assert not checked(message_id=message_id.decode("latin-1"), signature=given, body=bytes(body))


def test_a_secret_is_what_the_standard_says() -> None:
    assert secret_key(KEY.reveal()) == bytes(range(24))
    assert secret_key(secret_text(os.urandom(64)))
    for wrong in (
        "",
        "whsec_",
        "whsec_AAAA",
        secret_text(b"x" * 23),
        secret_text(b"x" * 65),
        KEY.reveal()[6:],
        "whsec_ü",
    ):
        with pytest.raises(ValueError, match="must be whsec_"):
            secret_key(wrong)
