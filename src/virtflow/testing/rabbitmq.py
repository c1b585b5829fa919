"""A real RabbitMQ broker for tests: made in a directory of its own, started on free ports, thrown away."""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from virtflow.testing.children import die_with_parent
from virtflow.testing.ports import free_port, free_ports, is_open

START_S_MAX = 60.0
USER = PASSWORD = "guest"  # noqa: S105  what every new broker knows, on loopback alone
#: The program itself: the wrapper on PATH becomes another user and wants /var/lib.
HOME = Path("/usr/lib/rabbitmq/bin")
SETTINGS: Mapping[str, str] = {
    "log.console": "false",
    "log.file.level": "warning",
    "disk_free_limit.absolute": "50MB",
    "heartbeat": "10",
}
#: one machine, two cores, no busy waiting
_ERLANG = "-kernel inet_dist_use_interface {127,0,0,1} +S 2:2 +sbwt none +sbwtdcpu none +sbwtdio none"
#: as `rabbitmqctl add_vhost` and `set_permissions` do
_MAKE_VHOSTS = """
    [begin
        Name = iolist_to_binary(["test-", integer_to_list(Number)]),
        rabbit_vhost:add(Name, <<"guest">>),
        rabbit_auth_backend_internal:set_permissions(<<"guest">>, Name, <<".*">>, <<".*">>, <<".*">>, <<"guest">>)
    end || Number <- lists:seq({first}, {last})].
"""
VHOSTS_AT_ONCE = 20
_POLL_S = 0.05
_CTL_PORTS = 10


class RabbitmqServer:
    """One broker of one node, with the user guest and the virtual host `/`."""

    def __init__(self, folder: Path, settings: Mapping[str, str]) -> None:
        self.folder = folder
        self._settings = settings
        self._epmd: subprocess.Popen[bytes] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._vhosts: list[str] = []
        self._vhosts_made = 0
        self.port, self._epmd_port = free_port(), free_port()
        #: the node's own, and after it those of rabbitmqctl
        self._dist_port = free_ports(1 + _CTL_PORTS)
        self._write_settings()

    def url(self, vhost: str = "/", *, user: str = USER, password: str = PASSWORD, port: int | None = None) -> str:
        """`port`: of a proxy in between."""
        return f"amqp://{user}:{password}@127.0.0.1:{port or self.port}/{quote(vhost, safe='')}"

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Ready when the port is open and the node has said its number."""
        self._pid_file.unlink(missing_ok=True)
        with (self.folder / "out").open("ab") as out:  # never the caller's pipe: it would stay open for ever
            quietly: dict[str, Any] = {
                "stdin": subprocess.DEVNULL,
                "stdout": out,
                "stderr": out,
                "cwd": self.folder,
                "env": self._environment(),
                "preexec_fn": die_with_parent(),
            }
            if self._epmd is None:
                epmd = [str(find_program("epmd")), "-address", "127.0.0.1", "-port", str(self._epmd_port)]
                self._epmd = subprocess.Popen(epmd, **quietly)
            server = [str(find_program("rabbitmq-server"))]
            self._process = subprocess.Popen(server, start_new_session=True, **quietly)
        self._wait_until_ready()

    def stop(self) -> None:
        """In order: connections are closed, everything is on the disk."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """As a crash: what is left is what was on the disk."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        self.stop()
        self.start()

    def pause(self) -> None:
        """Connections stay open and nobody answers."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def ctl(self, *words: str) -> str:
        """What `rabbitmqctl` says."""
        done = subprocess.run(
            [str(find_program("rabbitmqctl")), "-q", *words],
            check=False,
            capture_output=True,
            text=True,
            cwd=self.folder,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
        )
        if done.returncode:
            raise RuntimeError(f"rabbitmqctl {' '.join(words)} failed: {(done.stderr or done.stdout).strip()[-500:]}")
        return done.stdout

    def new_vhost(self) -> str:
        """An empty one that nobody else uses; returns its URL."""
        if not self._vhosts:
            self._vhosts = self._make_vhosts(self._vhosts_made + 1, self._vhosts_made + VHOSTS_AT_ONCE)
            self._vhosts_made += VHOSTS_AT_ONCE
        return self.url(self._vhosts.pop(0))

    def _make_vhosts(self, first: int, last: int) -> list[str]:
        """Many by one call: what costs time is the start of rabbitmqctl."""
        self.ctl("eval", _MAKE_VHOSTS.format(first=first, last=last))
        return [f"test-{number}" for number in range(first, last + 1)]

    def raise_memory_alarm(self) -> None:
        """Publishers are blocked until it is lowered."""
        self.ctl("set_vm_memory_high_watermark", "absolute", "1")

    def lower_memory_alarm(self) -> None:
        self.ctl("set_vm_memory_high_watermark", "0.4")

    def close(self) -> None:
        """Node and port mapper: nothing stays behind."""
        self.kill()
        if self._epmd is not None:
            self._epmd.kill()
            self._epmd.wait(START_S_MAX)
            self._epmd = None

    @property
    def _pid_file(self) -> Path:
        return self.folder / "pid"

    def _write_settings(self) -> None:
        settings = {"listeners.tcp.1": f"127.0.0.1:{self.port}", **self._settings}
        text = "".join(f"{name} = {value}\n" for name, value in settings.items())
        (self.folder / "rabbitmq.conf").write_text(text)
        (self.folder / "enabled_plugins").write_text("[].\n")
        (self.folder / "rabbitmq-env.conf").write_text("")

    def _environment(self) -> dict[str, str]:
        folder = self.folder
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "LANG": "C.UTF-8",
            "HOME": str(folder),  # the cookie lives there
            "ERL_EPMD_PORT": str(self._epmd_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"virtflow{self.port}@localhost",
            "RABBITMQ_DIST_PORT": str(self._dist_port),
            "RABBITMQ_CTL_DIST_PORT_MIN": str(self._dist_port + 1),
            "RABBITMQ_CTL_DIST_PORT_MAX": str(self._dist_port + _CTL_PORTS),
            "RABBITMQ_CONF_ENV_FILE": str(folder / "rabbitmq-env.conf"),
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "enabled_plugins"),
            "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
            "RABBITMQ_LOG_BASE": str(folder / "log"),
            "RABBITMQ_PID_FILE": str(self._pid_file),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": _ERLANG,
            # as a service: the script becomes the node, so that signals reach it. Nobody listens there
            "NOTIFY_SOCKET": str(folder / "notify"),
        }

    def _signal(self, what: signal.Signals) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, what)  # its helpers are of its group

    def _end(self, how: signal.Signals) -> None:
        if self._process is None:
            return
        self._signal(how)
        try:
            self._process.wait(START_S_MAX)
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGKILL)
            self._process.wait(START_S_MAX)
        self._process = None

    def _wait_until_ready(self) -> None:
        end_s = time.monotonic() + START_S_MAX
        # the port opens before the number is written
        while not (self._has_said_its_number() and is_open(self.port)):
            if time.monotonic() > end_s or not self.is_running:
                raise RuntimeError(f"RabbitMQ did not start: {self._last_words()}")
            time.sleep(_POLL_S)

    def _has_said_its_number(self) -> bool:
        return self._pid_file.exists() and bool(self._pid_file.read_text().strip())

    def _last_words(self) -> str:
        files = [self.folder / "out", *(self.folder / "log").glob("*.log")]
        return "\n".join(file.read_text(errors="replace")[-1000:] for file in files if file.exists())


@contextlib.contextmanager
def rabbitmq_server(**settings: str) -> Iterator[RabbitmqServer]:
    """Running inside the block. `settings` are the broker's own, `__` for a dot: `listeners__tcp__2="…"`."""
    directory = Path(tempfile.mkdtemp(prefix="virtflow-rabbitmq-"))
    own = {name.replace("__", "."): value for name, value in settings.items()}
    server = RabbitmqServer(directory, {**SETTINGS, **own})
    try:
        server.start()
        yield server
    finally:
        server.close()
        shutil.rmtree(directory, ignore_errors=True)


def find_program(program: str) -> Path:
    if (HOME / program).exists():
        return HOME / program
    if found := shutil.which(program):
        return Path(found)
    raise FileNotFoundError(f"{program} is not on this machine: install rabbitmq-server")
