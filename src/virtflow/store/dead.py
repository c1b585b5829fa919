"""Dead letters, as rows."""

from collections.abc import Sequence

from virtflow.model.dead import DeadKind, DeadLetter
from virtflow.store.secrets import with_secrets
from virtflow.store.session import Reader, Row, Session
from virtflow.store.vault import Vault


def letter_from_row(row: Row, vault: Vault) -> DeadLetter:
    return DeadLetter(
        number=row[0],
        kind=DeadKind(row[1]),
        id=row[2],
        code=row[3],
        reason=row[4],
        body=with_secrets(row[5], vault.open) if row[1] == DeadKind.TASK else row[5],
        at_ms=row[6],
        requeued_ms=row[7],
        requeued_as=row[8],
    )


class DeadReads:
    _near: Reader
    _far: Reader
    _vault: Vault

    async def dead(
        self, *, with_requeued: bool = False, kind: DeadKind | None = None, after: int = 0, limit: int
    ) -> list[DeadLetter]:
        return [
            letter_from_row(row, self._vault)
            for row in await self._far.rows("dead_page", after, with_requeued, kind, limit)
        ]

    async def dead_letter(self, letter_id: str) -> DeadLetter | None:
        rows = await self._near.rows("dead_by_subject", letter_id)
        return letter_from_row(rows[0], self._vault) if rows else None

    async def dead_counts(self) -> dict[DeadKind, int]:
        counts = {DeadKind(row[0]): row[1] for row in await self._far.rows("count_dead")}
        return {kind: counts.get(kind, 0) for kind in DeadKind}


class DeadWrites:
    _session: Session
    _vault: Vault

    async def add_dead(self, letters: Sequence[DeadLetter]) -> None:
        await self._session.each("add_dead", [_columns(letter, self._vault) for letter in letters])

    async def requeue_dead(self, letter_id: str, *, now_as: str | None, at_ms: int) -> bool:
        return bool(await self._session.rows("requeue_dead", at_ms, now_as, letter_id))

    async def remove_dead(self, letter_id: str) -> bool:
        return bool(await self._session.rows("remove_dead", letter_id))

    async def forget_some_dead(self, before_ms: int, limit: int) -> int:
        return len(await self._session.rows("forget_dead", before_ms, limit))


def _columns(letter: DeadLetter, vault: Vault) -> Row:
    body = with_secrets(letter.body, vault.seal) if letter.kind is DeadKind.TASK else letter.body
    return (letter.kind.value, letter.code, letter.reason, body, letter.at_ms, letter.id)
