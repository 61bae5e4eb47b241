# SPDX-License-Identifier: GPL-2.0
# limit: 120
# /sys/class/infiniband: names, modes and contents, of a device and of its copy in another
# namespace, as the C core has them (sysfs-peer.txt); what may be written; and reading
# while a device goes.
. ./ktap.sh
. ./rdma.sh

top=/sys/class/infiniband
peer=/share/tests/sysfs-peer.txt

ground() {
    ip netns add n1 || return
    ip link add v1 type veth peer name v2 || return
    ip link set v1 address 02:00:00:00:00:01 up
    ip link set v2 address 02:00:00:00:00:02 up
    ip addr add 10.0.1.1/24 dev v1
    ip addr add fd01::1/64 dev v1 nodad
    rdma link add rxe1 type rxe netdev v1 || return
    if [ -n "$siw" ]; then modprobe siw && rdma link add siw1 type siw netdev v2 || return; fi
    # Addresses get to the table by a worker.
    wait_until 30 grep -qx fd01:0000:0000:0000:0000:0000:0000:0001 $top/rxe1/ports/1/gids/2
}
# shows NAME CMD...: the tree is that of the section NAME of the peer's file
shows() {
    local name=$1
    shift
    # Our soft-RoCE counts three things that the C driver knows nothing of.
    "$@" python3 /share/tests/sysfs.py "$top/${name%%-*}" |
        grep -v 'hw_counters/[nr]p_' >/tmp/tree || return
    sed -n "/^== $name\$/,/^== /p" $peer | grep -v '^== ' >/tmp/wanted
    [ -s /tmp/wanted ] && diff /tmp/wanted /tmp/tree
}
lifespan() {
    local file=$top/rxe1/ports/1/hw_counters/lifespan bad
    echo 0 >$file && [ "$(cat $file)" = 0 ] && echo 10000 >$file && [ "$(cat $file)" = 10000 ] || return
    for bad in 10001 -1 x '' 0x10 99999999999; do
        if echo "$bad" >$file; then
            echo "accepted: $bad"
            return 1
        fi
    done
    [ "$(cat $file)" = 10000 ]
}
desc() {
    echo "a name" >$top/rxe1/node_desc && [ "$(head -n 1 $top/rxe1/node_desc)" = "a name" ] || return
    python3 -c 'print("y" * 100)' >$top/rxe1/node_desc
    [ "$(tr -d '\n' <$top/rxe1/node_desc | wc -c)" = 64 ]
}
no_desc() { refused_as 'Operation not supported|Permission denied' bash -c "echo x >$top/siw1/node_desc"; }
# Read everything, over and over, while devices and namespaces come and go.
going() {
    local reader
    (while :; do cat $top/rxe1/ports/1/*/* $top/rxe1/* >/dev/null 2>&1; done) &
    reader=$!
    (while :; do ip netns exec n1 cat $top/rxe1/ports/1/*/* >/dev/null 2>&1; done) &
    local status=0
    for _ in 1 2 3; do
        rdma link del rxe1 && rdma link add rxe1 type rxe netdev v1 || status=1
    done
    ip netns add n2 && ip netns del n2 || status=1
    kill $reader $! || status=1
    wait
    [ $status = 0 ] && [ -e $top/rxe1/ports/1/state ]
}
gone() { rdma link del rxe1 && { [ -z "$siw" ] || rdma link del siw1; } && ip netns del n1 && ip link del v1 && [ ! -e $top/rxe1 ] && [ ! -e $top/siw1 ]; }

# on_siw NAME CMD...: a case that is skipped where there is no siw.
siw=
on_siw() { if [ -n "$siw" ]; then check "$@"; else skip "$1" "this kernel has no $without"; fi; }
if has_config CONFIG_RDMA_SIW; then siw=yes; fi

check "a device of rxe and one of siw" ground
check "files of rxe1 are those of the C core" shows rxe1
on_siw "files of siw1 are those of the C core" shows siw1
check "rxe1 in another namespace: no counters" shows rxe1-copy ip netns exec n1
on_siw "siw1 in another namespace" shows siw1-copy ip netns exec n1
check "lifespan of counters" lifespan
check "node_desc" desc
on_siw "node_desc of a driver that cannot" no_desc
check "read while devices go" going
check "all gone" gone
finish
