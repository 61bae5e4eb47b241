#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Runs in the guest: every test that /share/tests/list names, one after another.
# NAME.ktap of /share/results is what the test printed, then what only the runner knows: the
# exit status, the modules loaded at the end, and a failed case for a report in the kernel log
# ("kernel log") and for what kmemleak suspects ("kmemleak"). Nothing is judged here:
# report.py describes the format, and decides. NAME.dmesg is what the kernel logged meanwhile.
# The results survive the guest's death, since they are on the host's disk.
# The harness' own tests set SHARE_DIR and KMSG, and need no guest.
share=${SHARE_DIR:-/share} kmsg=${KMSG:-/dev/kmsg}
cd "$share/tests" || exit 1
mkdir -p "$share/results"
. ./scale.sh
. ./kmemleak.sh
. ./reports.sh || exit 1

staged=$(our_modules | paste -sd,)
guest="node=${NODE:-1} kernel=${KERNEL:-fast} stack=${STACK:-rust} staged=$staged"
modules() { echo "# modules: $(stack | tr ' ' = | xargs)"; }

# The boot has a separate result, which the host completes with the rest of the kernel log.
{ echo "# guest: boot=1 $guest"; modules; } >"$share/results/boot"
[ "${NODE:-1}" != "${NODES:-1}" ] || echo "Rust modules loaded: $(stack | awk '$2 == "rust" { print $1 }' | xargs)"

scratch=$(mktemp -d -p /run)
mark=0
while read -r name limit; do
    mark=$((mark + 1))
    log=$share/results/$name
    echo "# guest: $guest" >"$log.ktap"
    # A test must not find files of an earlier one. On the host, /tmp has files of others.
    [ -n "${SHARE_DIR:-}" ] || rm -rf --one-file-system /tmp/*
    mark_begin $mark "$name" >>"$kmsg"
    start=$(cut -d. -f1 /proc/uptime)
    timeout -k 10 $((limit * SCALE * ${PATIENCE:-1})) bash "./$name.sh" >>"$log.ktap" 2>&1 </dev/null
    status=$?
    # A line that was cut off must not take the next one with it.
    { echo; modules; } >>"$log.ktap"
    bash -c '. ./rdma.sh; two_nodes_gone' >/dev/null 2>&1
    leaks "$name" >"$log.kmemleak"
    [ -s "$log.kmemleak" ] || rm "$log.kmemleak"
    mark_end $mark "$name" >>"$kmsg"
    echo "# ended: $status" >>"$log.ktap"
    dmesg >"$scratch/dmesg"
    of_test $mark "$scratch/dmesg" >"$log.dmesg" ||
        echo "not ok - kernel log: the beginning of this test is lost" >>"$log.ktap"
    known_reports "$log.dmesg" >>"$log.ktap"
    if reports "$log.dmesg" >"$scratch/reports"; then
        { echo "# the kernel said:"; head -n 8 "$scratch/reports" | sed 's/^/# /'; echo "not ok - kernel log"; } >>"$log.ktap"
    fi
    case ${KERNEL:-fast} in
    kcsan) looks_for_races || echo "not ok - looks for races" >>"$log.ktap" ;;
    lockdep | um-lockdep) checks_locks || echo "not ok - checks locks" >>"$log.ktap" ;;
    esac
    if [ -e "$log.kmemleak" ]; then
        { head -n 12 "$log.kmemleak" | sed 's/^/# /'; echo "not ok - kmemleak"; } >>"$log.ktap"
    fi
    echo "# seconds $(($(cut -d. -f1 /proc/uptime) - start))" >>"$log.ktap"
    echo "$name" >>"$share/results/finished"
    [ "${NODE:-1}" = "${NODES:-1}" ] || continue
    printf '%-16s %3d ok %3d not ok  %s\n' "$name" "$(grep -c '^ok' "$log.ktap")" \
        "$(grep -c '^not ok' "$log.ktap")" "$(tail -n 1 "$log.ktap" | cut -c 11-) s$([ $status = 0 ] || echo ", exit status $status")"
done <list
rm -r "$scratch"
