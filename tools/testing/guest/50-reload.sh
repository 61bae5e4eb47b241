# SPDX-License-Identifier: GPL-2.0
# limit: 600
# Load, use and unload the provider many times; memory and references come back.
. ./ktap.sh
. ./rdma.sh

times=50
[ "$SCALE" = 1 ] || times=10

once() {
    modprobe rdma_rxe && on 1 rdma link add rxe1 type rxe netdev v1 && on 2 rdma link add rxe2 type rxe netdev v2 || return
    verify_pair 60 -r 1 -n 4 || return
    on 1 rdma link del rxe1 && on 2 rdma link del rxe2 || return
    wait_until 60 rmmod rdma_rxe && return
    rmmod rdma_rxe
    grep rdma_rxe /proc/modules
    return 1
}
# The C driver cannot cut off its users, so it may not be unloaded under them. A
# driver that can is unloaded, and its users see errors, not a hang.
under_traffic() {
    modprobe rdma_rxe && two_nodes && traffic || return
    if ! ours rdma_rxe; then
        refused_as 'in use' rmmod rdma_rxe && traffic_stop
        return
    fi
    rmmod rdma_rxe || { traffic_stop; return 1; }
    if ! wait_until 60 not running "$traffic_client"; then echo "the client did not end"; traffic_stop; return 1; fi
    cat /tmp/traffic1
    traffic_stop && grep -q 'Input/output error\|No such device\|failed: Work Request Flushed' /tmp/traffic1
}
again() { two_nodes && verify_pair 60 -r 3; }
used_kb() {
    local cache
    echo 3 >/proc/sys/vm/drop_caches
    # KASAN delays the reuse of freed memory, unless a cache is shrunk.
    for cache in /sys/kernel/slab/*/shrink; do echo 1 >"$cache" 2>/dev/null; done
    sleep 1
    awk '/^(SUnreclaim|VmallocUsed|Percpu|PageTables|KernelStack):/ { s += $2 } END { print s }' /proc/meminfo
}
many() {
    local i before after status=0
    for i in 1 2 3; do once || return; done
    before=$(used_kb)
    for i in $(seq $times); do once || { echo "in round $i"; return 1; }; done
    wait_until 30 is_back || status=1
    echo "kernel memory: $before kB, after $times rounds $after kB"
    return $status
}
is_back() {
    after=$(used_kb)
    # Each round creates devices, QPs and MRs: a leak of even one QP a round shows.
    [ $((after - before)) -lt $((times * 12 + 600)) ]
}

on_bare_ground() { two_nodes && on 1 rdma link del rxe1 && on 2 rdma link del rxe2 && rmmod rdma_rxe; }

check "two nodes without devices" on_bare_ground
check "load, use, unload $times times" many
if ours rdma_rxe; then
    check "unload under traffic ends the traffic" under_traffic
else
    check "unload under traffic is refused" under_traffic
fi
modprobe rdma_rxe
check "works after all that" again
finish
