"""A real PostgreSQL server for tests: made in a directory of its own, started on a free port, thrown away."""

import asyncio
import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import asyncpg

from virtflow.testing.children import die_with_parent
from virtflow.testing.ports import free_port

START_S_MAX = 30.0
REMOVE_S_MAX = 5.0
USER = "virtflow"
#: Nothing that a crash of the machine would need: these databases are thrown away.
SETTINGS: Mapping[str, str] = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "fsync": "off",
    "full_page_writes": "off",
    "shared_buffers": "64MB",
    "max_connections": "60",
    "max_wal_size": "1GB",
    "deadlock_timeout": "50ms",
    "wal_retrieve_retry_interval": "100ms",
}

_POLL_S = 0.02


class PostgresServer:
    """One cluster with as many databases as one likes."""

    def __init__(self, directory: Path, settings: Mapping[str, str], *, port: int) -> None:
        self._directory = directory
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None
        self.port = port

    @property
    def _data(self) -> Path:
        return self._directory / "data"

    def url(self, database: str, *, port: int | None = None) -> str:
        """`port`: of a proxy in between."""
        return f"postgresql://{USER}@127.0.0.1:{port or self.port}/{database}"

    def start(self) -> None:
        settings = [word for name, value in self._settings.items() for word in ("-c", f"{name}={value}")]
        command = [str(find_program("postgres")), "-D", str(self._data), "-p", str(self.port), *settings]
        with (self._directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdout=log,
                stderr=log,
                cwd="/",
                preexec_fn=die_with_parent(signal.SIGINT),  # noqa: PLW1509  one system call and nothing else
                **_somebody(),
            )
        self._wait_until_ready()

    def stop(self) -> None:
        """A fast shutdown: connections are closed, transactions rolled back."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """As a crash: what is left is what was on the disk."""
        self._end(signal.SIGQUIT)

    def crash(self) -> None:
        """`kill -9` of the server itself. Its children notice; the next start needs the memory they share."""
        if self._process is None:
            return
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        self._end(signal.SIGKILL)
        end_s = time.monotonic() + START_S_MAX
        while any(_is_running(child) for child in children) and time.monotonic() < end_s:
            time.sleep(_POLL_S)

    async def create_database(self, name: str) -> str:
        """Returns its URL."""
        await self.run("postgres", f'CREATE DATABASE "{name}"')
        return self.url(name)

    async def run(self, database: str, sql: str) -> None:
        connection = await asyncpg.connect(self.url(database))
        try:
            await connection.execute(sql)
        finally:
            await connection.close()

    async def rows(self, database: str, sql: str) -> list[Any]:
        connection = await asyncpg.connect(self.url(database))
        try:
            return list(await connection.fetch(sql))
        finally:
            await connection.close()

    def demand_password_of(self, user: str) -> None:
        """Everybody else comes in without."""
        rules = self._data / "pg_hba.conf"
        rules.write_text(f"host all {user} 127.0.0.1/32 scram-sha-256\n{rules.read_text()}")
        if self._process:
            self._process.send_signal(signal.SIGHUP)

    @contextlib.contextmanager
    def replica(self) -> Iterator["PostgresServer"]:
        """A server that follows this one and can only be read."""
        with _own_directory() as directory:
            _copy(self, directory / "data")
            server = PostgresServer(directory, self._settings, port=free_port())
            try:
                server.start()
                yield server
            finally:
                server.stop()

    def promote(self) -> None:
        """A replica becomes a primary of its own; returns when it takes writes."""
        asyncio.run(self.run("postgres", f"SELECT pg_promote(wait_seconds => {START_S_MAX:g})"))

    def follow(self, origin: "PostgresServer") -> None:
        """Begins anew on its old port, as a replica of another; what it had is thrown away."""
        self.kill()
        shutil.rmtree(self._data, ignore_errors=True)
        _copy(origin, self._data)
        self.start()

    def require_replica(self) -> None:
        """From now on nothing is committed before a replica has it, too. Returns when there is one that confirms."""
        asyncio.run(self._require_replica())

    async def _require_replica(self) -> None:
        await self.run("postgres", "ALTER SYSTEM SET synchronous_standby_names = '*'")
        await self.run("postgres", "SELECT pg_reload_conf()")
        end_s = time.monotonic() + START_S_MAX
        while not await self.rows("postgres", "SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'"):
            if time.monotonic() > end_s:
                raise RuntimeError("no replica confirms what is committed")
            await asyncio.sleep(_POLL_S)

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(START_S_MAX)
            self._process = None

    def _wait_until_ready(self) -> None:
        ready = [str(find_program("pg_isready")), "-q", "-h", "127.0.0.1", "-p", str(self.port), "-d", "postgres"]
        end_s = time.monotonic() + START_S_MAX
        while subprocess.run(ready, check=False).returncode:
            if time.monotonic() > end_s or (self._process and self._process.poll() is not None):
                raise RuntimeError(f"PostgreSQL did not start: {(self._directory / 'log').read_text()[-1000:]}")
            time.sleep(_POLL_S)


@contextlib.contextmanager
def postgres_server(*, folder: Path | None = None, **settings: str) -> Iterator[PostgresServer]:
    """Running inside the block, with its files in `folder`. `settings` are the server's own: `fsync="on"`."""
    with _own_directory(folder) as directory:
        data = directory / "data"
        _run_as_nobody([find_program("initdb"), "-A", "trust", "-N", "-U", USER, "-E", "UTF8", "-D", data])
        server = PostgresServer(directory, {**SETTINGS, **settings}, port=free_port())
        try:
            server.start()
            yield server
        finally:
            server.stop()


def _copy(origin: PostgresServer, data: Path) -> None:
    """All that it has, and that it is to be followed."""
    place = f"host=127.0.0.1 port={origin.port} user={USER}"
    _run_as_nobody([find_program("pg_basebackup"), "-d", place, "-D", data, "-R", "-c", "fast"])
    # whether it waits for a replica is for each server to be told
    settings = data / "postgresql.auto.conf"
    lines = settings.read_text().splitlines(keepends=True)
    settings.write_text("".join(line for line in lines if not line.startswith("synchronous_standby_names")))


@contextlib.contextmanager
def _own_directory(folder: Path | None = None) -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(prefix="virtflow-postgres-", dir=folder))
    try:
        if somebody := _somebody():
            shutil.chown(directory, somebody["user"], somebody["group"])
        yield directory
    finally:
        _remove(directory)


def _remove(directory: Path) -> None:
    """Who was interrupted while he made a cluster leaves a child of his behind, which writes for a moment longer."""
    end_s = time.monotonic() + REMOVE_S_MAX
    while directory.exists() and time.monotonic() < end_s:
        shutil.rmtree(directory, ignore_errors=True)
        if directory.exists():
            time.sleep(_POLL_S)


def find_program(program: str) -> Path:
    """Of the newest PostgreSQL here, also where Debian keeps a server: outside of PATH."""
    homes = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda home: float(home.parent.name))
    for home in reversed(homes):
        if (home / program).exists():
            return home / program
    if found := shutil.which(program):
        return Path(found)
    raise FileNotFoundError(f"{program} is not on this machine: install postgresql")


def _run_as_nobody(command: list[Path | str]) -> None:
    done = subprocess.run(
        [str(word) for word in command], check=False, capture_output=True, text=True, cwd="/", **_somebody()
    )
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed: {done.stderr.strip()[-500:]}")


def _somebody() -> dict[str, Any]:
    """PostgreSQL refuses to run as root."""
    if os.getuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(name)
            return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
    return {}


def _is_running(pid: str) -> bool:
    """Who has ended, and was not looked at by its parent, does not run."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
