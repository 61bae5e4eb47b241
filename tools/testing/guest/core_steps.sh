# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# core_steps.sh DIR: a few hundred operations on devices, addresses, links, namespaces and
# objects. After each group what a user can see of the subsystem is written to
# DIR/STATE.txt, made independent of the ids of this run; DIR/states has their order,
# DIR/steps the operations with their exit status.
set -u
dir=$1
rm -rf "$dir"
mkdir -p "$dir"
export PATH=$PATH:/share/tests/bin

# do_it CMD...: an operation; its success or failure is compared as well.
do_it() {
    local status=0
    "$@" >/tmp/step 2>&1 || status=$?
    echo "$status: $* $(tail -n 1 /tmp/step | sed 's/0x[0-9a-f]*/N/g; s/[0-9]\{4,\}/N/g')" | tee -a "$dir/steps"
}

# The worker that follows addresses runs on its own: wait until nothing moves.
settled() {
    local now before=
    for _ in $(seq 50); do
        now=$(ibv_devinfo -v 2>&1 | md5sum)
        [ "$now" != "$before" ] || return 0
        before=$now
        sleep 0.5
    done
}
# A namespace dies asynchronously.
patiently() { # CMD...: until it succeeds, for a minute
    for _ in $(seq 300); do
        if "$@" >/dev/null 2>&1; then return; fi
        sleep 0.2
    done
}

coproc LOOKER { exec python3 ./core_look.py 2>&1; }
look() { # STATE
    local net seen=$dir/$1.txt done
    settled
    { echo "== operations"; cat "$dir/now"; echo "== namespace ''"; } >"$seen" 2>/dev/null
    echo "$seen" >&"${LOOKER[1]}"
    read -r done <&"${LOOKER[0]}"
    [ "$done" = done ] || { echo "no look at $1: $done"; exit 1; }
    for net in a b; do
        [ -e "/run/netns/$net" ] || continue
        echo "== namespace '$net'" >>"$seen"
        echo "$seen" | ip netns exec "$net" python3 ./core_look.py >/dev/null || exit 1
    done
    echo "$1" >>"$dir/states"
    : >"$dir/now"
}
step() { do_it "$@" >>"$dir/now"; }

step rdma system show
look empty

step ip link add v0 address 02:00:00:00:00:10 type veth peer name v1 address 02:00:00:00:00:11
for v in v0 v1; do step ip link set $v up; done
step rdma link add x0 type rxe netdev v0
step rdma link add x0 type rxe netdev v1
step rdma link add nodev type rxe netdev nosuch
step rdma link add notype type nosuch netdev v1
step rdma link add y%d type rxe netdev v1
look "two devices"
step python3 ./nldev_answers.py
cat /tmp/step >>"$dir/now"
look "refusals"

for n in $(seq 1 20); do
    step ip addr add "10.9.$n.1/24" dev v0
    step ip addr add "fd09:$n::1/64" dev v0 nodad
done
look "addresses"
for n in $(seq 1 3 20); do step ip addr del "10.9.$n.1/24" dev v0; done
for n in $(seq 2 3 20); do step ip addr del "fd09:$n::1/64" dev v0; done
look "addresses with holes"
for n in $(seq 1 3 20); do step ip addr add "10.9.$((n + 100)).1/24" dev v0; done
look "holes filled"
for n in 1 2 3; do
    step ip link set v0 down
    step ip link set v0 up
done
look "after flaps"
step ip link set v0 mtu 4200
look "a larger MTU"
step ip link set v0 down
look "link down"
step ip link set v0 up
step ip link set v0 address 02:00:00:00:00:33
look "another MAC address"

for n in 100 200; do
    step ip link add link v0 name "v0.$n" type vlan id $n
    step ip link set "v0.$n" up
    step ip addr add "10.10.$n.1/24" dev "v0.$n"
    step ip addr add "fd10:$n::1/64" dev "v0.$n" nodad
done
look "VLANs"
step ip link add link v0 name mac0 address 02:00:00:00:00:44 type macvlan
step ip link set mac0 up
step ip addr add 10.11.0.1/24 dev mac0
look "a macvlan"
step ip link del v0.100
step ip link del mac0
look "one VLAN gone"
step ip link add br0 address 02:00:00:00:00:55 type bridge
step ip link set v1 master br0
step ip link set br0 up
step ip addr add 10.12.0.1/24 dev br0
look "a bridge"
step ip link set v1 nomaster
step ip link del br0
look "no bridge"

step modprobe -q bonding max_bonds=0
step ip link add w0 address 02:00:00:00:00:60 type veth peer name w1 address 02:00:00:00:00:61
step ip link add u0 address 02:00:00:00:00:62 type veth peer name u1 address 02:00:00:00:00:63
for v in w1 u1; do step ip link set $v up; done
step rdma link add b0 type rxe netdev w0
step rdma link add b1 type rxe netdev u0
step ip link add bond0 address 02:00:00:00:00:64 type bond mode active-backup miimon 50
for v in w0 u0; do step ip link set $v down; step ip link set $v master bond0; done
step ip link set bond0 up
step ip addr add 10.13.0.1/24 dev bond0
sleep 1
look "a bond"
step ip link set bond0 type bond active_slave u0
sleep 1
look "the other slave"
step rdma link del b0
step rdma link del b1
step ip link del bond0
step ip link del w0
step ip link del u0
look "no bond"

step rdma dev set x0 name renamed
step rdma dev set renamed name y0
step rdma dev set y0 name renamed
step rdma dev set renamed adaptive-moderation on
look "a new name"
step rdma dev set renamed name x0

step ip netns add a
step ip netns add b
look "namespaces, shared"
step rdma system set netns exclusive
step ip netns del a
step ip netns del b
# This is refused while there is a namespace besides the initial one.
patiently rdma system set netns exclusive
step rdma system set netns exclusive
step ip netns add a
look "namespaces, exclusive"
step rdma system set netns shared
step rdma dev set x0 netns a
look "a device in a namespace"
step ip netns exec a rdma link
step ip netns del a
# The device goes back to the initial one.
patiently test -e /sys/class/infiniband/x0
look "the namespace is gone"
step rdma system set netns shared
look "shared again"

step rdma statistic qp set link x0/1 auto type on
step rdma statistic qp set link x0/1 auto off
step rdma statistic qp bind link x0/1 lqpn 1
step rdma statistic qp unbind link x0/1 cntn 1
look "counters that rxe has not"

# Groups, and what attaching and detaching refuse.
step multicast attach x0 0 x0 0
rm -f /tmp/objects
# By the name that the device has after the steps above.
first=$(ibv_devices | awk 'NR > 2 { print $1; exit }')
python3 ./core_objects.py "${first:-x0}" >/tmp/objects 2>&1 &
objects=$!
patiently grep -qs READY /tmp/objects
step grep -c READY /tmp/objects
cat /tmp/objects >>"$dir/now"
look "verbs objects"
step rdma res show qp link x0/1
step rdma res show qp dev nosuch
kill $objects
wait $objects 2>/dev/null
look "objects gone"

for n in $(seq 30); do
    step rdma link add "z$n" type rxe netdev v1
    step rdma link del x0
    step rdma link add x0 type rxe netdev v0
    step rdma link del "z$n"
done
for l in $(rdma link | sed -nE 's/^link ([^/]*).*/\1/p'); do step rdma link del "$l"; done
look "no devices"
ip link del v0
exit 0
