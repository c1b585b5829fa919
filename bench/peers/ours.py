"""Our side of the comparison: one decision by itself, beside the two plain ways of deciding."""

import json
import sys
from collections.abc import Sequence

from bench import engine


def main(argv: Sequence[str]) -> int:
    hosts = int(argv[0])
    times = engine.measure_growth([hosts])
    rows = [
        {
            "name": way if way == "virtflow" else f"a {way}",
            "hosts": hosts,
            "best_us": us[str(hosts)],
            "how": "best of 3 runs of decisions, mean of a run",
        }
        for way, us in times.items()
    ]
    print(json.dumps(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
