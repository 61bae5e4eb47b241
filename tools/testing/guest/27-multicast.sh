# SPDX-License-Identifier: GPL-2.0
# limit: 180
# Multicast: between two nodes, and among the queue pairs of one device.
. ./ktap.sh
. ./rdma.sh

# heard GROUP OWN PEER: the peer, a member of the group, hears what is sent to it.
heard() {
    local pid status=0 peer_status=0
    rm -f /tmp/mckey-peer
    within 60 ip netns exec n2 stdbuf -oL mckey -m "$1" -b "$3" >/tmp/mckey-peer 2>&1 &
    pid=$!
    # Its receives are posted before it joins, and earlier packets are not received.
    wait_until 30 grep -q 'joined dgid' /tmp/mckey-peer
    within 60 ip netns exec n1 mckey -m "$1" -b "$2" -s || status=$?
    [ $status = 0 ] || kill $pid 2>/dev/null
    wait $pid || peer_status=$?
    [ "$status$peer_status" = 00 ] || { echo "sender $status, receiver $peer_status"; cat /tmp/mckey-peer; return 1; }
}

check "two nodes" two_nodes
check_with rdma_ucm "mckey" heard 239.1.2.3 10.0.1.1 10.0.1.2
# The connection manager has no IPv6 groups over RoCEv2; the plain verbs have.
memberships() { on 2 ip maddr show dev v2; }
memberships >/tmp/memberships
same_memberships() { grep -q 'inet  *224.0.0.1' /tmp/memberships && diff /tmp/memberships /tmp/memberships-now; }
one_case() { within 60 multicast "$case" rxe1 "$own" rxe2 "$peer"; }
for case in attach lids groups v4 v6; do
    case $case in
    v6) own=$(gid 1 fd01::1) peer=$(gid 2 fd01::2) ;;
    *) own=$(gid 1 10.0.1.1) peer=$(gid 2 10.0.1.2) ;;
    esac
    if [ "$case" = lids ] && ! ours rdma_rxe; then
        skip "multicast lids" "the C driver attaches once, so the queue pair can never be destroyed"
        continue
    fi
    # One process for both devices, which are seen from everywhere.
    check "multicast $case" one_case
done
memberships >/tmp/memberships-now
check "all groups were left" same_memberships
check "the devices' end" two_nodes_gone
finish
