#!/bin/sh
# Brings .venv up to date with the pinned requirement files: `tools/setup.sh run`, or `dev`, `fast`, `bench` on top.
# A step is done again only when its files changed, so a second start costs milliseconds.
set -eu
cd "$(dirname "$0")/.."
export UV_PYTHON_DOWNLOADS=never  # never fetch a Python: those come from a place that closed networks do not reach
if [ -n "${PIP_INDEX_URL:-}" ]; then export UV_DEFAULT_INDEX="${UV_DEFAULT_INDEX:-$PIP_INDEX_URL}"; fi  # one mirror setting for both

trust_the_system() {  # a company's own authority included; where a system has no list, uv's own serves
    for list in "${SSL_CERT_FILE:-}" /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/cert.pem; do
        if [ -e "$list" ]; then export UV_SYSTEM_CERTS=1; fi
    done
}

is_done() { [ "$(cat "$1" 2>/dev/null)" = "$(cat $2 | cksum)" ]; }
mark_done() { cat $2 | cksum >"$1"; }

make_tools() {
    files="requirements/uv.txt"
    if is_done .tools/done "$files"; then return; fi
    python=$(tools/python.sh)
    "$python" -c 'import ensurepip' 2>/dev/null || tools/apt.sh python3-venv  # Debian ships venv without its pip
    echo "Installing uv into .tools" >&2
    "$python" -m venv --clear .tools
    .tools/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: -r requirements/uv.txt
    mark_done .tools/done "$files"
}

make_venv() {
    if [ -x .venv/bin/python ] && .venv/bin/python -c '' 2>/dev/null; then return; fi
    .tools/bin/uv venv --quiet --clear --python "$(tools/python.sh)" .venv
}

install_pinned() {  # install_pinned <name of the requirement file>
    files="requirements/$1.txt"
    if is_done ".venv/done-$1" "$files"; then return; fi
    echo "Installing $files into .venv" >&2
    .tools/bin/uv pip install --quiet --python .venv --require-hashes --only-binary :all: --requirements "$files"
    mark_done ".venv/done-$1" "$files"
}

install_ourselves() {
    files="pyproject.toml src/virtflow/__init__.py"
    if is_done .venv/done-virtflow "$files"; then return; fi
    # Without isolation the build uses the pinned hatchling of .venv instead of fetching whatever is newest today.
    .tools/bin/uv pip install --quiet --python .venv --no-deps --no-build-isolation --editable .
    mark_done .venv/done-virtflow "$files"
}

if command -v flock >/dev/null; then exec 9<tools/setup.sh && flock 9; fi  # two at once would undo each other
make_tools
trust_the_system
make_venv
install_pinned build
for group in "$@"; do install_pinned "$group"; done
install_ourselves
