"""Hosts, as an operator says and reads them."""

from collections.abc import Mapping, Sequence

import msgspec

from virtflow.client.pages import Pages
from virtflow.client.records import Host, Record
from virtflow.client.transport import Transport, segment

PATH = "/v1/hosts"


class HostItems(Record, frozen=True, kw_only=True):
    items: tuple[msgspec.Raw, ...] = ()


class Hosts:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(
        self,
        *,
        pool: str | None = None,
        zone: str | None = None,
        labels: Mapping[str, str] | None = None,
        cordoned: bool | None = None,
        missing: bool | None = None,
        source: str | None = None,
        limit: int | None = None,
    ) -> Pages[Host]:
        """In name order; `beside["inventory"]` says how fresh it is."""
        params = {
            "pool": pool,
            "zone": zone,
            "label": [f"{key}={value}" for key, value in (labels or {}).items()],
            "cordoned": cordoned,
            "missing": missing,
            "source": source,
        }
        return Pages(self._transport, PATH, Host, params, limit=limit)

    def get(self, name: str) -> Host:
        return self._transport.get(f"{PATH}/{segment(name)}", Host)

    def create(self, host: Mapping[str, object]) -> Host:
        return self._transport.post(PATH, Host, host)

    def create_many(self, hosts: Sequence[Mapping[str, object]]) -> int:
        """All or none; returns how many."""
        return len(self._transport.post(f"{PATH}/batch", HostItems, {"items": hosts}).items)

    def replace(self, name: str, host: Mapping[str, object], *, version: int | None = None) -> Host:
        return self._transport.put(f"{PATH}/{segment(name)}", Host, host, if_match=version)

    def change(self, name: str, changes: Mapping[str, object], *, version: int | None = None) -> Host:
        """JSON merge patch: what is not named stays, null takes away."""
        return self._transport.patch(f"{PATH}/{segment(name)}", Host, changes, if_match=version)

    def delete(self, name: str, *, version: int | None = None) -> None:
        self._transport.delete(f"{PATH}/{segment(name)}", if_match=version)

    def cordon(self, name: str) -> Host:
        return self._transport.post(f"{PATH}/{segment(name)}/cordon", Host)

    def uncordon(self, name: str) -> Host:
        return self._transport.post(f"{PATH}/{segment(name)}/uncordon", Host)
