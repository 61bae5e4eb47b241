# SPDX-License-Identifier: GPL-2.0
# limit: 200
# A switch that marks packets instead of dropping them (RFC 3168): the receiver sends
# congestion notifications, and the sender hears of them. What the user asked for as traffic
# class stays.
. ./ktap.sh
. ./rdma.sh

counter() { cat "/sys/class/infiniband/rxe$1/ports/1/hw_counters/$2"; }
noticed() { # NODE-THAT-SENDS OTHER
    local marked sent handled again
    marked=$(counter "$2" np_ecn_marked_roce_packets)
    sent=$(counter "$2" np_cnp_sent)
    handled=$(counter "$1" rp_cnp_handled)
    again=$(counter "$1" completer_retry_err)
    echo "marked $marked, notices sent $sent, heard $handled, sent again $again times"
    [ "$marked" -ge 20 ] && [ "$sent" -ge 5 ] && [ "$sent" -le "$marked" ] &&
        [ "$handled" -ge 1 ] && [ "$handled" -le "$sent" ]
}
stream() { pair 60 v4 "$@"; }
# seen PATTERN COMMAND...: tcpdump prints a line with PATTERN while COMMAND runs
seen() {
    local pattern=$1 status=0 dump
    shift
    rm -f /tmp/ecn.log
    ip netns exec n1 tcpdump --immediate-mode -U -i v1 -c 4000 -w /tmp/ecn.pcap 'udp port 4791' >/dev/null 2>/tmp/ecn.log &
    dump=$!
    captures /tmp/ecn.log
    "$@" >/tmp/ecn.out 2>&1 || status=$?
    sleep 0.5
    kill $dump 2>/dev/null
    wait $dump
    if [ $status != 0 ]; then cat /tmp/ecn.out; fi
    tcpdump -r /tmp/ecn.pcap -n -v 2>/dev/null | grep -o 'tos 0x[0-9a-f]*[^ ]*' | sort | uniq -c >/tmp/ecn.seen
    cat /tmp/ecn.seen
    [ $status = 0 ] && grep -q "$pattern" /tmp/ecn.seen
}

check "two nodes, a bridge between" two_bridged
if ! ours rdma_rxe; then
    skip "congestion" "the C driver knows nothing of it"
    finish
fi
check "requests may be marked" seen 'tos 0x2,ECT(0)' stream ib_write_bw -s 4096 -n 100
check "datagrams may not" seen 'tos 0x0' stream ibv_ud_pingpong -n 20
no_ect() { ! grep -q ECT /tmp/ecn.seen; }
check "none of them" no_ect
check "a user's traffic class" seen 'tos 0x6a,ECT(0)' stream ib_write_bw -s 4096 -n 100 --tclass=104
check "a user's own bits" seen 'tos 0x69,ECT(1)' stream ib_write_bw -s 4096 -n 100 --tclass=105

check "a wire that marks" bad_wire there loss 5% ecn
check "data under marks" verify_pair 60 -r 4 -n 12 -l 20000 -T $impatience
check "writes under marks" stream ib_write_bw -s 65536 -n 50
check "the sender hears of it" noticed 1 2
check "a wire that marks, back" bad_wire back loss 5% ecn
check "reads under marks" stream ib_read_bw -s 65536 -n 50
# The reader sees the marks itself, and notifies the responder.
check "the reader sees them" noticed 2 1
check "a good wire again" bad_wire both delay 0ms
check "data after all that" verify_pair 30 -r 5
finish
