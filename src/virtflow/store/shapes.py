"""Shapes, interned: a request carries a number instead of its resources, labels and weights."""

import hashlib
from collections.abc import Sequence

import msgspec

from virtflow.model.shape import Shape
from virtflow.store.interned import Interned
from virtflow.store.session import Reader, Session

_encode = msgspec.json.Encoder(order="deterministic").encode
_decode = msgspec.json.Decoder(Shape).decode
_DIGEST_BYTES = 16


def _digest(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=_DIGEST_BYTES).digest()


async def shapes_by_id(ids: Sequence[int], reader: Reader, interned: Interned) -> dict[int, Shape]:
    found = {shape_id: shape for shape_id in ids if (shape := interned.shape(shape_id)) is not None}
    missing = [shape_id for shape_id in dict.fromkeys(ids) if shape_id not in found]
    if missing:
        for shape_id, body in await reader.rows("shapes_by_id", missing):
            found[shape_id] = _decode(body)
            interned.learn(shape_id, found[shape_id])
    return found


class ShapeReads:
    _near: Reader
    _interned: Interned

    async def shapes(self, ids: Sequence[int]) -> dict[int, Shape]:
        return await shapes_by_id(ids, self._near, self._interned)


class ShapeWrites:
    _session: Session
    _interned: Interned

    async def intern_shapes(self, shapes: Sequence[Shape]) -> list[int]:
        ids = {shape: shape_id for shape in set(shapes) if (shape_id := self._interned.shape_id(shape)) is not None}
        missing = {_digest(body := _encode(shape)): (shape, body) for shape in set(shapes) - ids.keys()}
        if missing:
            for digest, shape_id in await self._make_shapes(missing):
                ids[missing[digest][0]] = shape_id
                self._interned.learn(shape_id, missing[digest][0])
        return [ids[shape] for shape in shapes]

    async def _make_shapes(self, missing: dict[bytes, tuple[Shape, bytes]]) -> list[tuple[bytes, int]]:
        digests = sorted(missing)
        known: dict[bytes, int] = dict(await self._session.rows("shape_ids", digests))  # type: ignore[arg-type]
        new = [digest for digest in digests if digest not in known]
        if new:
            rows = [(missing[digest][0].pool, missing[digest][1].decode(), digest) for digest in new]
            await self._session.each("add_shape", rows)
            known |= dict(await self._session.rows("shape_ids", new))  # type: ignore[arg-type]
        return list(known.items())
