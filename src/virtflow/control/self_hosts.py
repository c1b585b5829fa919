"""Hosts that carry virtflow itself: named, labelled, or found to be where a process of it runs."""

import ipaddress
from collections.abc import Iterable, Mapping

import msgspec

from virtflow.model.host import Host

#: said instead of a machine's name: the process runs on none of the hosts
NOWHERE = "none"


class SelfHosts:
    """`names` and `label` are of the installation, `here` is what this process runs on; `see` adds where others run."""

    def __init__(self, *, names: Iterable[str] = (), label: str = "", here: Iterable[str] = ()) -> None:
        self._names = frozenset(names)
        self._label = label.partition("=")[::2] if label else None
        self._here = names_of_machines(here)
        self._machines = self._here

    def see(self, machines: Iterable[str]) -> bool:
        """Where processes of the cluster run now; says whether that is news."""
        seen = self._here | names_of_machines(machines)
        is_news, self._machines = seen != self._machines, seen
        return is_news

    def carries(self, name: str, address: str, labels: Mapping[str, str]) -> bool:
        if name in self._names or name in self._machines or address.lower() in self._machines:
            return True
        return self._label is not None and labels.get(self._label[0]) == self._label[1]

    def marked(self, host: Host) -> Host:
        """The host with what is known here and not in the database."""
        carries = self.carries(host.name, host.spec.address, host.spec.labels)
        return host if carries == host.carries_virtflow else msgspec.structs.replace(host, carries_virtflow=carries)


def names_of_machines(said: Iterable[str]) -> frozenset[str]:
    """Names and addresses, several with commas between; of a name with a domain also its first part."""
    words = {word.strip().lower() for text in said for word in text.split(",")} - {"", NOWHERE, "localhost"}
    return frozenset(words | {word.partition(".")[0] for word in words if not _is_address(word)})


def _is_address(word: str) -> bool:
    try:
        ipaddress.ip_address(word)
    except ValueError:
        return False
    return True
