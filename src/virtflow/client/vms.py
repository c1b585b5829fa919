"""VMs: ask for them, read them, give them back."""

from collections.abc import Mapping, Sequence

import msgspec

from virtflow.client.pages import Pages
from virtflow.client.records import Deleted, Record, Vm, read
from virtflow.client.transport import Transport, segment

PATH = "/v1/vms"
Order = Mapping[str, object]


class VmItems(Record, frozen=True, kw_only=True):
    items: tuple[msgspec.Raw, ...] = ()


class Vms:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(
        self,
        *,
        pool: str | None = None,
        host: str | None = None,
        status: str | None = None,
        placed: bool | None = None,
        limit: int | None = None,
    ) -> Pages[Vm]:
        params = {"pool": pool, "host": host, "status": status, "placed": placed}
        return Pages(self._transport, PATH, Vm, params, limit=limit)

    def get(self, name: str) -> Vm:
        """By name or id; one that waits says why in `explanation`."""
        return self._transport.get(f"{PATH}/{segment(name)}", Vm)

    def create(self, order: Order) -> Vm:
        """Accepted, and perhaps placed already: see `host`."""
        return self._transport.post(PATH, Vm, order)

    def create_many(self, orders: Sequence[Order], *, all_or_nothing: bool = False) -> Sequence[Vm]:
        mode = "all_or_nothing" if all_or_nothing else "each"
        answer = self._transport.post(f"{PATH}/batch", VmItems, {"items": orders, "mode": mode})
        return tuple(read(raw, Vm) for raw in answer.items)

    def delete(self, name: str, *, version: int | None = None) -> None:
        """Gives its room back; fine again for one deleted before."""
        self._transport.delete(f"{PATH}/{segment(name)}", if_match=version)

    def delete_many(self, names: Sequence[str]) -> Deleted:
        return self._transport.post(f"{PATH}/batch-delete", Deleted, {"names": names})
