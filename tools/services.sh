#!/bin/sh
# Installs what tools/services.txt names and this machine lacks. What cannot be had is no failure here:
# tests that need it are not run, and pytest says so at its end.
set -u
cd "$(dirname "$0")/.."
clusters=/etc/postgresql-common/createcluster.d/virtflow.conf
policy=/usr/sbin/policy-rc.d
ours=

has_program() { command -v "$1" >/dev/null || [ -x ".tools/$1/$1" ] || ls /usr/lib/postgresql/*/bin/"$1" >/dev/null 2>&1; }

hold_back_daemons() {  # tests start their own servers; an install must leave none running and no cluster behind
    [ "$(id -u)" = 0 ] || return 0
    trap let_daemons_go EXIT
    trap 'exit 1' INT TERM
    mkdir -p "$(dirname $clusters)" && echo 'create_main_cluster = false' >$clusters && ours=$clusters
    [ -e $policy ] || { printf '#!/bin/sh\nexit 101\n' >$policy && chmod +x $policy && ours="$ours $policy"; }
}

let_daemons_go() { [ -z "$ours" ] || rm -f $ours; }

packages=
while read -r name package program; do
    case $name in ''|'#'*) continue ;; esac
    if has_program "$program"; then continue; fi
    if [ "$package" = - ]; then "tools/$name.sh"; else packages="$packages $package"; fi
done <tools/services.txt
[ -n "$packages" ] || exit 0
hold_back_daemons
tools/apt.sh $packages || echo "The tests that need them will not run." >&2
