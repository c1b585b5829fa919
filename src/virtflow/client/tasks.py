"""Tasks: what became of each request."""

from collections.abc import Sequence

from virtflow.client.pages import Pages
from virtflow.client.records import Task
from virtflow.client.transport import Transport, segment

PATH = "/v1/tasks"


class Tasks:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self, *, states: Sequence[str] = (), pool: str | None = None, limit: int | None = None) -> Pages[Task]:
        return Pages(self._transport, PATH, Task, {"state": states, "pool": pool}, limit=limit)

    def get(self, task_id: str) -> Task:
        return self._transport.get(f"{PATH}/{segment(task_id)}", Task)

    def cancel(self, task_id: str) -> Task:
        return self._transport.post(f"{PATH}/{segment(task_id)}/cancel", Task)
