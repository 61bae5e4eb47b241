# SPDX-License-Identifier: GPL-2.0
# limit: 480
# duration
# Modules come and go in any order, with devices in them and programs at them: the core, two
# drivers, user verbs; of soft-RoCE now the C one, now ours, if both are in the guest. The
# orders are those of SEED=; 12 of them, or with DURATION= (of 200 or more) 50.
. ./ktap.sh
. ./rdma.sh

times=12
[ -z "${DURATION:-}" ] || times=50
RANDOM=${SEED:-7}
tree=/lib/modules/$(uname -r)

# The second driver is siw, if the kernel has it.
siw=
if has_config CONFIG_RDMA_SIW; then siw=siw; fi

# in_any_order WORD...: the words, shuffled by RANDOM.
in_any_order() { for word; do echo "$RANDOM $word"; done | sort -n | cut -d' ' -f2 | xargs; }
loaded() { [ -d "/sys/module/$1" ]; }

load() { # WHAT
    case $1 in
    soft-RoCE) if [ $((RANDOM % 2)) = 0 ]; then modprobe rdma_rxe; else modprobe ib_core && load_c_rxe; fi ;;
    core) modprobe ib_core ;;
    *) modprobe "$1" ;;
    esac
}
load_c_rxe() {
    modprobe ib_uverbs && modprobe ip6_udp_tunnel && modprobe udp_tunnel || return
    loaded rdma_rxe || insmod "$tree/kernel/drivers/infiniband/sw/rxe/rdma_rxe.ko"
}

# add TYPE: a device of it on the interface of the test, if its driver is there.
add() {
    case $1 in siw) loaded siw || return 0 ;; rxe) loaded rdma_rxe || return 0 ;; esac
    rdma link add "order_$1" type "$1" netdev v1
}
has_verbs() { ibv_devinfo -d "$1" | grep -q 'phys_port_cnt:.*1'; }
seen() { # TYPE DRIVER: by sysfs at once, and by the library
    loaded "$2" || { echo "$2 is not loaded"; return 1; }
    [ -e "/sys/class/infiniband/order_$1/node_guid" ] && rdma link show "order_$1/1" >/dev/null || return
    loaded ib_uverbs || { echo "ib_uverbs is not loaded"; return 1; }
    wait_until 30 has_verbs "order_$1" && return
    echo "order_$1 has no user verbs"
    return 1
}

# One round: load in an order, a device at a moment between, unload in another order,
# sometimes with the devices still there.
once() {
    local m coming leaving log=
    # shellcheck disable=SC2046
    set -- $(in_any_order core soft-RoCE $siw ib_uverbs)
    coming=$*
    for m in "$@"; do
        load "$m" || { echo "loading $m, in the order $coming"; return 1; }
        if [ $((RANDOM % 2)) = 0 ]; then
            [ -e /sys/class/infiniband/order_rxe ] || add rxe || return
            [ -e /sys/class/infiniband/order_siw ] || add siw || return
        fi
    done
    if [ $((RANDOM % 4)) != 0 ]; then
        for m in rxe $siw; do
            [ -e /sys/class/infiniband/order_$m ] || add $m || return
        done
        seen rxe rdma_rxe && { [ -z "$siw" ] || seen siw siw; } || { echo "in the order $coming"; return 1; }
    fi
    # Somebody at a device, who is cut off, or keeps its module in place until he is killed.
    ibv_asyncwatch -d order_rxe >/dev/null 2>&1 &
    log=$!
    # shellcheck disable=SC2046
    set -- $(in_any_order rdma_rxe $siw ib_uverbs ib_uverbs_support ib_core)
    leaving=$*
    for m in "$@"; do rmmod "$m" 2>/dev/null; done
    kill -9 $log 2>/dev/null
    wait $log 2>/dev/null
    # With lockdep, the C driver's socket keeps its module while there is a device.
    if [ -e /proc/lockdep ] && [ -e /sys/class/infiniband/order_rxe ]; then rdma link del order_rxe; fi
    unload_stack || { echo "loaded in the order $coming, unloading in the order $leaving"; return 1; }
    [ ! -e /sys/class/infiniband ] || { echo "the class is still there"; return 1; }
}
many() {
    local i
    for i in $(seq $times); do once || { echo "in round $i (SEED=${SEED:-7})"; return 1; }; done
}
used_kb() {
    local cache
    echo 3 >/proc/sys/vm/drop_caches
    for cache in /sys/kernel/slab/*/shrink; do echo 1 >"$cache" 2>/dev/null; done
    sleep 1
    awk '/^(SUnreclaim|VmallocUsed|Percpu|PageTables|KernelStack):/ { s += $2 } END { print s }' /proc/meminfo
}
frugal() {
    local before after status=0
    before=$(used_kb)
    many || return
    wait_until 30 is_back || status=1
    echo "kernel memory: $before kB, after $times rounds $after kB"
    return $status
}
is_back() {
    after=$(used_kb)
    [ $((after - before)) -lt $((times * 12 + 600)) ]
}
again() { modprobe rdma_rxe && modprobe ib_uverbs && two_nodes && verify_pair 60 -r 3; }

check "all unload" unload_stack
ip link add v1 type veth peer name v2
ip link set v1 up
ip link set v2 up
check "one round" once
check "$times rounds in any order, and memory comes back" frugal
ip link del v1
check "works after all that" again
finish
