# SPDX-License-Identifier: GPL-2.0
# limit: 180
# Multicast: between two nodes, and among the queue pairs of one device.
. ./ktap.sh
. ./rdma.sh

# heard GROUP OWN PEER: the peer, a member of the group, hears what is sent to it.
heard() {
    local pid status=0 peer_status=0
    within 30 ip netns exec n2 mckey -m "$1" -b "$3" >/tmp/mckey-peer 2>&1 &
    pid=$!
    sleep 1
    within 30 ip netns exec n1 mckey -m "$1" -b "$2" -s || status=$?
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
# report FILTER PATTERN CMD...: while CMD runs, node 2 sends a membership report: for IPv4 groups to
# IGMP's address of all routers (RFC 3376), for IPv6 ones to MLD's (RFC 3810).
report() {
    local filter=$1 pattern=$2 dump status=0
    shift 2
    on 2 tcpdump --immediate-mode -U -n -v -Q out -i v2 "$filter" >/tmp/report 2>/tmp/report.log &
    dump=$!
    for _ in $(seq 100); do if grep -qs listening /tmp/report.log; then break; fi; sleep 0.1; done
    "$@" || status=$?
    # The kernel waits for up to a second before it repeats a report.
    sleep 1
    kill $dump
    wait $dump
    cat /tmp/report
    [ $status = 0 ] && grep -qE "$pattern" /tmp/report
}
one_case() { within 60 multicast "$case" rxe1 "$own" rxe2 "$peer"; }
for case in attach groups v4 v6; do
    case $case in
    v6) own=$(gid 1 fd01::1) peer=$(gid 2 fd01::2) ;;
    *) own=$(gid 1 10.0.1.1) peer=$(gid 2 10.0.1.2) ;;
    esac
    # One process for both devices, which are seen from everywhere.
    check "multicast $case" one_case
done
# Routers and snooping switches learn of a group by a report only.
if ours rdma_rxe; then
    case=v4 own=$(gid 1 10.0.1.1) peer=$(gid 2 10.0.1.2)
    check "a group of IPv4 is reported (IGMP)" report 'igmp and dst 224.0.0.22' '\[gaddr 239\.3\.3\.3 to_ex' one_case
    check "and left" grep -E '\[gaddr 239\.3\.3\.3 (to_in|block)' /tmp/report
    case=v6 own=$(gid 1 fd01::1) peer=$(gid 2 fd01::2)
    check "a group of IPv6 is reported (MLD)" report 'icmp6 and dst ff02::16' '\[gaddr ff0e::3:3 to_ex' one_case
    check "and left, too" grep -E '\[gaddr ff0e::3:3 (to_in|block)' /tmp/report
else
    skip "membership reports" "the C driver tells the link layer only"
fi
memberships >/tmp/memberships-now
check "all groups were left" same_memberships
check "the devices' end" two_nodes_gone
finish
