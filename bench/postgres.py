"""A PostgreSQL server of our own for one measurement: made, started, ended, forgotten."""

import contextlib
import os
import pwd
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

START_S_MAX = 30.0
#: Durable as it comes. More buffers and rarer checkpoints than the defaults for tiny machines, as anybody would set.
SETTINGS: Mapping[str, str] = {
    "fsync": "on",
    "synchronous_commit": "on",
    "shared_buffers": "256MB",
    "max_wal_size": "4GB",
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "logging_collector": "off",
}


def find_program(program: str) -> Path | None:
    """Where a program of PostgreSQL is, also where Debian keeps it: outside of PATH."""
    homes = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda home: float(home.parent.name), reverse=True)
    for home in homes:
        if (home / program).exists():
            return home / program
    found = shutil.which(program)
    return Path(found) if found else None


@contextlib.contextmanager
def postgresql_in(folder: Path) -> Iterator[str]:
    """The URL of an empty database whose files are in `folder`."""
    initdb, postgres = find_program("initdb"), find_program("postgres")
    if initdb is None or postgres is None:
        raise FileNotFoundError("no PostgreSQL on this machine: install `postgresql`, or leave it out")
    data, port, somebody = folder / "postgresql", free_port(), _somebody()
    data.mkdir(mode=0o700)
    if somebody:
        shutil.chown(data, somebody["user"], somebody["group"])
    _run([initdb, "--pgdata", data, "--auth", "trust", "--username", "bench", "--encoding", "UTF8"], somebody)
    settings = [word for name, value in SETTINGS.items() for word in ("-c", f"{name}={value}")]
    command = [str(postgres), "-D", str(data), "-p", str(port), *settings]
    with (folder / "postgresql.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, **somebody)
    try:
        _wait_for(port, process)
        yield f"postgresql://bench@127.0.0.1:{port}/postgres"
    finally:
        process.terminate()  # a smart shutdown would wait for clients; SIGTERM is smart, SIGINT is fast
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(2)
        if process.poll() is None:
            process.send_signal(2)
            process.wait(START_S_MAX)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _somebody() -> dict[str, Any]:
    """PostgreSQL refuses to run as root."""
    if os.getuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(name)
            return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
    return {}


def _run(command: Sequence[str | Path], somebody: Mapping[str, Any]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/", **somebody)
    if done.returncode:
        raise RuntimeError(f"{Path(command[0]).name} failed: {done.stderr.strip()[-500:]}")


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    end_s = time.monotonic() + START_S_MAX
    while time.monotonic() < end_s:
        if process.poll() is not None:
            raise RuntimeError(f"PostgreSQL ended with {process.returncode}; see its log beside the data")
        if _answers(port):
            return
        time.sleep(0.05)
    raise TimeoutError(f"PostgreSQL did not answer within {START_S_MAX:.0f} s")


def _answers(port: int) -> bool:
    """It listens before it takes clients; a startup packet that is answered by `R` says it does."""
    packet = b"user\0bench\0database\0postgres\0\0"
    message = (len(packet) + 8).to_bytes(4, "big") + (3 << 16).to_bytes(4, "big") + packet
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1) as client:
        client.sendall(message)
        return client.recv(1) == b"R"
    return False
