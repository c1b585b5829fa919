"""`python -m virtflow.main serve …`: what `virtflow serve` and the demo start."""

import sys
from collections.abc import Callable, Sequence

from virtflow import main as doors

_DOORS = ("serve", "doctor", "fsck", "backup", "restore", "config-show", "node-api")


def main(argv: Sequence[str]) -> int:
    words = list(argv)
    if not words or words[0] not in _DOORS:
        print(f"virtflow.main: say one of {', '.join(_DOORS)}", file=sys.stderr)
        return 2
    door: Callable[[Sequence[str]], int] = getattr(doors, words[0].replace("-", "_"))
    return door(words[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
