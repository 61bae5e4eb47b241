# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# sa_steps.sh DIR: what kernel consumers ask the subnet administrator of an InfiniBand fabric
# (tools/testing/fakeib, opensm): paths and multicast groups of IPoIB and of the connection
# manager, with a service on this machine that may know paths, and with a subnet manager that
# goes, comes back and forgets. What is seen goes to DIR/NAME.txt; DIR/names has their order.
set -u
dir=$1
rm -rf "$dir"
mkdir -p "$dir"
. ./scale.sh
ends=(0x0266616b65690001 0x0266616b65690101)
gids=(fe80::266:616b:6569:1 fe80::266:616b:6569:101)
ports=(/sys/class/infiniband/fakeib0/ports/1 /sys/class/infiniband/fakeib1/ports/1)

part() { # NAME FUNCTION
    local start=$SECONDS
    # IPoIB asks for its neighbours when it likes (use=1), and opensm numbers groups as it likes.
    "$2" 2>&1 | sed -E '/^path .* use=1 /d; s/mlid 0x[0-9a-f]+/mlid X/' >"$dir/$1.txt"
    echo "$1" >>"$dir/names"
    echo "$1: $((SECONDS - start)) s"
}
run() { # CMD...: what it says and how it ends
    local status=0
    timeout -k 5 $((60 * SCALE)) "$@" >/tmp/step 2>&1 || status=$?
    echo "$status: $*"
    cat /tmp/step
}
eventually() { # CMD...: until it succeeds
    for _ in $(seq $((400 * SCALE))); do
        if "$@" >/dev/null 2>&1; then return; fi
        sleep 0.1
    done
    echo "never: $*"
}
not() { ! "$@"; }
active() { ! cat "${ports[0]}/state" "${ports[1]}/state" | grep -qv ACTIVE; }
manager() {
    opensm -g "${ends[0]}" "$@" -B -f /tmp/opensm.log >/dev/null 2>&1
    eventually active
    eventually timeout $((5 * SCALE)) saquery -p --src-to-dst 1:1
}
manager_gone() {
    pkill -x opensm
    eventually not pgrep -x opensm
    rm -f /tmp/opensm.log
}
in1() { run ip netns exec n1 "$@"; }
reaches() { ip netns exec n1 ping -c 1 -W 1 10.9.0.2; }
# Forgets neighbours and with them paths.
forget() {
    local n
    for n in n1 n2; do ip -n $n neigh flush all; done
}
pings() {
    eventually reaches
    in1 ping -q -c 3 10.9.0.2 | grep -o '[0-9]* packets.*received'
}

up() {
    run modprobe ib_umad
    run modprobe fakeib
    manager
    run modprobe ib_ipoib
    run modprobe rdma_ucm
    for i in 1 2; do
        ip netns add n$i
        ip link set ib$((i - 1)) netns n$i
        ip -n n$i link set lo up
        ip -n n$i addr add 10.9.0.$i/24 dev ib$((i - 1))
        ip -n n$i link set ib$((i - 1)) up
    done
    pings
}
# The groups, when they have stood for two seconds: joins and leaves take their time. Left out is
# what IPv6 joins only when it happens to ask for routers (::2) or to report its groups (::16).
groups() {
    local now before= still=0
    for _ in $(seq 60); do
        now=$(saquery -g | grep -oE 'ff1[0-9a-f]:[0-9a-f:]*' | grep -vE '::(2|16)$' | sort -u)
        if [ "$now" = "$before" ]; then still=$((still + 1)); else still=0; fi
        [ $still -lt 2 ] || break
        before=$now
        sleep 1
    done
    echo "$now"
}
memberships() {
    groups
    # Groups come and go with their members; many at a time.
    for i in $(seq 1 30); do ip -n n1 -6 addr add fd00::$i/128 dev ib0 nodad; done
    eventually eval '[ "$(saquery -g | grep -c ff12:601b)" -ge 30 ]'
    for i in $(seq 1 30); do ip -n n1 -6 addr del fd00::$i/128 dev ib0; done
    eventually eval '[ "$(saquery -g | grep -c ff12:601b)" -lt 10 ]'
    groups
}
service() { # MODE: the service for paths; what it was asked is shown when it has gone
    local mode=$1
    stdbuf -oL python3 ./local_service.py "$mode" "${gids[0]}=$(cat "${ports[0]}/lid")" \
        "${gids[1]}=$(cat "${ports[1]}/lid")" >/tmp/service 2>&1 &
    served=$!
    eventually grep -q ready /tmp/service
}
served() {
    kill $served
    wait $served 2>/dev/null
    # The number of requests depends on timing; their content does not.
    sort -u /tmp/service
}
local_paths() {
    for mode in answer noise fail; do
        echo "= $mode"
        service $mode
        forget
        ip -n n1 link set ib0 down
        ip -n n1 link set ib0 up
        pings
        datagrams
        served
    done
    echo "= silent"
    run python3 ./local_service.py timeout 300
    service silent
    forget
    ip -n n1 link set ib0 down
    ip -n n1 link set ib0 up
    pings
    datagrams
    served
    # A query does not wait for the service any more when its device is removed.
    run python3 ./local_service.py timeout 100000
    run python3 ./local_service.py timeout 1
    run python3 ./local_service.py timeout 2000
}
datagrams() {
    ip netns exec n2 timeout $((20 * SCALE)) udaddy >/tmp/udaddy 2>&1 &
    local server=$!
    eventually eval 'rdma -j resource show cm_id 2>/dev/null | grep -q LISTEN'
    in1 udaddy -s 10.9.0.2
    wait $server
    cat /tmp/udaddy
}
multicast() {
    rm -f /tmp/mckey
    ip netns exec n2 timeout $((40 * SCALE)) stdbuf -oL mckey -m 239.1.2.3 -b 10.9.0.2 >/tmp/mckey 2>&1 &
    local server=$!
    eventually grep -q 'joined dgid' /tmp/mckey
    groups >/tmp/groups
    in1 mckey -m 239.1.2.3 -b 10.9.0.1 -s
    wait $server
    cat /tmp/mckey
    # It is left when its last member has gone.
    eventually eval 'saquery -g | grep -c . >/dev/null'
    # A member who may only send.
    in1 mckey -o -m 239.1.2.4 -b 10.9.0.1 -s
}
manager_goes() {
    manager_gone
    # Without a response, queries time out.
    in1 mckey -m 239.9.9.9 -b 10.9.0.1 -s | head -3
    # A new one has forgotten all members, and they join again.
    manager
    eventually eval 'saquery -g | grep -q ff12:401b'
    pings
    groups
    multicast
}
events() {
    local i
    for i in 1 2 3; do
        ibportstate 2 1 disable >/dev/null 2>&1
        eventually not reaches
        ibportstate 2 1 enable >/dev/null 2>&1
        eventually active
        pings
    done
    # Events in the middle of joins.
    for i in $(seq 1 10); do
        ip -n n1 -6 addr add fd00::1:$i/128 dev ib0 nodad
        pkill -HUP -x opensm
        ip -n n1 -6 addr del fd00::1:$i/128 dev ib0
    done
    pings
}
gone() {
    # The service does not respond while a query waits.
    service silent
    forget
    ip netns exec n1 timeout 1 ping -c 1 -W 1 10.9.0.2 >/dev/null
    local start=$SECONDS
    manager_gone
    ip netns del n1
    ip netns del n2
    run rmmod rdma_ucm
    run rmmod ib_ipoib
    run rmmod fakeib
    [ $((SECONDS - start)) -lt $((60 * SCALE)) ] && echo "in time"
    served >/dev/null
    run ls /sys/class/infiniband
}

part up up
part memberships memberships
part multicast multicast
part local_paths local_paths
part manager_goes manager_goes
part events events
part gone gone
