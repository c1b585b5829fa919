"""Which inventories there are."""

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from virtflow.inventory import Inventory
from virtflow.inventory import open as open_module
from virtflow.inventory.open import PLUGINS, open_inventories
from virtflow.model.errors import InvalidSetting
from virtflow.model.host import Source
from virtflow.model.secret import Secret
from virtflow.testing.fleets import SimulatedInventory

NOTHING = Secret("")


def opened_by_name(location: str, timeout_s: float) -> Inventory:
    assert timeout_s == 2.0
    return SimulatedInventory(int(location))


def test_what_is_not_set_is_not_opened() -> None:
    assert open_inventories(url=NOTHING, token=NOTHING, file=None) == []


def test_a_node_api_and_a_file_are_two_inventories(tmp_path: Path) -> None:
    opened = open_inventories(url=Secret("http://nodes/nodes"), token=NOTHING, file=tmp_path / "hosts.yaml")
    assert [inventory.source for inventory in opened] == [Source.HTTP, Source.FILE]


def test_an_inventory_of_another_package_is_found_by_its_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("rack", f"{__name__}:opened_by_name", PLUGINS)
    monkeypatch.setattr(open_module, "entry_points", lambda group: [point])
    monkeypatch.setattr(EntryPoint, "load", lambda _: opened_by_name)
    [opened] = open_inventories(url=NOTHING, token=NOTHING, file=None, plugin="rack=3", timeout_s=2.0)
    assert opened.location == "3 simulated hosts, seed 1"


def test_an_unknown_entry_point_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidSetting) as caught:
        open_inventories(url=NOTHING, token=NOTHING, file=None, plugin="rack=3")
    assert "virtflow.inventories (none is installed)" in caught.value.remedy
