"""One decision of each scheduler on fleets of the same hosts: a table, and one line of JSON.

What is compared, and what is not, stands in docs/benchmarks.md.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench import machine, report

ROOT = Path(__file__).parent.parent.parent
PEERS_PYTHON = ROOT / ".venv-peers/bin/python"
HERE = Path(__file__).parent
RUN_S_MAX = 600.0


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench/peers/run", description=__doc__)
    parser.add_argument("--hosts", default="1000,10000", help="sizes of the fleet")
    parser.add_argument("--seconds", type=float, default=5.0, help="for each figure")
    parser.add_argument("--out", type=Path, help="a folder for peers.json and peers.md")
    options = parser.parse_args(argv)
    rows: list[dict[str, Any]] = []
    for hosts in options.hosts.split(","):
        arguments = [hosts, str(options.seconds)]
        rows += _ask([sys.executable, "-m", "bench.peers.ours", *arguments])
        rows += _ask([str(PEERS_PYTHON), str(HERE / "nova_decisions.py"), *arguments])
        rows += _ask([str(PEERS_PYTHON), str(HERE / "placement_decisions.py"), *arguments])
    document = {"machine": machine.describe(), "decisions": rows}
    text = _table(rows)
    print(text)
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "peers.json").write_text(json.dumps(document, indent=1) + "\n")
        (options.out / "peers.md").write_text(text + "\n")
    print(json.dumps(document))
    return 0


def _ask(command: Sequence[str]) -> list[dict[str, Any]]:
    """The last line of what a program prints."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, timeout=RUN_S_MAX)
    if done.returncode:
        print(f"{' '.join(command[1:3])} failed:\n{done.stderr.strip()[-1500:]}", file=sys.stderr)
        return []
    return list(json.loads(done.stdout.splitlines()[-1]))


def _table(rows: Sequence[dict[str, Any]]) -> str:
    ours = {row["hosts"]: row["best_us"] for row in rows if row["name"] == "virtflow"}
    head = ("who decides", "hosts", "one decision", "times virtflow", "measured as")
    return report.grid(
        head,
        [
            (
                row["name"],
                f"{row['hosts']:,}",
                report.shown(row["best_us"] / 1000, "ms"),
                f"{row['best_us'] / ours[row['hosts']]:,.1f}" if row["hosts"] in ours else "",
                row["how"],
            )
            for row in rows
        ],
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
