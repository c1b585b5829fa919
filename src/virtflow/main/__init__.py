"""The only place that builds and connects things, and the doors that the command line knocks at."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from virtflow.main.doors.backup import backup, restore
    from virtflow.main.doors.config_show import config_show
    from virtflow.main.doors.doctor import doctor
    from virtflow.main.doors.fsck import fsck
    from virtflow.main.doors.node_api import node_api
    from virtflow.main.doors.publish import publish
    from virtflow.main.doors.serve import serve
    from virtflow.main.service import Service, build

__all__ = ["Service", "backup", "build", "config_show", "doctor", "fsck", "node_api", "publish", "restore", "serve"]

_AT = {
    **{name: f"doors.{name}" for name in ("backup", "config_show", "doctor", "fsck", "node_api", "publish", "serve")},
    "restore": "doors.backup",
    "Service": "service",
    "build": "service",
}


def __getattr__(name: str) -> Any:
    """Imported when somebody knocks: a server starts in half the time without what the other doors need."""
    if name not in _AT:
        raise AttributeError(name)
    return getattr(importlib.import_module(f"{__name__}.{_AT[name]}"), name)
