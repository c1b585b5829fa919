"""`python -m virtflow.testing.simulation 1000`, or `make simulate SEEDS=1000`."""

import sys

from virtflow.testing.simulation.run import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
