#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Runs in the guest: every test that /share/tests/list names, one after another.
# A test's KTAP goes to /share/results/NAME.ktap and what the kernel logged
# meanwhile to NAME.dmesg; a kernel report or a leak seen in it is one more failed
# case, "kernel log" ("kmemleak" for what that suspects). The results survive the guest's
# death, since they are on the host's disk.
cd /share/tests || exit 1
mkdir -p /share/results
. ./scale.sh
. ./kmemleak.sh
. ./reports.sh || exit 1

stack >/share/results/stack
[ "${NODE:-1}" != "${NODES:-1}" ] || echo "Rust modules loaded: $(awk '$2 == "rust" { print $1 }' /share/results/stack | xargs)"

mark=0
while read -r name limit; do
    mark=$((mark + 1))
    log=/share/results/$name
    echo "rdma-test begin $mark $name" >/dev/kmsg
    start=$(cut -d. -f1 /proc/uptime)
    timeout -k 10 $((limit * SCALE)) bash "./$name.sh" >"$log.ktap" 2>&1 </dev/null
    status=$?
    bash -c '. ./rdma.sh; two_nodes_gone' >/dev/null 2>&1
    leaks "$name" >"$log.kmemleak"
    [ -s "$log.kmemleak" ] || rm "$log.kmemleak"
    dmesg | awk -v m="rdma-test begin $mark " 'on { print } index($0, m) { on = 1 }' >"$log.dmesg"
    known_reports "$log.dmesg" >>"$log.ktap"
    if reports "$log.dmesg" >/tmp/reports; then
        { echo "# the kernel said:"; head -n 8 /tmp/reports | sed 's/^/# /'; echo "not ok - kernel log"; } >>"$log.ktap"
    elif [ -e "$log.kmemleak" ]; then
        { head -n 12 "$log.kmemleak" | sed 's/^/# /'; echo "not ok - kmemleak"; } >>"$log.ktap"
    fi
    [ "$status" -lt 124 ] || echo "not ok - $name did not end within $((limit * SCALE)) s" >>"$log.ktap"
    echo "# seconds $(($(cut -d. -f1 /proc/uptime) - start))" >>"$log.ktap"
    echo "$name" >>/share/results/finished
    [ "${NODE:-1}" = "${NODES:-1}" ] || continue
    printf '%-16s %3d ok %3d not ok  %s\n' "$name" "$(grep -c '^ok' "$log.ktap")" \
        "$(grep -c '^not ok' "$log.ktap")" "$(tail -n 1 "$log.ktap" | cut -c 11-) s"
done <list
