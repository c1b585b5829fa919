"""Ports of this machine: free ones, and whether somebody listens."""

import random
import socket

_TRIES_MAX = 100


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def free_ports(count: int) -> int:
    """The first of so many free neighbours, below those that connections get."""
    for _ in range(_TRIES_MAX):
        first = random.randrange(10_000, 32_000 - count)
        if not any(is_taken(first + number) for number in range(count)):
            return first
    raise RuntimeError(f"no {count} free ports beside each other")


def is_open(port: int) -> bool:
    """Somebody listens there."""
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def is_taken(port: int) -> bool:
    """Nobody else could listen there."""
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False
