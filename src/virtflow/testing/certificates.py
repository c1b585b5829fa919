"""A certificate for servers of tests, which is its own authority."""

import ssl
import subprocess
from pathlib import Path

_MAKE = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=127.0.0.1"
_FOR = "subjectAltName=IP:127.0.0.1"


class Certificate:
    """For 127.0.0.1, in that folder. `file` is what a client has to trust."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "certificate.pem"
        self._key = folder / "key.pem"
        command = [*_MAKE.split(), "-addext", _FOR, "-keyout", str(self._key), "-out", str(self.file)]
        subprocess.run(command, check=True, capture_output=True)

    def server_context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self.file, self._key)
        return context
