#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The guest's part of a bench of cores (CORE=1): the C driver on either, so that what differs
# is the core. Prints "R|case|value|unit" lines, of which run.sh makes the table.
cd /share/tests || exit 1
. ./rdma.sh
. /share/env

now_us() { echo $(($(date +%s%N) / 1000)); }
# timed CASE COUNT CMD...: the time of CMD, divided by COUNT.
timed() {
    local name=$1 count=$2 begin
    shift 2
    begin=$(now_us)
    if "$@" >/dev/null; then
        echo "R|$name|$((($(now_us) - begin) / count))|us"
    else
        echo "R|$name|failed|us"
    fi
}

links() {
    local i
    for i in $(seq 50); do rdma link add bench type rxe netdev v9 && rdma link del bench || return; done
}
gids() { cat /sys/class/infiniband/bench/ports/1/gids/* | grep -vc '^0000:0000:0000:0000:0000:0000:0000:0000$'; }
# until_gids COUNT: the device has as many.
until_gids() {
    for _ in $(seq 3000); do
        # One file tells most of the time: reading all of them would be what is timed.
        if [ "$(cat /sys/class/infiniband/bench/ports/1/gids/$(($1 - 1)))" != "$2" ] && [ "$(gids)" = "$1" ]; then return; fi
    done
    echo "$(gids) GIDs, $1 were expected" >&2
    return 1
}
addresses() {
    ip -batch /tmp/addresses && until_gids $((before + 500)) 0000:0000:0000:0000:0000:0000:0000:0000
}
no_addresses() {
    ip addr flush dev v9 scope global
    for _ in $(seq 3000); do if [ "$(gids)" = "$before" ]; then return; fi; done
    return 1
}
sysfs_gids() { cat /sys/class/infiniband/bench/ports/1/gids/* >/dev/null; }
sysfs_attributes() { cat /sys/class/infiniband/bench/ports/1/gid_attrs/types/* >/dev/null 2>&1; true; }

two_nodes || exit 1
on 1 rates rxe1 core "$(gid 1 10.0.1.1)"

mkfifo /tmp/hold
on 1 rates rxe1 hold 10000 </tmp/hold >/tmp/held &
exec 5>/tmp/hold
for _ in $(seq 600); do if grep -q held /tmp/held; then break; fi; sleep 0.1; done
timed "rdma res show qp, of 10,000" 1 on 1 rdma res show qp
timed "rdma res show, of 10,000 QPs" 1 on 1 rdma res show
exec 5>&-
wait
two_nodes_gone

ip link add v9 type veth peer name v8
ip link set v9 up
ip link set v8 up
timed "device add and remove" 50 links
rdma link add bench type rxe netdev v9
sleep 1
before=$(gids)
for i in $(seq 0 499); do echo "addr add 10.9.$((i / 250)).$((i % 250 + 1))/16 dev v9"; done >/tmp/addresses
timed "addresses become GIDs, each of 500" 500 addresses
timed "all GIDs of a port by sysfs" 1 sysfs_gids
timed "all GID types of a port by sysfs" 1 sysfs_attributes
timed "addresses go, each of 500" 500 no_addresses
timed "rdma link show" 1 rdma link show
timed "ibv_devinfo -v" 1 ibv_devinfo -v
