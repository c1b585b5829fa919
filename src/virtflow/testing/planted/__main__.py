"""`python -m virtflow.testing.planted`, or `make planted`."""

import sys

from virtflow.testing.planted.run import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
