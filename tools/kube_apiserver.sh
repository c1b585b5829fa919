#!/bin/sh
# Makes a real kube-apiserver for the tests of elections, from Debian's source package: .tools/bin/kube-apiserver.
# Takes ten minutes of two cores and 3 GB in a folder that is thrown away; runs as root on Debian 12, at low priority.
# Where a kube-apiserver is at hand already, name it in KUBE_APISERVER instead.
set -eu
cd "$(dirname "$0")/.."
target=$PWD/.tools/bin/kube-apiserver
[ ! -x "$target" ] || { echo "$target is there already"; exit 0; }
[ "$(id -u)" = 0 ] || { echo "only root can install what the build needs" >&2; exit 1; }

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' INT TERM

tools/apt.sh golang-1.19-go jq rsync make dpkg-dev etcd-server openssl
cd "$folder"
sources=$folder/sources.list  # of this build alone: the machine's own lists stay as they are
sed -n 's/^deb \(.*\)/deb-src \1/p' /etc/apt/sources.list >"$sources" 2>/dev/null || :
for file in /etc/apt/sources.list.d/*.sources; do
    [ ! -e "$file" ] || sed 's/^Types:.*/Types: deb-src/' "$file" >"$folder/$(basename "$file")"
done
mkdir lists
apt_options="-o Dir::Etc::SourceList=$sources -o Dir::Etc::SourceParts=$folder -o Dir::State::Lists=$folder/lists"
apt-get $apt_options -qq update
apt-get $apt_options -qq --download-only source kubernetes
dpkg-source --no-check -x kubernetes_*.dsc kubernetes >/dev/null
cd kubernetes
PATH=/usr/lib/go-1.19/bin:$PATH GOFLAGS=-mod=vendor GO111MODULE=off nice -n 19 make WHAT=cmd/kube-apiserver
mkdir -p "$(dirname "$target")"
cp _output/local/bin/linux/*/kube-apiserver "$target"
"$target" --version
