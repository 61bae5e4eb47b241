# SPDX-License-Identifier: GPL-2.0
# limit: 400
# short: um
# Two processes, and two queue pairs of one process, on the same device.
. ./ktap.sh
. ./rdma.sh

counted() { on 1 rdma stat show link rxe1/1 | grep -o "$1 [0-9]*" | cut -d ' ' -f 2; }
sent() { counted sent_pkts; }
# No packet is lost here, so there must be no retransmission.
no_retries() { counted completer_retry_err | grep -x 0; }
# 40 rounds of four operations of up to 1 MB: over a wire that is 16 thousand packets.
few_packets() {
    local before
    before=$(sent)
    verify_pair 60 -r 40 -n 4 -l 1000000 -T 20 || return
    echo "$(($(sent) - before)) packets"
    [ $(($(sent) - before)) -lt 6000 ]
}
eight() { # at once
    local i pids=() status=0
    for i in 1 2 3 4 5 6 7 8; do
        verify_pair 60 -r 4 -l 100000 >"/tmp/eight$i" 2>&1 &
        pids+=($!)
    done
    for i in 1 2 3 4 5 6 7 8; do
        wait "${pids[i - 1]}" || { status=1; cat "/tmp/eight$i"; }
    done
    return $status
}
killed() { # a server in the middle of traffic; the client must notice
    local i
    for i in 1 2 3; do
        traffic -T $impatience -l 200000 || return
        kill -9 "$traffic_server"
        client_notices || return
    done
}

check "two nodes" two_nodes
# shellcheck disable=SC2034
far=1
# With four seconds to answer in: who asks again earlier may only have been slow.
check "everything, across the PSN wrap" verify_pair 60 -r 40 -T 20
check "everything, by completion events, path MTU 256" verify_pair 60 -r 20 -e -m 256 -T 20
check "64 operations outstanding" verify_pair 60 -r 10 -n 64 -l 20000 -T 20
check "reads" verify_pair 60 -r 10 -k 0x10 -l 1000000 -T 20
if ours rdma_rxe; then
    check "a megabyte is few packets" few_packets
    check "nobody had to ask again" no_retries
else
    skip "a megabyte is few packets" "the C stack cuts at the path MTU"
    skip "nobody had to ask again" "the C stack loses packets when it is slow"
fi
check "eight pairs at once" eight
status=0
within 100 ip netns exec n1 beside rxe1 "$(gid 1 10.0.1.1)" >/tmp/beside 2>&1 || status=$?
cases_of "the program" $status /tmp/beside
check "a server killed three times" killed
check "and works again" verify_pair 30 -r 3
check "the devices' end" two_nodes_gone
finish
