#!/bin/sh
# Installs Debian packages that are missing, and says so first: `tools/apt.sh python3-venv`.
# Answers 0 when all are there, 1 when some could not be installed (with what to type), without touching anything else.
set -eu

installed() { dpkg-query --show --showformat='${Status}' "$1" 2>/dev/null | grep -q 'ok installed'; }

apt() { DEBIAN_FRONTEND=noninteractive apt-get --quiet=2 -o DPkg::Lock::Timeout=300 "$@" </dev/null; }

missing=
for package in "$@"; do installed "$package" || missing="$missing $package"; done
missing=${missing# }
[ -n "$missing" ] || exit 0

if ! command -v apt-get >/dev/null; then
    echo "Missing: $missing (Debian's names). Install them with this system's package manager, then try again." >&2
    exit 1
fi
if [ "$(id -u)" != 0 ]; then
    echo "Missing: $missing. Type: sudo apt-get install $missing" >&2
    exit 1
fi

echo "Installing Debian packages: $missing" >&2
# The lists may be absent (a fresh image) or old (the version they name is gone from the mirror): fetch them then only.
# shellcheck disable=SC2086
apt install --no-install-recommends $missing >/dev/null 2>&1 ||
    { apt update >/dev/null && apt install --no-install-recommends $missing >/dev/null; } ||
    { echo "Could not install: $missing" >&2; exit 1; }
