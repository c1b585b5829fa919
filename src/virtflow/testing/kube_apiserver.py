"""A real kube-apiserver with an etcd of its own, on free ports and in a folder of its own; thrown away.

The program is named by $KUBE_APISERVER, stands in PATH, or was made by tools/kube_apiserver.sh.
"""

import contextlib
import dataclasses
import os
import shutil
import signal
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from virtflow.testing.children import die_with_parent
from virtflow.testing.ports import free_port

VARIABLE = "KUBE_APISERVER"
NAMESPACE = "virtflow"
START_S_MAX = 60.0
_ADMIN, _SCHEDULER, _NOBODY, _STRANGER = "admin-token", "scheduler-token", "nobody-token", "a-stranger"
_RULES = """
{{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {{"name": "leases"}}, "rules": [
  {{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update"]}}]}}
"""


def find_program() -> Path | None:
    """None where there is none, or no etcd beside it."""
    here = Path(__file__).parents[3] / ".tools/bin"
    places = os.pathsep.join([os.environ.get("PATH", ""), str(here), *map(str, Path("/opt").glob("*"))])
    named = os.environ.get(VARIABLE) or shutil.which("kube-apiserver", path=places)
    return Path(named) if named and Path(named).is_file() and shutil.which("etcd") else None


@dataclasses.dataclass(frozen=True, slots=True)
class KubeApiserver:
    url: str
    directory: Path

    def account(self, *, token: str = _SCHEDULER, namespace: str = NAMESPACE) -> Path:
        """What is mounted in a pod of that service account."""
        folder = Path(tempfile.mkdtemp(dir=self.directory))
        (folder / "token").write_text(token)
        (folder / "namespace").write_text(namespace)
        shutil.copy(self.directory / "certificates/apiserver.crt", folder / "ca.crt")
        return folder

    def account_of_nobody(self) -> Path:
        """Of somebody who may do nothing."""
        return self.account(token=_NOBODY)

    def account_of_a_stranger(self) -> Path:
        """Of somebody whom the API does not know."""
        return self.account(token=_STRANGER)

    def post(self, path: str, body: str) -> None:
        request = urllib.request.Request(  # noqa: S310  our own server
            f"{self.url}{path}",
            data=body.encode(),
            headers={"Authorization": f"Bearer {_ADMIN}", "Content-Type": "application/json"},
        )
        trust = ssl.create_default_context(cafile=self.directory / "certificates/apiserver.crt")
        with urllib.request.urlopen(request, context=trust, timeout=10) as answer:  # noqa: S310
            answer.read()


@contextlib.contextmanager
def kube_apiserver() -> Iterator[KubeApiserver]:
    """Running inside the block, with a namespace, and a role that may do what virtflow needs."""
    program = find_program()
    assert program is not None, f"there is no kube-apiserver: set {VARIABLE}, or run tools/kube_apiserver.sh"
    with tempfile.TemporaryDirectory(prefix="virtflow-kube-") as name, contextlib.ExitStack() as stack:
        directory = Path(name)
        etcd, peer, port = free_port(), free_port(), free_port()
        _start(
            stack,
            directory / "etcd.log",
            "etcd",
            *("--data-dir", directory / "etcd", "--unsafe-no-fsync"),
            *(
                "--listen-client-urls",
                f"http://127.0.0.1:{etcd}",
                "--advertise-client-urls",
                f"http://127.0.0.1:{etcd}",
            ),
            *("--listen-peer-urls", f"http://127.0.0.1:{peer}"),
            *("--initial-advertise-peer-urls", f"http://127.0.0.1:{peer}"),
            *("--initial-cluster", f"default=http://127.0.0.1:{peer}"),
        )
        tokens = f'{_ADMIN},admin,u1,"system:masters"\n{_SCHEDULER},scheduler,u2,\n{_NOBODY},nobody,u3,\n'
        (directory / "tokens.csv").write_text(tokens)
        key = directory / "accounts.key"
        subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)  # noqa: S607
        server = _start(
            stack,
            directory / "apiserver.log",
            program,
            f"--etcd-servers=http://127.0.0.1:{etcd}",
            f"--secure-port={port}",
            *("--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--insecure-port=0"),
            f"--cert-dir={directory / 'certificates'}",
            f"--token-auth-file={directory / 'tokens.csv'}",
            *("--authorization-mode=RBAC", "--service-cluster-ip-range=10.96.0.0/24"),
            *(f"--service-account-key-file={key}", f"--service-account-signing-key-file={key}"),
            "--service-account-issuer=https://kubernetes.default.svc",
            *("--disable-admission-plugins=ServiceAccount", "--endpoint-reconciler-type=none"),
        )
        made = KubeApiserver(f"https://127.0.0.1:{port}", directory)
        _wait_until_ready(made, server)
        _give_rights(made)
        yield made


def _start(stack: contextlib.ExitStack, log: Path, *command: object) -> "subprocess.Popen[bytes]":
    with log.open("wb") as file:
        child = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            preexec_fn=die_with_parent(signal.SIGKILL),  # noqa: PLW1509  one system call and nothing else
        )
    stack.callback(child.wait)
    stack.callback(child.kill)
    return child


def _wait_until_ready(made: KubeApiserver, server: "subprocess.Popen[bytes]") -> None:
    end_s = time.monotonic() + START_S_MAX
    while True:
        try:
            made.post("/api/v1/namespaces", f'{{"metadata": {{"name": "{NAMESPACE}"}}}}')
            return
        except (OSError, urllib.error.URLError):
            if time.monotonic() > end_s or server.poll() is not None:
                log = (made.directory / "apiserver.log").read_text(errors="replace")
                raise RuntimeError(f"kube-apiserver did not start: {log[-1000:]}") from None
            time.sleep(0.1)


def _give_rights(made: KubeApiserver) -> None:
    rules = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}"
    made.post(f"{rules}/roles", _RULES.format())
    made.post(
        f"{rules}/rolebindings",
        '{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "leases"},'
        '"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "leases"},'
        '"subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "scheduler"}]}',
    )
