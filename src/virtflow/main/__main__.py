"""`python -m virtflow.main serve …`: what `virtflow serve` and the demo start."""

import sys
from collections.abc import Sequence

from virtflow.main import backup, config_show, doctor, fsck, node_api, restore, serve

_DOORS = {
    "serve": serve,
    "doctor": doctor,
    "fsck": fsck,
    "backup": backup,
    "restore": restore,
    "config-show": config_show,
    "node-api": node_api,
}


def main(argv: Sequence[str]) -> int:
    words = list(argv)
    if not words or words[0] not in _DOORS:
        print(f"virtflow.main: say one of {', '.join(_DOORS)}", file=sys.stderr)
        return 2
    return _DOORS[words[0]](words[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
