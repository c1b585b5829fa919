"""Secrets at rest: sealed by the first of our keys, opened by any of them. Without keys they stand in the clear."""

import base64
import binascii
import hashlib
import importlib
import os
import re
import stat
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from virtflow.model.errors import InvalidSetting, Unavailable, VirtflowError

SETTING = "VIRTFLOW_SECRETS_KEY_FILE"
KEY_BYTES = 32
KEYS_MAX = 16
FILE_BYTES_MAX = 16_384
#: instead of the first key: what is sealed is opened, and nothing is sealed any more
IN_THE_CLEAR = "plain"
_NONCE_BYTES = 12
_SEALED = re.compile(r"sealed:([0-9a-f]{16}):")
_RULE = f"a file with one key per line, each {KEY_BYTES} bytes in base64 (openssl rand -base64 {KEY_BYTES})"


class Vault(Protocol):
    #: names the key that seals now; empty: none does
    seals_with: str
    #: names of all keys that open
    opens_with: frozenset[str]

    def seal(self, text: str, about: str) -> str:
        """What may be written down. `about`: whose secret it is; sealed, it is good for nobody else."""
        ...

    def open(self, text: str, about: str) -> str:
        """What was sealed, or was written in the clear. Unavailable without its key."""
        ...


class Clear:
    """No key: nothing is sealed, and nothing that is can be opened."""

    seals_with = ""
    opens_with: frozenset[str] = frozenset()

    def seal(self, text: str, about: str) -> str:
        return text

    def open(self, text: str, about: str) -> str:
        if name := key_of(text):
            raise _no_key(name)
        return text


CLEAR = Clear()


class KeyVault:
    """`keys`: name → 32 bytes; the first seals, unless nothing is to be sealed any more."""

    def __init__(self, keys: Mapping[str, bytes], *, seals: bool) -> None:
        ciphers: Any = importlib.import_module("cryptography.hazmat.primitives.ciphers.aead")  # not at every start
        self._ciphers: dict[str, Any] = {name: ciphers.AESGCM(key) for name, key in keys.items()}
        self.seals_with = next(iter(keys)) if seals else ""
        self.opens_with = frozenset(keys)

    def seal(self, text: str, about: str) -> str:
        if not self.seals_with or not text:
            return text
        nonce = os.urandom(_NONCE_BYTES)
        sealed = nonce + self._ciphers[self.seals_with].encrypt(nonce, text.encode(), about.encode())
        return f"sealed:{self.seals_with}:{base64.b64encode(sealed).decode()}"

    def open(self, text: str, about: str) -> str:
        name = key_of(text)
        if not name:
            return text
        if name not in self._ciphers:
            raise _no_key(name)
        sealed = base64.b64decode(text.rpartition(":")[2])
        try:
            opened: bytes = self._ciphers[name].decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], about.encode())
        except Exception as error:  # InvalidTag, of a library that is not imported here
            raise Unavailable(
                f"the secret of {about} was changed in the database", remedy="give it a new one: it cannot be opened"
            ) from error
        return opened.decode()


def key_of(text: str) -> str:
    """The name of the key that sealed it; empty when it stands in the clear."""
    found = _SEALED.match(text)
    return found[1] if found else ""


def open_vault(file: Path | None) -> Vault:
    """The keys of a file. InvalidSetting says what is wrong with it, and never what is in it."""
    if file is None:
        return CLEAR
    lines = _lines(file)
    seals = lines[0] != IN_THE_CLEAR
    keys = [_key(file, line, number) for number, line in enumerate(lines, 1) if line != IN_THE_CLEAR or number > 1]
    if not keys:
        raise _wrong(file, "it holds no key")
    try:
        return KeyVault({_name(key): key for key in keys}, seals=seals)
    except ImportError as error:
        raise _wrong(file, f"the package cryptography cannot be loaded ({error})") from error


def _lines(file: Path) -> Sequence[str]:
    try:
        # a named pipe must not keep us waiting for its writer
        with os.fdopen(os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as opened:
            if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
                raise _wrong(file, "it is not a file")
            content = opened.read(FILE_BYTES_MAX + 1)
        text = content.decode("ascii")
    except OSError as error:
        raise _wrong(file, error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise _wrong(file, "it is not text") from error
    lines = [line.strip() for line in text.splitlines()]
    lines = [line for line in lines if line and not line.startswith("#")]
    if not lines:
        raise _wrong(file, "it holds no key")
    if len(content) > FILE_BYTES_MAX or len(lines) > KEYS_MAX:
        raise _wrong(file, f"it holds more than {KEYS_MAX} keys")
    return lines


def _key(file: Path, line: str, number: int) -> bytes:
    try:
        key = base64.b64decode(line, validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != KEY_BYTES:
        raise _wrong(file, f"key {number} is not {KEY_BYTES} bytes in base64")
    return key


def _name(key: bytes) -> str:
    """Says which key it is, and nothing of it."""
    return hashlib.sha256(b"virtflow secrets key " + key).hexdigest()[:16]


class UnusableKeys(InvalidSetting):
    """The setting is well formed, but what it names is of no use."""

    def __init__(self, detail: str, *, remedy: str, value: str = "") -> None:
        VirtflowError.__init__(self, f"{SETTING}{detail}", remedy=remedy)
        self.setting = SETTING
        self.value = value


def _wrong(file: Path, cause: str) -> UnusableKeys:
    return UnusableKeys(f"={str(file)!r} cannot be used: {cause}", value=str(file), remedy=f"it must be {_RULE}")


def missing_keys(names: Iterable[str]) -> UnusableKeys:
    """Secrets in the database are sealed with keys that nobody gave us."""
    return UnusableKeys(
        f" lacks a key: secrets in the database are sealed with {', '.join(sorted(names))}",
        remedy="add that key to the file that the setting names, on a line of its own (docs/webhooks.md)",
    )


def _no_key(name: str) -> Unavailable:
    return Unavailable(
        f"a secret is sealed with the key {name}, which this process does not have",
        remedy=f"add it to the file of {SETTING} and start again",
    )
