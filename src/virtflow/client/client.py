"""One server, with a group of calls per noun."""

import random
import time
from collections.abc import Callable, Mapping
from types import TracebackType

from virtflow.client.dead import Dead
from virtflow.client.errors import ApiError
from virtflow.client.events import Events
from virtflow.client.hosts import Hosts
from virtflow.client.outlets import Outlets
from virtflow.client.pages import Pages
from virtflow.client.placements import Placements
from virtflow.client.pools import Pools
from virtflow.client.records import Capacity, Fleet, Info, Process, Strategy
from virtflow.client.tasks import Tasks
from virtflow.client.transport import Patience, Sleep, Transport
from virtflow.client.vms import Vms
from virtflow.client.webhooks import Webhooks
from virtflow.model.secret import Secret

DEFAULT_SERVER = "http://127.0.0.1:8080"


class Client:
    """Every POST carries an Idempotency-Key, so that repeating it after a lost answer is safe and done for you.

    Calls return records or raise a ClientError. Use it as a context manager, or `close` it.
    """

    def __init__(
        self,
        server: str = DEFAULT_SERVER,
        *,
        token: Secret | str | None = None,
        ca_file: str | None = None,
        patience: Patience | None = None,
        sleep: Sleep = time.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._transport = Transport(server, token=token, ca_file=ca_file, patience=patience, sleep=sleep, chance=chance)
        self.server = self._transport.server
        self.hosts = Hosts(self._transport)
        self.pools = Pools(self._transport)
        self.vms = Vms(self._transport)
        self.tasks = Tasks(self._transport)
        self.dead = Dead(self._transport)
        self.placements = Placements(self._transport)
        self.events = Events(self._transport)
        self.outlets = Outlets(self._transport)
        self.webhooks = Webhooks(self._transport)

    def capacity(
        self,
        resources: Mapping[str, int],
        *,
        pool: str | None = None,
        dedicated: str | None = None,
        labels: Mapping[str, str] | None = None,
        zone: str | None = None,
    ) -> Capacity:
        """How many more such VMs fit, by pool (all of them unless one is named) and after the loss of a host."""
        named = {name: amount for name, amount in resources.items() if name in {"cpu", "memory", "disk", "gpu"}}
        others = [f"{name}={amount}" for name, amount in resources.items() if name not in named]
        return self._transport.get(
            "/v1/capacity",
            Capacity,
            {
                **named,
                "resource": others,
                "pool": pool,
                "dedicated": dedicated,
                "label": [f"{key}={value}" for key, value in (labels or {}).items()],
                "zone": zone,
            },
        )

    def strategies(self) -> Pages[Strategy]:
        return Pages(self._transport, "/v1/strategies", Strategy)

    def processes(self) -> Pages[Process]:
        return Pages(self._transport, "/v1/processes", Process)

    def fleet(self) -> Fleet:
        return self._transport.get("/v1/fleet", Fleet)

    def info(self) -> Info:
        return self._transport.get("/v1/info", Info)

    def is_ready(self) -> bool:
        """Whether it takes requests. NotReachable when nobody is there."""
        try:
            self._transport.send("GET", "/readyz")
        except ApiError:
            return False
        return True

    def close(self) -> None:
        self._transport.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
