"""From the options and the environment to a client, and what every command needs beside it."""

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from virtflow.client import Client

SERVER_VARIABLE = "VIRTFLOW_SERVER"
TOKEN_VARIABLE = "VIRTFLOW_TOKEN"  # noqa: S105  # the variable's name, not a token
TIMEOUT_VARIABLE = "VIRTFLOW_TIMEOUT_S"
CA_VARIABLE = "VIRTFLOW_CA_FILE"
OUTPUT_VARIABLE = "VIRTFLOW_OUTPUT"
DEFAULT_SERVER = "http://127.0.0.1:8080"
DEFAULT_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Target:
    """Which server the command is meant for."""

    server: str = DEFAULT_SERVER


def connect(ctx: typer.Context) -> "Client":
    return client_of(ctx.obj.server)


def client_of(server: str) -> "Client":
    from virtflow.client import Client, Patience
    from virtflow.client.transport import server_address
    from virtflow.model.secret import Secret

    # somebody waits at the keyboard: say soon that nobody is there, be patient only with a server that is busy
    patience = Patience(connect_tries_max=2, timeout_s=_timeout_s())
    return Client(
        server_address(server, setting=SERVER_VARIABLE),
        token=Secret(os.environ.get(TOKEN_VARIABLE, "")),
        ca_file=os.environ.get(CA_VARIABLE) or None,
        patience=patience,
    )


def _timeout_s() -> float:
    from virtflow.model.errors import InvalidSetting

    text = os.environ.get(TIMEOUT_VARIABLE) or str(DEFAULT_TIMEOUT_S)
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= 3600:
        raise InvalidSetting(TIMEOUT_VARIABLE, text, expected="seconds, more than 0 and at most 3600")
    return seconds
