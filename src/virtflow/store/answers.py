"""Answers by Idempotency-Key, as rows."""

from collections.abc import Sequence

import msgspec

from virtflow.model.errors import Conflict
from virtflow.store.contract import Answer
from virtflow.store.hosts import json_text
from virtflow.store.session import Reader, Row, Session

_headers = msgspec.json.Decoder(tuple[tuple[str, str], ...]).decode


def answer_from_row(row: Row) -> Answer:
    principal, key, request_hash, status, body, created_ms, headers = row
    return Answer(
        principal=principal,
        key=key,
        request_hash=request_hash,
        status=status,
        body=body,
        created_ms=created_ms,
        headers=_headers(headers),
    )


class AnswerReads:
    _near: Reader

    async def answer(self, principal: str, key: str) -> Answer | None:
        rows = await self._near.rows("answer_by_key", principal, key)
        return answer_from_row(rows[0]) if rows else None


class AnswerWrites:
    _session: Session

    async def remember_answers(self, answers: Sequence[Answer]) -> None:
        if not answers:
            return
        if taken := await self._session.each("add_answer", [_columns(answer) for answer in answers]):
            raise Conflict(
                f"the Idempotency-Key {taken[0][-1]!r} is in use",
                code="idempotency_key_in_use",
                remedy="send it again: the first one's answer is remembered",
            )

    async def forget_some_answers(self, before_ms: int, limit: int) -> int:
        return len(await self._session.rows("forget_answers", before_ms, limit))


def _columns(answer: Answer) -> Row:
    return (
        answer.principal,
        answer.request_hash,
        answer.status,
        answer.body,
        answer.created_ms,
        json_text(answer.headers),
        answer.key,
    )
