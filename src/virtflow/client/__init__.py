"""The HTTP API as typed Python: `with Client("http://127.0.0.1:8080") as client: client.vms.create(order)`."""

from virtflow.client.client import Client
from virtflow.client.errors import ApiError, BadAnswer, ClientError, NotReachable
from virtflow.client.transport import Patience

__all__ = ["ApiError", "BadAnswer", "Client", "ClientError", "NotReachable", "Patience"]
