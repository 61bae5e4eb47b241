# SPDX-License-Identifier: GPL-2.0
# limit: 600
# UC and UD, which nobody acknowledges, on an interface that is slower than the CPU: the sender waits,
# and few packets are in the interface's queue, which drops none.
. ./ktap.sh
. ./rdma.sh

needs CONFIG_NET_SCH_TBF -- "an interface that is slower than the CPU"

# field NAME: a number in the statistics of v1's qdiscs; the largest, if several have it.
field() { on 1 tc -s qdisc show dev v1 | grep -oE "$1 [0-9]+" | cut -d' ' -f2 | sort -n | tail -n 1; }
queued() { queue_length 1 v1; }
arrived() { on 2 rdma statistic show link rxe2 | grep -oE 'rcvd_pkts [0-9]+' | cut -d' ' -f2; }

# The C driver's queue: 65 packets. Ours: a window of 64, and a train of 16 whose first one has left.
usual=81
# Where the sender gets the CPU late, or the bucket is full, the queue runs empty and the window grows
# for a while; at most to 256, and a train of 64.
most=320

slow() { # RATE [BYTES]
    on 1 tc qdisc del dev v1 root 2>/dev/null
    on 1 tc qdisc add dev v1 root handle 1: tbf rate "$1" burst 16kb limit "${2:-400kb}"
}
# A process for each sample: on a slow machine many would take longer than the stream.
watch() { exec ip netns exec n1 bash -c 'while :; do tc -s qdisc show dev v1; echo; done' >/tmp/samples 2>/dev/null; }
# lengths: those of the queue in the samples with packets in it, sorted.
lengths() {
    awk -v RS= '{
        longest = 0
        for (i = 2; i < NF; i++) if ($i == "backlog" && $(i + 2) + 0 > longest) longest = $(i + 2) + 0
        if (longest) print longest
    }' /tmp/samples | sort -n
}

# Packets that the queue may drop, after which the program of UD waits in vain.
lost=0
kept() { # CMD...: all that is not dropped arrives, and the queue is not longer than usual and most
    local before drops sent got samples longest median watcher status=0
    drops=$(field dropped) before=$(arrived) sent=$(packets_sent)
    watch &
    watcher=$!
    "$@" || status=$?
    # The rest of the queue.
    wait_until 10 eval '[ "$(queued)" = 0 ]'
    kill $watcher
    wait $watcher 2>/dev/null
    lengths >/tmp/lengths
    samples=$(wc -l </tmp/lengths)
    longest=$(tail -n 1 /tmp/lengths) median=$(sed -n "$(((samples + 2) / 2))p" /tmp/lengths)
    sent=$(($(packets_sent) - sent)) got=$(($(arrived) - before)) drops=$(($(field dropped) - drops))
    echo "$sent packets sent, $got arrived, $drops dropped; in the queue ${median:-0} (median of $samples), at most ${longest:-0}"
    [ "$status" = 0 ] || [ "$drops" -gt 0 ] || return
    # Without samples nothing was judged. If few have packets, the sender was slower than the interface,
    # and what queue there was may be that of the beginning, when the window may be larger.
    [ "$(grep -c '^$' /tmp/samples)" -ge 5 ] || [ "$lost" -gt 0 ] || return
    [ "$samples" -ge 5 ] || median=0
    [ "$sent" -gt 900 ] && [ "$drops" -le "$lost" ] && [ $((got + drops)) = "$sent" ] &&
        [ "${longest:-0}" -le $most ] && [ "${median:-0}" -le $usual ]
}
# few_lost CMD...: as for a queue that holds less than the sender would put there.
few_lost() {
    local drops sent
    drops=$(field dropped) sent=$(packets_sent)
    "$@" >/dev/null 2>&1
    sent=$(($(packets_sent) - sent)) drops=$(($(field dropped) - drops))
    echo "$sent packets sent, $drops dropped"
    # A sender that did not wait would lose nearly all.
    [ "$sent" -gt 400 ] && [ "$drops" -le 100 ]
}
# The sender is killed while it waits, and its packets in the queue outlive it.
outlived() {
    local sender before=$SECONDS
    slow 10mbit || return
    ip netns exec n2 ib_send_bw -d rxe2 -x "$(gid 2 10.0.1.2)" -F -c UD -s 1024 -D 60 -p 18990 >/dev/null 2>&1 &
    listening 2 18990 || return
    ip netns exec n1 ib_send_bw -d rxe1 -x "$(gid 1 10.0.1.1)" -F -c UD -s 1024 -D 60 -p 18990 10.0.1.2 >/tmp/sender 2>&1 &
    sender=$!
    wait_until 30 eval '[ "$(queued)" -gt 30 ]' || { cat /tmp/sender; return 1; }
    # From here on almost nothing leaves.
    on 1 tc qdisc change dev v1 root handle 1: tbf rate 1kbit burst 16kb limit 400kb || return
    before=$SECONDS
    kill -9 $sender
    wait $sender 2>/dev/null
    on 1 rdma link del rxe1 || return
    echo "in the queue: $(queued); the sender and its device took $((SECONDS - before)) s to end"
    [ "$(queued)" -gt 10 ] && [ $((SECONDS - before)) -lt $((10 * SCALE)) ] || return
    on 1 tc qdisc del dev v1 root
    pkill -9 -f '18990$' 2>/dev/null
    two_nodes_gone
}

# Requests to connect that nobody takes from the interface's queue hold up no connection of others, here
# of one on the device itself. There are fewer than the MAD layer lets out at once.
shared() {
    local status=0 requests
    on 1 ip neigh replace 10.0.1.2 lladdr "$(on 2 cat /sys/class/net/v2/address)" nud permanent dev v1
    on 1 tc qdisc del dev v1 root 2>/dev/null
    on 1 tc qdisc add dev v1 root tbf rate 1kbit burst 2kb limit 400kb || return
    ip netns exec n1 ucmatose -s 10.0.1.2 -b 10.0.1.1 -c 100 >/tmp/requests 2>&1 &
    requests=$!
    wait_until 30 eval '[ "$(queued)" -ge 90 ]' || { cat /tmp/requests; status=1; }
    echo "in the queue: $(queued)"
    own_rping || status=1
    on 1 tc qdisc del dev v1 root
    kill $requests
    wait $requests 2>/dev/null
    return $status
}
own_rping() {
    local server status=0
    within 60 ip netns exec n1 rping -s -V -C 2 -a 10.0.1.1 &
    server=$!
    accepting 1 && within 30 ip netns exec n1 rping -c -V -C 2 -a 10.0.1.1 || status=1
    [ $status = 0 ] || kill $server
    wait $server && return $status
}

check "two nodes" two_nodes 4200
# Slower than the CPU of this kernel, and long enough for many samples.
long=$((2 * SCALE))
check "10 Mbit/s, or less on a slow kernel" slow $((10000 / SCALE))kbit
for v in v4 v6; do
    check "UC writes, $v" kept pair 60 $v ib_write_bw -c UC -m 1024 -s 65536 -n $((20 * long))
    check "UC writes of one packet, $v" kept pair 60 $v ib_write_bw -c UC -s 512 -n $((2000 * long)) -t 512
    check "UD sends, $v" kept pair 60 $v ib_send_bw -c UD -s 1024 -n $((1000 * long)) -t 512 -r 512
    check "UD sends, each with its completion, $v" kept pair 60 $v ib_send_bw -c UD -s 1024 -n $((1000 * long)) -t 1
done
if has_config CONFIG_NET_SCH_FQ_CODEL; then
    fair() { slow 100mbit && on 1 tc qdisc add dev v1 parent 1: fq_codel; }
    check "100 Mbit/s, fq_codel" fair
    # CoDel drops one where some have waited for 5 ms all the time.
    usual=$most lost=5
    for v in v4 v6; do check "UD sends, fq_codel, $v" kept pair 60 $v ib_send_bw -c UD -s 1024 -n 5000; done
else
    skip "fq_codel" "this kernel has no $without"
fi
if ours rdma_rxe; then
    # The C driver's queue pair 1 waits.
    check "requests that wait hold up no others" shared
    # The C driver's queue pair fails instead.
    check "a queue of 30 kB" slow 10mbit 30kb
    check "UD sends, a short queue" few_lost pair 20 v4 ib_send_bw -c UD -s 1024 -n 500 -Q 1
    check "packets outlive their sender" outlived
else
    skip "requests that wait, a short queue" "the C driver's queue pair fails"
    two_nodes_gone
fi
finish
