#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The guest's part of a bench of cores (CORE=1): the C driver on either, so that what differs
# is the core. Prints "R|case|value|unit" lines, of which run.sh makes the table.
cd /share/tests || exit 1
. ./rdma.sh
. /share/env

links() {
    local i
    for i in $(seq 50); do rdma link add bench type rxe netdev v9 && rdma link del bench || return; done
}
export -f links
ports=/sys/class/infiniband/bench/ports/1

two_nodes || exit 1
on 1 env OBJECTS="${OBJECTS:-}" rates rxe1 core "$(gid 1 10.0.1.1)" || exit 1
if [ -n "${OBJECTS:-}" ]; then exit; fi

mkfifo /tmp/hold
on 1 rates rxe1 hold 10000 </tmp/hold >/tmp/held &
exec 5>/tmp/hold
wait_until 60 grep -q held /tmp/held
timed -r 2 "rdma res show qp, of 10,000" ip netns exec n1 rdma res show qp
timed "rdma res show, of 10,000 QPs" ip netns exec n1 rdma res show
exec 5>&-
wait
two_nodes_gone

ip link add v9 type veth peer name v8
ip link set v9 up
ip link set v8 up
timed -r 3 -n 50 "device add and remove" bash -c links
rdma link add bench type rxe netdev v9
# Its first address has come when nobody may have it any more.
sleep 3
before=$(timed -c bench:0)
for i in $(seq 0 499); do echo "addr add 10.9.$((i / 250)).$((i % 250 + 1))/16 dev v9"; done >/tmp/addresses

# least: of several rounds' lines of one case.
least() { sort -t '|' -k 3n | head -n 1; }
come() { timed -n 500 -g "bench:$((before + 500))" "addresses become GIDs, each of 500" ip -batch /tmp/addresses; }
go() { timed -n 500 -g "bench:$before" "addresses go, each of 500" ip addr flush dev v9 scope global; }

# Programs are read from the disk now, and not while they are timed: the guest's clock runs
# on while it waits.
ip addr flush dev v9 scope global
for _ in 1 2 3 4 5; do
    come >>/tmp/come
    go >>/tmp/go
done
least </tmp/come
come >/tmp/come
timed -f $ports/gids "all 1024 GIDs of a port by sysfs"
timed -f $ports/gid_attrs/types "all 1024 GID types of a port by sysfs"
least </tmp/go
go >/tmp/go
timed -f $ports/gids "the same GIDs by sysfs, none of them used"
timed "rdma link show" rdma link show
timed "ibv_devinfo -v" ibv_devinfo -v
