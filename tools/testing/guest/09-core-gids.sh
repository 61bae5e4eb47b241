# SPDX-License-Identifier: GPL-2.0
# limit: 600
# The GIDs of a RoCE port follow its network devices: hundreds of addresses, flaps, VLANs,
# macvlans, bonds, full tables, entries that are held. After each group the table must be
# what gids.py computes from what `ip` tells.
. ./ktap.sh
. ./rdma.sh

# right DEVICE...: their tables are what they should be; the worker has a while.
right() {
    local device wrong end=$((SECONDS + 60 * SCALE))
    while :; do
        wrong=0
        for device in "$@"; do python3 ./gids.py "$device" || wrong=1; done >/tmp/right 2>&1
        [ $wrong = 0 ] && return
        [ $SECONDS -lt $end ] || break
        sleep 0.5
    done
    cat /tmp/right
    return 1
}

# addresses add|del FIRST LAST [STEP]: IPv4 and IPv6 ones of g0, as one batch.
addresses() {
    local n
    for n in $(seq "$2" "${4:-1}" "$3"); do
        echo "addr $1 10.$((n / 250)).$((n % 250)).1/24 dev g0"
        echo "addr $1 fd09:$n::1/64 dev g0 $([ "$1" = del ] || echo nodad)"
    done >/tmp/batch
    ip -force -batch /tmp/batch
}

ground() {
    ip link add g0 address 02:00:00:00:09:10 type veth peer name g1 address 02:00:00:00:09:11 || return
    ip link set g0 up && ip link set g1 up && ip addr add 10.200.0.1/24 dev g0 || return
    rdma link add gid0 type rxe netdev g0 && right gid0
}
many() { addresses add 1 250 && right gid0; }
half() { addresses del 1 250 2 && right gid0 && addresses add 251 300 && right gid0; }
flaps() {
    local n
    for n in $(seq 20); do
        ip link set g0 down
        ip link set g0 up
        ip addr add "10.201.$n.1/24" dev g0
        ip addr del "10.200.0.1/24" dev g0
        ip addr add "10.200.0.1/24" dev g0
    done
    right gid0
}
# Addresses of IPv6 go with the link, while it goes down; some are told to stay.
downs() {
    local n i
    for n in $(seq 5); do
        for i in $(seq 60); do echo "addr add fd0a:$n:$i::1/64 dev g0 nodad"; done >/tmp/batch
        ip -batch /tmp/batch && ip link set g0 down && ip link set g0 up || return
    done
    right gid0 || return
    sysctl -qw net.ipv6.conf.g0.keep_addr_on_down=1
    ip addr add fd0b::1/64 dev g0 nodad && ip link set g0 down || return
    ip addr show dev g0 | grep -q fd0b::1 && right gid0 && python3 ./gids.py --slot gid0 fd0b::1 || return
    sysctl -qw net.ipv6.conf.g0.keep_addr_on_down=0
    ip addr del fd0b::1/64 dev g0 && ip link set g0 up && right gid0
}
mac() {
    local n
    for n in $(seq 20 30); do ip link set g0 address "02:00:00:00:09:$n" || return; done
    right gid0
}
vlans() {
    local n
    for n in $(seq 10 20); do
        ip link add link g0 name "g0.$n" type vlan id "$n" && ip link set "g0.$n" up || return
        ip addr add "10.210.$n.1/24" dev "g0.$n"
        ip link add link "g0.$n" name "gm$n" type macvlan mode bridge && ip link set "gm$n" up || return
        ip addr add "10.211.$n.1/24" dev "gm$n"
    done
    right gid0 || return
    for n in $(seq 10 2 20); do ip link del "g0.$n" || return; done
    right gid0
}
bridge() {
    ip link add gb type bridge && ip link set gb up && ip addr add 10.212.0.1/24 dev gb || return
    ip link set g0 master gb && right gid0 && ip link set g0 nomaster && right gid0 && ip link del gb
}
emptied() { ip addr flush dev g0 && right gid0; }

# Two links, each with a device, on a bond.
bond() {
    local l
    modprobe -q bonding max_bonds=0
    for l in s t; do
        ip link add g${l}0 type veth peer name g${l}1 && ip link set g${l}1 up || return
        rdma link add gid$l type rxe netdev g${l}0 || return
    done
    ip link add gbond type bond mode active-backup miimon 50 || return
    for l in s t; do ip link set g${l}0 master gbond || return; done
    ip link set gbond up && ip addr add 10.213.0.1/24 dev gbond || return
    ip link add link gbond name gbond.5 type vlan id 5 && ip link set gbond.5 up || return
    ip addr add 10.214.0.1/24 dev gbond.5 && sleep 1 && right gids gidt
}
fail_over() {
    local l
    for l in t s t s s t; do ip link set gbond type bond active_slave g${l}0 || return; done
    right gids gidt
}
no_bond() {
    ip link set gs0 nomaster && ip link set gs0 up && sleep 1
    ip link del gbond && ip link set gt0 up && sleep 1 && right gids gidt || return
    rdma link del gids && rdma link del gidt && ip link del gs0 && ip link del gt0
}

# slot_of ADDRESS: its index in the table of gid0, as soon as it has one.
slot_of() { wait_until 30 python3 ./gids.py --slot gid0 "$1" >&2 && python3 ./gids.py --slot gid0 "$1"; }

# An address handle keeps its entry's slot.
held() {
    local slot later n
    ip addr add 10.220.0.1/24 dev g0 && slot=$(slot_of 10.220.0.1) || return
    python3 - "$slot" >/tmp/held <<'END' &
import sys, time
from pyverbs.addr import AH, AHAttr, GlobalRoute
from pyverbs.device import Context
from pyverbs.pd import PD
ctx = Context(name="gid0")
pd = PD(ctx)
ah = AH(pd, attr=AHAttr(port_num=1, is_global=1, gr=GlobalRoute(dgid=ctx.query_gid(1, int(sys.argv[1])), sgid_index=int(sys.argv[1]))))
print("READY", flush=True)
time.sleep(1000)
END
    local holder=$!
    wait_until 60 grep -qs READY /tmp/held
    ip addr del 10.220.0.1/24 dev g0 && ip addr add 10.220.1.1/24 dev g0
    later=$(slot_of 10.220.1.1)
    kill $holder
    wait $holder
    echo "$slot, then $later"
    [ -n "$later" ] && [ "$slot" != "$later" ] && right gid0 || return
    # It is given back by a worker: not necessarily before the first address that comes now.
    for n in 2 3 4 5 6; do
        ip addr add "10.220.$n.1/24" dev g0 && later=$(slot_of "10.220.$n.1") || return
        echo "10.220.$n.1 has $later"
        [ "$later" != "$slot" ] || return 0
        sleep 1
    done
    return 1
}

# More addresses than slots; what did not fit comes when there is room.
full() {
    local n
    for n in $(seq 1100); do echo "addr add 10.$((100 + n / 250)).$((n % 250)).1/24 dev g0"; done >/tmp/batch
    ip -batch /tmp/batch || return
    # Else what is taken away would not be what keeps others out.
    wait_until 10 no_room || :
    sed 's/ add / del /' /tmp/batch | head -n 200 >/tmp/less
    ip -batch /tmp/less && right gid0
}

no_room() {
    local gids=/sys/class/infiniband/gid0/ports/1/gids
    [ "$(cat $gids/* 2>/dev/null | grep -c '[1-9a-f]')" = "$(find $gids -type f | wc -l)" ]
}

# Devices come and go while addresses do.
storm() {
    local n
    (for n in $(seq 40); do ip addr add "10.230.$n.1/24" dev g0; ip addr del "10.230.$n.1/24" dev g0; done) &
    for n in $(seq 20); do
        rdma link del gid0 || return
        rdma link add gid0 type rxe netdev g0 || return
    done
    wait
    right gid0
}
# No reference to a network device is left once its GIDs are gone.
gone() {
    rdma link del gid0 && within 60 ip link del g0 && ! dmesg | grep 'waiting for g0'
}

check "the core is the one asked for" as_asked ib_core rdma_rxe
check "a device has the GIDs of its network device" ground
check "500 addresses" many
check "every other one goes, others come" half
check "flaps" flaps
check "addresses go with the link" downs
check "other MAC addresses" mac
check "VLANs, and macvlans on them" vlans
check "a bridge" bridge
check "no addresses" emptied
check "a bond of two devices" bond
check "fail-over" fail_over
check "the bond ends" no_bond
check "a held entry keeps its slot" held
if ours ib_core; then
    check "a full table, and room again" full
else
    skip "a full table, and room again" "the C core does not look again"
fi
check "the last addresses go" emptied
check "a storm" storm
check "nothing is kept" gone
finish
