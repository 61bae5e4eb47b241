# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# fabric_steps.sh DIR: two InfiniBand ports of the driver fakeib (tools/testing/fakeib), brought
# up by opensm, through what such ports have: tools of management, IPoIB, changes that the
# subnet manager makes. What is seen goes to DIR/NAME.txt; DIR/names has their order. Numbers
# that differ from run to run are left out.
set -u
dir=$1
rm -rf "$dir"
mkdir -p "$dir"
# A manager gives each port the LID that it gave it before.
rm -rf /var/cache/opensm/*
. ./scale.sh
top=/sys/class/infiniband
ports=("$top/fakeib0/ports/1" "$top/fakeib1/ports/1")
guids=(0x0266616b65690000 0x0266616b65690100)
ends=(0x0266616b65690001 0x0266616b65690101)

part() { # NAME FUNCTION
    local start=$SECONDS
    "$2" >"$dir/$1.txt" 2>&1
    echo "$1" >>"$dir/names"
    echo "$1: $((SECONDS - start)) s"
}
run() { # CMD...: what it says and how it ends
    local status=0
    timeout -k 5 $((60 * SCALE)) "$@" >/tmp/step 2>&1 || status=$?
    echo "$status: $*"
    # How long a manager has been active, and who of two hangs up first, is a matter of time.
    sed -E '/DISCONNECT EVENT/d; s/\(timeout.*//; s/(ActCount\.*)[0-9]+/\1N/' /tmp/step
}
eventually() { # CMD...: until it succeeds
    for _ in $(seq $((400 * SCALE))); do
        if "$@" >/dev/null 2>&1; then return; fi
        sleep 0.1
    done
    echo "never: $*"
}
all_in() { ! cat "${ports[0]}/state" "${ports[1]}/state" | grep -qv "$1"; }
manager() { # END ARG...: the subnet manager runs on that end
    manager_gone
    opensm -g "${ends[$1]}" "${@:2}" -B -f /tmp/opensm.log >/dev/null 2>&1
    eventually all_in ACTIVE
    eventually timeout $((5 * SCALE)) saquery -p --src-to-dst 2:2
}
manager_gone() {
    pkill -9 -x opensm
    eventually not pgrep -x opensm
    rm -f /tmp/opensm.log
}
not() { ! "$@"; }
# What a port says of itself, in one go: a debug kernel reads files slowly.
look() {
    local port
    for port in "${ports[@]}"; do
        grep -s . "$port"/{state,phys_state,lid,lid_mask_count,sm_lid,sm_sl,cap_mask,rate,link_layer} \
            "$port"/{gids,gid_attrs/types,pkeys}/[0-3]
    done
}
# settled CMD...: its output, once it has not changed for two seconds.
settled() {
    local now before= still=0
    for _ in $(seq 60); do
        now=$("$@")
        if [ "$now" = "$before" ]; then still=$((still + 1)); else still=0; fi
        [ $still -lt 2 ] || break
        before=$now
        sleep 1
    done
    echo "$now"
}
# A manager makes its changes one after the other, and they are cached later.
files() { settled look; }

before() {
    run modprobe ib_umad
    run modprobe fakeib
    run rdma dev add smi0 type SMI parent fakeib0
    run rdma dev add smi1 type SMI parent fakeib0
    run rdma dev add smi1 type SMI parent smi0
    run rdma -d dev show smi0
    run rdma link show smi0
    run ls /sys/class/infiniband_mad /sys/class/infiniband_verbs
    run rdma dev del smi0
    run rdma dev del fakeib0
    run ls $top
    run ls /sys/class/infiniband_mad
    run cat /sys/class/infiniband_mad/umad0/ibdev /sys/class/infiniband_mad/issm1/ibdev
    files
    run smpquery -D nodeinfo 0
    run smpquery -D nodeinfo 0,1
    run smpquery -D nodeinfo 0,1,2
    run smpquery -D portinfo 0,1 1
}
up() {
    manager 0
    files
    python3 ./sysfs.py "${ports[1]}" | grep -v 'counters/'
    run rdma link
    run sminfo
    # A counter of what the manager did.
    sed -i 's/activity count [0-9]*/activity count N/' "$dir/up.txt"
}
tools() {
    run ibstat
    run ibnetdiscover | grep -v generated
    for what in nodeinfo nodedesc portinfo guidinfo pkeys sl2vl vlarb; do run smpquery $what 3; done
    run smpquery switchinfo 2
    run smpquery portinfo 2 2
    run smpquery -D portinfo 0,1,2
    run smpquery switchinfo 1
    run sminfo 3
    run perfquery 3 1 | sed 's/[1-9][0-9]*$/N/'
    run perfquery -x 2 2 | sed 's/[0-9]*$/N/'
    run perfquery -R 2 1
    run saquery
    run saquery -p --src-to-dst 1:3
    run saquery -p --sgid-to-dgid fe80::266:616b:6569:101-fe80::266:616b:6569:1
    run saquery SMIR
    run saquery SWI
    run ibtracert 1 3
    run ibaddr 3
    run ibroute 2
    run ibv_devinfo -v
}
answers() {
    ibping -S -C fakeib0 &
    local server=$!
    eventually timeout $((5 * SCALE)) ibping -C fakeib1 -c 1 -L 1
    run ibping -C fakeib1 -c 3 -L 1 | grep -oE '[0-9]+ packets transmitted, [0-9]+ received'
    kill $server
    wait $server
    for way in ud rc; do
        pingpong $way 2>&1 | grep -oE '^  (local|remote) address:  LID 0x[0-9a-f]*|^[0-9]+ bytes|[0-9]+ iters|.*[Ff]ail.*|.*Couldn.t.*|^never.*'
    done
}
pingpong() { # WAY: between the two ends, by their LIDs
    timeout $((20 * SCALE)) ibv_$1_pingpong -d fakeib0 -n 50 >/tmp/pingpong 2>&1 &
    local server=$!
    # A socket that listens: connections of the program before this one linger at its port.
    eventually grep -qE ':4853 0*:0000 0A' /proc/net/tcp /proc/net/tcp6
    timeout $((20 * SCALE)) ibv_$1_pingpong -d fakeib1 -n 50 localhost
    wait $server
    cat /tmp/pingpong
}
links() {
    for watched in 0 1; do
        stdbuf -oL ibv_asyncwatch -d fakeib$watched >/tmp/events$watched 2>&1 &
        watchers+=($!)
        eventually grep -q 'async event' /tmp/events$watched
    done
    ibportstate 2 2 disable >/dev/null 2>&1
    eventually grep -q DOWN "${ports[1]}/state"
    files
    ibportstate 2 2 enable >/dev/null 2>&1
    eventually all_in ACTIVE
    files
    watched
}
watched() {
    local i
    settled cat /tmp/events0 /tmp/events1
    for i in 0 1; do
        : >/tmp/events$i
    done
}
partitions() {
    cat >/tmp/partitions.conf <<END
Default=0x7fff, ipoib : ALL=full;
Red=0x8001, ipoib : ${ends[0]}=full, ${ends[1]}=limited;
Blue=0x8002 : ${ends[1]}=full;
END
    manager 0 -P /tmp/partitions.conf
    eventually grep -qr 0x8002 "${ports[1]}/pkeys"
    files
    run smpquery pkeys 3
    manager 0 -P /dev/null
    eventually not grep -qr 0x8002 "${ports[1]}/pkeys"
    files
    watched
}
lids() {
    manager 0 -l 2
    eventually grep -q 2 "${ports[1]}/lid_mask_count"
    files
    watched
    manager 1 -l 2
    eventually grep -q 0x8 "${ports[0]}/sm_lid"
    files
    watched
    kill "${watchers[@]}"
    manager 0
    eventually grep -q 0 "${ports[1]}/lid_mask_count"
    files
}
ipoib() {
    run modprobe ib_ipoib
    run ip netns add n1
    run ip netns add n2
    for i in 1 2; do
        run ip link set ib$((i - 1)) netns n$i
        run ip -n n$i link set lo up
        run ip -n n$i addr add 10.9.0.$i/24 dev ib$((i - 1))
        run ip -n n$i link set ib$((i - 1)) up
        eventually eval "ip -n n$i link show ib$((i - 1)) | grep -q LOWER_UP"
    done
    eventually ip netns exec n1 ping -c 1 -W 1 10.9.0.2
    pings
    for i in 1 2; do
        # The interface, without the number of its queue pair.
        ip netns exec n$i bash -c "mount -t sysfs none /mnt && grep . /mnt/class/net/ib$((i - 1))/{mode,pkey,umcast,mtu,dev_id,dev_port}; umount /mnt"
        ip -n n$i -d link show ib$((i - 1)) | sed 's/^[0-9]*: //; s/infiniband 80:..:..:../infiniband/'
        ip -n n$i -4 maddr show dev ib$((i - 1)) | sed 's/^[0-9]*:/N:/'
    done
    eventually eval "saquery -g | grep -q ff12:601b"
    # Without the groups of IPv6's own that come when it happens to send to them.
    run saquery -g | awk '/MGID/ { own = /::(2|16)$/ } !own' | grep -E 'MGID|Mtu|pkey|Rate' | sort
}
pings() {
    run ip netns exec n1 ping -q -c 3 10.9.0.2 | grep packets | sed 's/, time.*//'
    run ip netns exec n2 ping -q -c 3 -s 1900 10.9.0.1 | grep packets | sed 's/, time.*//'
    run ip netns exec n1 ping -q -c 2 -s 8000 10.9.0.2 | grep packets | sed 's/, time.*//'
    run ip netns exec n1 ping -6 -c 3 ff02::1%ib0 | grep -oE 'from fe80::[^ ]*' | sort -u
}
listening() { eventually eval "rdma res show cm_id | grep -q LISTEN"; }
connections() {
    run modprobe rdma_ucm
    ip netns exec n2 timeout $((20 * SCALE)) udaddy >/tmp/udaddy 2>&1 &
    local server=$!
    listening
    run ip netns exec n1 udaddy -s 10.9.0.2
    wait $server
    cat /tmp/udaddy
    ip netns exec n2 timeout $((20 * SCALE)) rping -s -C 20 -S 1000 >/tmp/rping 2>&1 &
    server=$!
    listening
    run ip netns exec n1 rping -c -C 20 -S 1000 -a 10.9.0.2
    wait $server
    echo "rping's server: $?"
    ip netns exec n2 timeout $((20 * SCALE)) ucmatose -c 3 >/tmp/ucmatose 2>&1 &
    server=$!
    listening
    run ip netns exec n1 ucmatose -c 3 -s 10.9.0.2
    wait $server
    cat /tmp/ucmatose
    rm -f /tmp/mckey
    ip netns exec n2 timeout $((40 * SCALE)) stdbuf -oL mckey -m 239.1.2.3 -b 10.9.0.2 >/tmp/mckey 2>&1 &
    server=$!
    eventually grep -q 'joined dgid' /tmp/mckey
    run ip netns exec n1 mckey -m 239.1.2.3 -b 10.9.0.1 -s
    wait $server
    cat /tmp/mckey
}
children() {
    run ip -n n1 link add link ib0 name red1 type ipoib pkey 0x8001
    run ip -n n1 -d link show red1 | grep -o 'ipoib.*'
    cat >/tmp/partitions.conf <<END
Default=0x7fff, ipoib : ALL=full;
Red=0x8001, ipoib : ALL=full;
END
    manager 0 -P /tmp/partitions.conf
    eventually grep -q 0x8001 "${ports[0]}/pkeys/1"
    eventually grep -q 0x8001 "${ports[1]}/pkeys/1"
    run ip -n n2 link add link ib1 name red2 type ipoib pkey 0x8001
    for i in 1 2; do
        run ip -n n$i addr add 10.9.1.$i/24 dev red$i
        run ip -n n$i link set red$i up
    done
    eventually ip netns exec n1 ping -c 1 -W 1 10.9.1.2
    run ip netns exec n1 ping -q -c 3 10.9.1.2 | grep packets | sed 's/, time.*//'
    # The link goes down and up again, without any action.
    ibportstate 2 2 disable >/dev/null 2>&1
    eventually not ip netns exec n1 ping -c 1 -W 1 10.9.0.2
    ibportstate 2 2 enable >/dev/null 2>&1
    eventually all_in ACTIVE
    eventually ip netns exec n1 ping -c 1 -W 1 10.9.0.2
    eventually ip netns exec n1 ping -c 1 -W 1 10.9.1.2
    pings
}
gone() {
    manager_gone
    ip netns del n1
    ip netns del n2
    run rmmod rdma_ucm
    run rmmod ib_ipoib
    run rdma link
    run rmmod fakeib
    run ls $top
    run ls /sys/class/infiniband_mad
}

watchers=()
part before before
part up up
part tools tools
part answers answers
part links links
part partitions partitions
part lids lids
part ipoib ipoib
part connections connections
part children children
part gone gone
