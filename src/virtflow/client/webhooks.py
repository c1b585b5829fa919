"""Webhooks: who is told of events, what became of each message, and telling it again."""

from collections.abc import Mapping

from virtflow.client.pages import Pages
from virtflow.client.records import Delivery, Webhook
from virtflow.client.transport import Transport, segment

PATH = "/v1/webhooks"


class Webhooks:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self, *, limit: int | None = None) -> Pages[Webhook]:
        return Pages(self._transport, PATH, Webhook, limit=limit)

    def get(self, name: str) -> Webhook:
        return self._transport.get(f"{PATH}/{segment(name)}", Webhook)

    def create(self, webhook: Mapping[str, object]) -> Webhook:
        """`secret` of the answer is shown this once."""
        return self._transport.post(PATH, Webhook, webhook)

    def change(self, name: str, changes: Mapping[str, object], *, version: int | None = None) -> Webhook:
        """`url`, `events`, `description`; what is not named stays."""
        return self._transport.patch(f"{PATH}/{segment(name)}", Webhook, changes, if_match=version)

    def delete(self, name: str, *, version: int | None = None) -> None:
        self._transport.delete(f"{PATH}/{segment(name)}", if_match=version)

    def enable(self, name: str) -> Webhook:
        return self._transport.post(f"{PATH}/{segment(name)}/enable", Webhook)

    def disable(self, name: str) -> Webhook:
        return self._transport.post(f"{PATH}/{segment(name)}/disable", Webhook)

    def rotate(self, name: str, *, overlap_s: int | None = None, secret: str | None = None) -> Webhook:
        """The new `secret` is shown this once; the former one signs too until the overlap ends."""
        said = {"overlap_s": overlap_s, "secret": secret}
        body = {key: value for key, value in said.items() if value is not None}
        return self._transport.post(f"{PATH}/{segment(name)}/rotate", Webhook, body)

    def test(self, name: str) -> Delivery:
        """Sends a message now; says how that went."""
        return self._transport.post(f"{PATH}/{segment(name)}/test", Delivery)

    def replay(self, name: str, *, after: int) -> Webhook:
        return self._transport.post(f"{PATH}/{segment(name)}/replay", Webhook, {"after": after})

    def deliveries(self, name: str, *, state: str | None = None, limit: int | None = None) -> Pages[Delivery]:
        """The newest first. The name "-" stands for the callbacks of tasks."""
        return Pages(self._transport, f"{PATH}/{segment(name)}/deliveries", Delivery, {"state": state}, limit=limit)

    def redeliver(self, name: str, delivery_id: str) -> Delivery:
        return self._transport.post(f"{PATH}/{segment(name)}/deliveries/{segment(delivery_id)}/redeliver", Delivery)
