"""A knock as a message: ids of tasks, many at once, and nothing else."""

from collections.abc import Sequence

import msgspec

from virtflow.model.errors import InvalidRequest
from virtflow.model.limits import IDS_PER_MESSAGE_MAX, MESSAGE_BYTES_MAX
from virtflow.model.names import id_from_text, id_to_text

CONTENT_TYPE = "application/json"


class Malformed(Exception):
    """Not a knock: reading it again cannot help."""


class Knock(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`{"tasks": ["…", "…"]}`: the ids as the API shows them."""

    tasks: list[str]


_decode = msgspec.json.Decoder(Knock).decode
_encode = msgspec.json.Encoder().encode


def write_knock(ids: Sequence[bytes]) -> bytes:
    return _encode(Knock([id_to_text(key) for key in ids]))


def read_knock(body: bytes) -> list[bytes]:
    if len(body) > MESSAGE_BYTES_MAX:
        raise Malformed(f"{len(body)} bytes, more than the {MESSAGE_BYTES_MAX} of the largest knock")
    try:
        tasks = _decode(body).tasks
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Malformed(f'not {{"tasks": [ids]}}: {error}') from error
    if not 1 <= len(tasks) <= IDS_PER_MESSAGE_MAX:
        raise Malformed(f"{len(tasks)} ids, where 1 to {IDS_PER_MESSAGE_MAX} are allowed")
    try:
        return [id_from_text(task) for task in tasks]
    except InvalidRequest as error:
        raise Malformed(error.detail) from error
