# SPDX-License-Identifier: GPL-2.0
# limit: 120
# icount
# Acknowledgements that wait for a reply. That is a matter of microseconds, which a busy machine
# does not have: the guest's time is counted in instructions here.
. ./ktap.sh
. ./rdma.sh

sent() { on 1 rdma -j statistic show link rxe1/1 | python3 -c 'import json, sys; print(json.load(sys.stdin)[0]["sent_pkts"])'; }
carried() { on 1 cat /sys/class/net/v1/statistics/tx_packets; }

# A reply and the acknowledgement of what it answers leave in one buffer, so there are fewer
# buffers than packets. The first few are not trusted to be answered.
one_buffer() {
    local s c
    s=$(sent) c=$(carried)
    pair 60 v4 ib_send_lat -s 8 -n 2000 -e || return
    s=$(($(sent) - s)) c=$(($(carried) - c))
    echo "$s packets in $c buffers"
    [ $((c * 4)) -lt $((s * 3)) ]
}

# How often CMD made an acknowledgement or a doorbell of ours wait: each time starts a timer.
waits() {
    local t=/sys/kernel/tracing
    echo >$t/trace
    echo 1 >$t/events/timer/hrtimer_start/enable
    "$@" >/dev/null
    echo 0 >$t/events/timer/hrtimer_start/enable
    grep -c 'function=.*hrtimer.*over.*Qp' $t/trace || :
}
# A peer that sends one message at a time, and is not answered, is not made to wait.
one_way() {
    local some none
    some=$(waits pair 60 v4 ib_send_lat -s 8 -n 1000 -e)
    none=$(waits pair 60 v4 ib_send_bw -s 8 -t 1 -n 1000 -e)
    echo "$some with replies, $none without"
    [ "$some" -gt 0 ] && [ "$none" = 0 ]
}

check "two nodes" two_nodes 4200
if ours rdma_rxe; then
    check "a reply takes the acknowledgement along" one_buffer
    check "a peer that is not answered does not wait" one_way
fi
finish
