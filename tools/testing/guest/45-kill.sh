# SPDX-License-Identifier: GPL-2.0
# limit: 240
# short
# Processes that die by SIGKILL under traffic leave nothing behind.
. ./ktap.sh
. ./rdma.sh

objects() { on "$1" rdma res show "rxe$1" | sed 's/^[0-9]*: //'; }
as_it_was() { [ "$before" = "$(objects 1; objects 2)" ]; }
killed() {
    local before i
    before=$(objects 1; objects 2)
    # The requested kill, and not two failures: each device has its own GSI queue pair.
    [ "$(grep -cE '^rxe[12]: .*qp [1-9]' <<<"$before")" = 2 ] || { echo "no list of objects: $before"; return 1; }
    for i in 1 2 3 4 5; do
        traffic && traffic_stop || return
    done
    # Release is finished a moment after the process is gone.
    wait_until 30 as_it_was && return
    echo "before: $before"
    echo "after: $(objects 1; objects 2)"
    return 1
}
kill_one_side() { # the other one must learn of it by its retries
    traffic -T $impatience || return
    kill -9 "$traffic_server"
    client_notices
}

check "two nodes" two_nodes
check "both killed, five times, no object left" killed
check "one killed, the other gets an error" kill_one_side
check "and works again" verify_pair 30 -r 3
finish
