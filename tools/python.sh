#!/bin/sh
# Prints the Python to build on: $PY if given, else the first of the usual names that is 3.11 or newer.
set -eu
names="python3.11 python3 python3.12 python3.13 python3.14 python3.15"  # 3.11 first: what the tests run on
for name in ${PY:-$names}; do
    if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then command -v "$name"; exit; fi
done
echo "virtflow needs Python 3.11 or newer${PY:+, which $PY is not}: install it, or name one with PY=/path/to/python" >&2
exit 1
