# SPDX-License-Identifier: GPL-2.0
# limit: 480
# rdma_cm of ours: what administrators see, compared with the C module; changes of the network, devices
# that come and go, namespaces, and calls that meet.
. ./ktap.sh
. ./rdma.sh

if ! ours rdma_cm; then
    skip "rdma_cm" "it is not ours (STACK=$STACK)"
    finish
fi

kernel=/lib/modules/$(uname -r)/kernel/drivers/infiniband/core
c_cma() { rmmod rdma_ucm rdma_cm && insmod $kernel/rdma_cm.ko && loaded_as rdma_cm c && modprobe rdma_ucm; }
our_cma() { rmmod rdma_ucm rdma_cm && modprobe rdma_ucm && as_asked rdma_cm; }

answers() { # FILE
    within 100 python3 ./cma_answers.py >"$1" 2>"$1.log" || { tail -n 12 "$1.log"; tail -n 3 "$1"; return 1; }
    cp "$1" "/share/results/${1#/tmp/}.log"
    [ "$(tail -n 1 "$1")" = end ]
}
same_answers() {
    [ -s /tmp/cma-c ] && diff -U 0 /tmp/cma-c /tmp/cma-ours >/tmp/cma-differ && return
    head -n 60 /tmp/cma-differ
    return 1
}

cases() { # NAME...
    local one
    for one; do
        check "$one" within 60 python3 ./cma_cases.py "$one"
        # A case may end with the device gone.
        if [ ! -e /sys/class/infiniband/rxe1 ]; then check "and the device is back" back; fi
    done
}
back() {
    if [ -e /sys/class/infiniband/siw1 ]; then on 1 rdma link del siw1 || return; fi
    on 1 ip neigh del 10.0.1.2 dev v1 2>/dev/null
    on 1 rdma link add rxe1 type rxe netdev v1 && reaches 1 10.0.1.2 && gid 1 10.0.1.1
}

traced() {
    local events=/sys/kernel/tracing/events/rdma_cma event
    [ -d $events ] || mount -t tracefs none /sys/kernel/tracing
    [ "$(find $events -mindepth 1 -maxdepth 1 -type d | wc -l)" = 19 ] || { ls $events; return 1; }
    echo 1 >$events/enable && echo >/sys/kernel/tracing/trace || return
    meet 40 rping -s -V -C 2 -a 10.0.1.2 -- rping -c -V -C 2 -a 10.0.1.2 || return
    echo 0 >$events/enable
    for event in cm_id_attach cm_send_req cm_send_rep cm_req_handler cm_event_handler cm_event_done cm_disconnect cm_id_destroy; do
        grep -q $event /sys/kernel/tracing/trace || { echo "no $event"; return 1; }
    done
}
# While there is a folder of a device, the module stays.
folder_keeps() {
    local status=0
    mkdir /sys/kernel/config/rdma_cm/rxe1 || return
    rmmod rdma_ucm || return
    ! rmmod rdma_cm 2>/dev/null || status=1
    rmdir /sys/kernel/config/rdma_cm/rxe1 && rmmod rdma_cm && [ ! -d /sys/kernel/config/rdma_cm ] || status=1
    modprobe rdma_ucm && return $status
}
# Its folder outlives a device.
folder_stays() {
    local file=/sys/kernel/config/rdma_cm/rxe1/ports/1/default_roce_tos
    mkdir /sys/kernel/config/rdma_cm/rxe1 && echo 8 >$file && on 1 rdma link del rxe1 || return
    refused_as 'No such device' cat $file && back && grep -qx 0 $file && rmdir /sys/kernel/config/rdma_cm/rxe1
}
loads_alone() {
    rmmod rdma_ucm && rmmod rdma_cm && rmmod ib_cm && rmmod iw_cm || return
    modprobe rdma_cm && as_asked rdma_cm && [ -d /sys/module/ib_cm ] && [ -d /sys/module/iw_cm ] || return
    modprobe rdma_ucm
}
devices_first() { # the modules come when there are devices, with which they work
    rmmod rdma_ucm rdma_cm ib_cm && modprobe rdma_ucm && meet 40 rping -s -V -C 2 -a 10.0.1.2 -- rping -c -V -C 2 -a 10.0.1.2
}

check "two nodes" two_nodes
check "the module" modprobe rdma_ucm
check "it is ours" as_asked rdma_cm
if has_config CONFIG_CONFIGFS_FS; then
    mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config
    for one in ours c; do
        check "the module is loaded: $one" "${one/ours/our}_cma"
        check "what administrators see: $one" answers "/tmp/cma-$one"
    done
    check "both alike" same_answers
    check "our module is loaded again" our_cma
    check "a folder keeps the module" folder_keeps
    check "a folder outlives its device" folder_stays
else
    skip "what administrators see" "this kernel has no CONFIG_CONFIGFS_FS"
fi
check "it loads what it needs" loads_alone
check "it loads after devices" devices_first
cases bind_races path_mig neighbours other_neighbours namespaces removal
if has_config CONFIG_RDMA_SIW; then
    check "siw" modprobe siw
    cases new_device_fails slow_mapper
else
    skip "new_device_fails" "this kernel has no CONFIG_RDMA_SIW"
    skip "slow_mapper" "this kernel has no CONFIG_RDMA_SIW"
fi
# A device of each kind on one interface, the one of RoCE first: a request of iWARP is for its own.
beside() {
    on 1 rdma link del rxe1 && on 1 rdma link add siw1 type siw netdev v1 && on 2 rdma link add siw2 type siw netdev v2 || return
    local status=0
    meet 40 rping -s -V -C 5 -- rping -c -V -C 5 -a 10.0.1.2 || status=1
    on 2 rdma link del siw2 && back && return $status
}
if has_config CONFIG_RDMA_SIW; then
    check "iWARP beside RoCE" beside
    check "and RoCE again" meet 40 rping -s -V -C 5 -a 10.0.1.2 -- rping -c -V -C 5 -a 10.0.1.2
fi
if [ -d /sys/kernel/tracing ]; then
    check "tracepoints" traced
else
    skip "tracepoints" "this kernel has no tracefs"
fi

# Threads at shared IDs, for a minute on a kernel that is not slow.
hostile() { within 120 python3 ./ucma_races.py 60 "$1"; }
if ours rdma_ucm && ours ib_cm && ours ib_core; then
    check "hostile threads" hostile 3
else
    skip "hostile threads" "with the C ib_core and ib_cm, ib_destroy_cm_id may wait for ever"
fi

# An ID on a bond learns that another device carries it.
bond() {
    two_nodes_gone && two_nodes && on 1 rdma link del rxe1 || return
    on 1 ip addr flush dev v1
    on 1 ip link add w1 type dummy && on 1 ip link add b0 type bond mode active-backup miimon 50 fail_over_mac active || return
    for l in v1 w1; do on 1 ip link set $l down && on 1 ip link set $l master b0 || return; done
    on 1 ip link set b0 up && on 1 ip addr add 10.0.1.1/24 dev b0 && on 1 rdma link add rxe1 type rxe netdev b0 || return
    reaches 1 10.0.1.2 && gid 1 10.0.1.1
}
if has_config CONFIG_BONDING; then
    check "a bond" bond
    check "failover" within 60 python3 ./cma_cases.py failover
else
    skip "a bond" "this kernel has no CONFIG_BONDING"
fi
check "the devices' end" two_nodes_gone
finish
