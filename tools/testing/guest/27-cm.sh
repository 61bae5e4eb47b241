# SPDX-License-Identifier: GPL-2.0
# limit: 300
# short: um um-lockdep
# ib_cm below rdma_cm: counters, refusals, loss, kills, removal, unload.
. ./ktap.sh
. ./rdma.sh

ports=/sys/class/infiniband
groups="cm_tx_msgs cm_tx_retries cm_rx_msgs cm_rx_duplicates"
names="apr drep dreq lap mra rej rep req rtu sidr_rep sidr_req"

module() { modprobe rdma_ucm && as_asked ib_cm; }
files() {
    local group dir
    for group in $groups; do
        dir=$ports/rxe1/ports/1/$group
        # shellcheck disable=SC2012 # names without blanks
        [ "$(ls "$dir" | xargs)" = "$names" ] || { ls -l "$dir"; return 1; }
        [ -z "$(find "$dir" -type f ! -perm 0444)" ] || { ls -l "$dir"; return 1; }
        ! grep -v '^[0-9]*$' "$dir"/* || return
    done
}
count() { cat "$ports/rxe$1/ports/1/$2"; }
counts() { local i; for i; do count "${i%%:*}" "${i#*:}"; done | xargs; }

rping_pair() { meet "$1" rping -s -V -C 5 -a 10.0.1.2 -- rping -c -V -C 5 -a 10.0.1.2; }

counted() {
    local all="1:cm_tx_msgs/req 2:cm_rx_msgs/req 2:cm_tx_msgs/rep 1:cm_rx_msgs/rep 1:cm_tx_msgs/rtu 2:cm_rx_msgs/rtu"
    local before after
    # shellcheck disable=SC2086 # a list
    before=$(counts $all) && rping_pair 40 && after=$(counts $all) || return
    echo "before $before, after $after"
    # A repetition on a slow machine counts, too.
    paste <(tr ' ' '\n' <<<"$before") <(tr ' ' '\n' <<<"$after") | awk '$2 < $1 + 1 { exit 1 }'
}

# Nobody listens: the peer's REJ says so at once, and is counted.
nobody() {
    local rejected
    rejected=$(count 2 cm_tx_msgs/rej)
    ! within 20 ip netns exec n1 rping -c -C 1 -a 10.0.1.2 -p 9 >/tmp/nobody 2>&1 || return
    grep -q 'REJECTED' /tmp/nobody || { cat /tmp/nobody; return 1; }
    [ "$(count 2 cm_tx_msgs/rej)" -gt "$rejected" ]
}

# A quarter of all packets is lost: messages are repeated, and counted as that.
lossy() {
    local before after
    before=$(($(count 1 cm_tx_retries/req) + $(count 2 cm_tx_retries/rep)))
    on 1 tc qdisc add dev v1 root netem loss "$1" && on 2 tc qdisc add dev v2 root netem loss "$1" || return
    local status=0 i
    for i in 1 2; do
        meet 60 ucmatose -b 10.0.1.2 -c 3 -C 1 -- ucmatose -c 3 -C 1 -s 10.0.1.2 >/tmp/lossy 2>&1 || status=$?
    done
    on 1 tc qdisc del dev v1 root
    on 2 tc qdisc del dev v2 root
    after=$(($(count 1 cm_tx_retries/req) + $(count 2 cm_tx_retries/rep)))
    echo "status $status, repeated $((after - before))"
    rping_pair 40
}

# early [PARAMETER]: a REQ that is lost is sent once more before its first repetition, or with
# early_repeats=0 is not. Repetitions are counted when the exchange ends, an early repeat at once.
early() {
    local before server client status=0
    rmmod rdma_ucm rdma_cm ib_cm && modprobe ib_cm "$@" && modprobe rdma_ucm && reaches 1 10.0.1.2 || return
    before=$(count 1 cm_tx_retries/req)
    within 60 ip netns exec n2 rping -s -V -C 2 -a 10.0.1.2 &
    server=$!
    accepting 2 || status=1
    on 1 tc qdisc add dev v1 root netem loss 100% || status=1
    within 60 ip netns exec n1 rping -c -V -C 2 -a 10.0.1.2 &
    client=$!
    if [ $# = 0 ]; then
        wait_until 20 repeated "$before" || status=1
    else
        sleep 3
        ! repeated "$before" || status=1
    fi
    on 1 tc qdisc del dev v1 root
    wait $client || status=1
    wait $server || status=1
    return $status
}
repeated() { [ "$(count 1 cm_tx_retries/req)" -gt "$1" ]; }

# hold: a client of node 1 that holds a connection to a server on node 2.
hold() {
    within 60 ip netns exec n2 rping -s -P -C 100000 -a 10.0.1.2 >/dev/null 2>&1 &
    server=$!
    accepting 2
    within 60 ip netns exec n1 rping -c -C 100000 -a 10.0.1.2 >/dev/null 2>&1 &
    client=$!
    wait_until 20 connected
}
connected() { rdma resource show cm_id | grep -q CONNECT; }
# The client is killed: the server is told, and goes on; then the server, and nothing is left.
killed() {
    local server client
    hold || return
    pkill -9 -f 'rping -c -C 100000'
    wait $client
    rping_client || return
    pkill -9 -f 'rping -s -P'
    wait $server
    wait_until 10 none_left
}
rping_client() { within 40 ip netns exec n1 rping -c -V -C 5 -a 10.0.1.2; }
none_left() { [ -z "$(rdma resource show cm_id)" ]; }

removed() {
    local client server
    hold || return
    on 1 rdma link del rxe1 &
    wait_until 30 not test -e $ports/rxe1 || return
    pkill -9 -f 'rping -[cs] '
    wait
    on 1 rdma link add rxe1 type rxe netdev v1 && reaches 1 10.0.1.2 && rping_pair 40
}

# The modules are unloaded right after connections end, while timewait still runs.
unloaded() {
    local i
    for i in 1 2 3; do
        rping_pair 40 || return
        wait_until 20 modprobe -r rdma_ucm || return
        # What else uses it is none of this test's business.
        modprobe -r rdma_cm 2>/dev/null
        if [ -d /sys/module/rdma_cm ]; then break; fi
        modprobe -r ib_cm && [ ! -d /sys/module/ib_cm ] || { lsmod | grep ib_cm; return 1; }
        modprobe rdma_ucm || return
    done
    modprobe rdma_ucm && rping_pair 40
}

traced() {
    local events=/sys/kernel/tracing/events/ib_cma
    [ -d $events ] || mount -t tracefs none /sys/kernel/tracing
    [ "$(find $events -mindepth 1 -maxdepth 1 -type d | wc -l)" = 34 ] || { ls $events; return 1; }
    echo 1 >$events/enable && echo >/sys/kernel/tracing/trace || return
    rping_pair 40 || return
    echo 0 >$events/enable
    for event in icm_send_req icm_send_rep icm_send_rtu icm_send_dreq; do
        grep -q $event /sys/kernel/tracing/trace || { echo "no $event"; return 1; }
    done
}

check "two nodes" two_nodes
check "the module" module
check "files of the counters" files
check "messages are counted" counted
check "nobody listens" nobody
check "ten connections at a time" meet 60 ucmatose -b 10.0.1.2 -c 10 -- ucmatose -c 10 -s 10.0.1.2
check "resolution without a connection" meet 60 udaddy -b 10.0.1.2 -- udaddy -s 10.0.1.2
if [ -d /sys/kernel/tracing ]; then
    check "tracepoints" traced
else
    skip "tracepoints" "this kernel has no tracefs"
fi
check "loss of a quarter" lossy 25%
if ours ib_cm && ours rdma_cm && ! built_in ib_cm; then
    check "a lost request is repeated early" early
    check "not if that is turned off" early early_repeats=0
fi
check "200 connections" meet 60 cmtime -b 10.0.1.2 -c 200 -- cmtime -c 200 -s 10.0.1.2
check "killed clients and servers" killed
check "removal of a device with connections" removed
if built_in ib_cm; then
    skip "unload right after connections" "ib_cm is built in"
else
    check "unload right after connections" unloaded
fi
finish
