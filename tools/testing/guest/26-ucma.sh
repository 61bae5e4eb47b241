# SPDX-License-Identifier: GPL-2.0
# limit: 240
# The rdma_ucm of ours: files and their events, and four hostile threads at shared contexts.
. ./ktap.sh
. ./rdma.sh

if ! ours rdma_ucm; then
    skip "events and races" "the rdma_ucm is not ours (STACK=$STACK)"
    finish
fi

node() { [ "$(stat -c %a /dev/infiniband/rdma_cm)" = 666 ] && grep -qx 4 /sys/class/misc/rdma_cm/abi_version; }
backlog() {
    local old
    old=$(cat /proc/sys/net/rdma_ucm/max_backlog)
    [ "$old" = 1024 ] || return
    echo 7 >/proc/sys/net/rdma_ucm/max_backlog && [ "$(cat /proc/sys/net/rdma_ucm/max_backlog)" = 7 ] || return
    ! echo -1 2>/dev/null >/proc/sys/net/rdma_ucm/max_backlog || return
    echo "$old" >/proc/sys/net/rdma_ucm/max_backlog
}
queue() { within 60 python3 ./ucma_queue.py "$1"; }
races() { within 60 python3 ./ucma_races.py "$seconds" "$1"; }
# A device that goes takes its contexts with it, also those of programs that do not look.
removal() {
    within 60 python3 ./ucma_races.py 6 9 &
    local pid=$! status=0
    sleep 2
    on 1 rdma link del rxe1 || return
    wait $pid || status=$?
    on 1 rdma link add rxe1 type rxe netdev v1 && gid 1 10.0.1.1 >/dev/null || return
    return $status
}
unloads() { rmmod rdma_ucm && modprobe rdma_ucm && node; }

seconds=10
check "two nodes" two_nodes
check "rdma_ucm loads" modprobe rdma_ucm
check "node and abi_version" node
check "max_backlog" backlog
check "found by netlink" modprobe -n rdma-client-rdma_cm
for one in bound asked not_copied moved unread listens_again listener_moves group_twice; do check "events: $one" queue $one; done
if ours ib_core && ours ib_cm; then
    check "hostile threads" races 1
    check "hostile threads, again" races 2
    check "hostile threads, and the device goes" removal
else
    # Also below the C rdma_ucm, and when a single thread closes its file while it connects.
    skip "hostile threads" "with the C ib_core and ib_cm, ib_destroy_cm_id may wait for ever"
fi
check "nothing is left: the module is unloaded" unloads
finish
