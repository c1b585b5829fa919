"""What things may be called, and how ids look from outside and inside."""

import hashlib
import re
import uuid

from virtflow.model.errors import InvalidRequest
from virtflow.model.limits import NAME_LENGTH_MAX

NAME = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
NAME_RULE = f"1 to {NAME_LENGTH_MAX} of a-z, 0-9 and '-', with a letter or digit at both ends"
#: A client's own task id: wider than a name, still safe in a path, a log and a shell.
TASK_ID = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9._:]{0,62}[A-Za-z0-9])?", re.ASCII)
TASK_ID_RULE = "a UUID, or 1 to 64 of A-Z, a-z, 0-9 and '-._:', with a letter or digit at both ends"

_VM_PREFIX = "vm-"
_GIVEN_MARK = b"\x00"
_ID_BYTES = 16
_DERIVED_NAME = re.compile(r"vm-[0-9a-f]{32}", re.ASCII)
_UUID_TEXT = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", re.ASCII)


def is_name(text: str) -> bool:
    return NAME.fullmatch(text) is not None


def id_from_text(text: str) -> bytes:
    """The stored form of an id: 16 bytes for a UUID, the marked text itself for a client's own id."""
    if _UUID_TEXT.fullmatch(text):
        return uuid.UUID(text).bytes
    if TASK_ID.fullmatch(text):
        key = _GIVEN_MARK + text.encode()
        # 16 bytes always mean a UUID, so a text that happens to be that long is made longer
        return key + _GIVEN_MARK if len(key) == _ID_BYTES else key
    raise InvalidRequest(f"not an id: it must be {TASK_ID_RULE}", code="invalid_id")


def id_to_text(key: bytes) -> str:
    if len(key) == _ID_BYTES:
        digits = key.hex()
        return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
    return key.strip(_GIVEN_MARK).decode()


def derived_vm_name(key: bytes) -> str:
    """The name of a VM that was given none. From a UUID it needs no row in the index of names."""
    return _VM_PREFIX + (key if len(key) == _ID_BYTES else hashlib.sha256(key).digest()[:_ID_BYTES]).hex()


def id_from_derived_vm_name(name: str) -> bytes | None:
    return bytes.fromhex(name[len(_VM_PREFIX) :]) if _DERIVED_NAME.fullmatch(name) else None
