"""Ids of tasks and VMs in 16 bytes each, so that millions of them are one array that can be sorted and searched."""

import hashlib

import numpy as np
from numpy.typing import NDArray

from virtflow.model.errors import InvalidRequest
from virtflow.model.names import id_from_text, id_to_text

Keys = NDArray[np.bytes_]

KEY_BYTES = 16
_UUID_LENGTH = 36


class KeyBook:
    """Ids that clients chose are longer or shorter: their digest stands for them, and their text is kept here."""

    def __init__(self) -> None:
        self._chosen: dict[bytes, str] = {}

    def of_text(self, text: str) -> bytes:
        if len(text) == _UUID_LENGTH and text[8] == text[13] == text[18] == text[23] == "-":
            try:
                return bytes.fromhex(text.replace("-", ""))
            except ValueError:
                pass
        try:
            stored = id_from_text(text)
        except InvalidRequest:
            stored = text.encode(errors="replace")
        return self.of_row(stored)

    def of_row(self, stored: bytes) -> bytes:
        if len(stored) == KEY_BYTES:
            return stored
        key = digest(stored)
        self._chosen[key] = stored.strip(b"\0").decode(errors="replace")
        return key

    def text(self, key: bytes) -> str:
        whole = bytes(key).ljust(KEY_BYTES, b"\0")  # NumPy hands keys out without the zeros at their end
        return self._chosen.get(whole) or id_to_text(whole)


def digest(text: bytes) -> bytes:
    return hashlib.blake2b(text, digest_size=KEY_BYTES).digest()


def key_array(joined: bytes | bytearray) -> Keys:
    return np.frombuffer(bytes(joined), dtype=f"S{KEY_BYTES}")


def places_of(wanted: Keys, among: Keys) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Where each of `wanted` stands in the sorted `among`, and whether it stands there at all."""
    if not len(among):
        return np.zeros(len(wanted), np.intp), np.zeros(len(wanted), np.bool_)
    places = np.minimum(np.searchsorted(among, wanted), len(among) - 1)
    return places, among[places] == wanted
