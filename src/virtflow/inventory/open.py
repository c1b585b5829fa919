"""Which inventories there are: a node API, a file, and those of other packages."""

from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path

from virtflow.inventory.contract import TIMEOUT_S, Inventory
from virtflow.model.errors import InvalidSetting
from virtflow.model.secret import Secret

#: An entry point of this group is a function from a location and a time-out in seconds to an inventory.
PLUGINS = "virtflow.inventories"
OpenPlugin = Callable[[str, float], Inventory]


def open_inventories(
    *, url: Secret, token: Secret, file: Path | None, plugin: str = "", timeout_s: float = TIMEOUT_S
) -> list[Inventory]:
    """Those that are set. Opening asks nobody yet."""
    opened: list[Inventory] = []
    if url:
        from virtflow.inventory.http import HttpInventory  # httpx takes a tenth of a second of the start

        opened.append(HttpInventory(url.reveal(), token=token, timeout_s=timeout_s))
    if file is not None:
        from virtflow.inventory.file import FileInventory  # so do YAML and the watching of files, nearly

        opened.append(FileInventory(file))
    if plugin:
        opened.append(open_plugin(plugin, timeout_s=timeout_s))
    return opened


def open_plugin(setting: str, *, timeout_s: float = TIMEOUT_S) -> Inventory:
    """`<entry point>=<location>`: the inventory of another package."""
    name, _, location = setting.partition("=")
    installed = {point.name: point for point in entry_points(group=PLUGINS)}
    if name not in installed:
        known = ", ".join(sorted(installed)) or "none is installed"
        raise InvalidSetting("inventory_plugin", name, expected=f"an entry point of the group {PLUGINS} ({known})")
    opener: OpenPlugin = installed[name].load()
    return opener(location, timeout_s)
