# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# The two-node ground that most tests stand on, and how to run a pair of programs
# over it. Two nodes in one guest are two net namespaces n1, n2 joined by veth v1,
# v2, each with its rxe device: rxe1 (10.0.1.1, fd01::1) and rxe2 (.2).

export PATH=$PATH:/share/tests/bin

. /share/tests/scale.sh

within() { # SECONDS CMD...
    local limit=$(($1 * SCALE * ${PATIENCE:-1}))
    shift
    timeout -k 5 "$limit" "$@"
}

# wait_until SECONDS CMD...: until CMD succeeds; fails when that takes longer. The limits are for a
# machine that has much else to do: a quiet one needs a small part of them.
wait_until() {
    local end=$((SECONDS + $1 * SCALE * ${PATIENCE:-1}))
    shift
    until "$@" >/dev/null 2>&1; do
        if [ $SECONDS -ge $end ]; then
            echo "waited in vain: $*"
            return 1
        fi
        sleep 0.1
    done
}
not() { ! "$@"; }
running() { kill -0 "$1" 2>/dev/null; }

on() { # NODE CMD...: in its namespace
    local n=$1
    shift
    ip netns exec "n$n" "$@"
}

# memory_in_use: kB that are neither free nor could be at once. Pages that a CPU keeps for
# itself (zoneinfo's "count") are free, too.
memory_in_use() {
    awk '/^MemTotal:/ { s += $2 } /^(MemFree|Buffers|Cached|SReclaimable):/ { s -= $2 } /^ +count:/ { s -= 4 * $2 }
        END { print s }' /proc/meminfo /proc/zoneinfo
}

# ours NAME: STACK names NAME as one of the Rust modules. What is loaded does not decide: a case
# that depends on it would disappear with a module that does not load. two_nodes compares.
ours() { case ",$STACK," in ,rust, | *",$1,"*) ;; *) return 1 ;; esac; }

# built_in NAME: the module is a part of the kernel.
built_in() { grep -q "/$1\.ko\$" "/lib/modules/$(uname -r)/modules.builtin"; }

# loaded_as NAME KIND: the module NAME is loaded, or built in, and is the one of KIND, "rust" or "c".
# As stack tells them apart, which takes hundreds of processes: too slow for each test.
loaded_as() {
    local kind=c taint modules
    modules=/lib/modules/$(uname -r)
    if read -r taint 2>/dev/null <"/sys/module/$1/taint"; then
        case $taint in
        *O*) kind=rust ;;
        *) if grep -q "^kernel/drivers/infiniband/rust/$1\.ko:" "$modules/modules.dep"; then kind=rust; fi ;;
        esac
    elif grep -q "/infiniband/rust/$1\.ko\$" "$modules/modules.builtin"; then
        kind=rust
    elif ! built_in "$1"; then
        echo "$1 is not loaded, expected: $2"
        return 1
    fi
    [ $kind = "$2" ] || { echo "$1: $kind, expected: $2"; return 1; }
}

# as_asked NAME...: each module is the one that STACK asks for.
as_asked() {
    local name kind
    for name; do
        kind=c
        if ours "$name"; then kind=rust; fi
        loaded_as "$name" $kind || { echo "(STACK=$STACK)"; return 1; }
    done
}

two_nodes() { # [MTU]
    local i mtu=${1:-1500}
    two_nodes_gone || return
    ip netns add n1 && ip netns add n2 || return
    ip link add v1 type veth peer name v2 || return
    for i in 1 2; do
        ip link set "v$i" netns "n$i"
        on $i ip link set lo up
        on $i ip link set "v$i" mtu "$mtu" up
        rxe_on $i "v$i" || return
    done
    as_asked ib_core rdma_rxe && reaches 1 10.0.1.2 && reaches 1 fd01::2
}
# rxe_on NODE DEVICE: the node's addresses and its rxe device are on DEVICE.
rxe_on() {
    on "$1" ip addr add "10.0.1.$1/24" dev "$2" && on "$1" ip addr add "fd01::$1/64" dev "$2" nodad &&
        on "$1" rdma link add "rxe$1" type rxe netdev "$2"
}
# reaches NODE ADDRESS: an interface may need a moment before it carries anything.
reaches() { wait_until 20 on "$1" ping -q -c 1 -W 2 "$2"; }

# three_in_a_row: namespaces n1, n0, n2 with cables between them: v1 to b1, b2 to v2.
three_in_a_row() {
    local i
    for i in 0 1 2; do ip netns add n$i || return; done
    for i in 1 2; do
        ip link add v$i netns n$i type veth peer name b$i netns n0 || return
        on 0 ip link set b$i up
        on $i ip link set lo up
        on $i ip link set v$i up
    done
}

# bridge_between, router_between: what n0 of three_in_a_row is.
bridge_between() {
    on 0 ip link add br0 type bridge && on 0 ip link set br0 up &&
        on 0 ip link set b1 master br0 && on 0 ip link set b2 master br0
}
router_between() {
    on 0 sysctl -q net.ipv4.ip_forward=1 net.ipv4.conf.b1.proxy_arp=1 net.ipv4.conf.b2.proxy_arp=1 &&
        on 0 ip route add 10.0.1.1/32 dev b1 && on 0 ip route add 10.0.1.2/32 dev b2
}

# ends [NAME]: soft-RoCE on v1 and v2, with addresses of theirs or of NAME1 and NAME2 above them.
ends() {
    local i
    for i in 1 2; do
        on $i ip addr add 10.0.1.$i/24 dev "${1:-v}$i" || return
        on $i rdma link add rxe$i type rxe netdev v$i || return
    done
}
ends_meet() { reaches 1 10.0.1.2; }

# two_bridged: nodes as of two_nodes, with a bridge between their cables, whose ports b1
# and b2 (in namespace n0) are where to make the wire bad: trains are taken apart before
# they get there, so that each packet has a fate of its own.
two_bridged() {
    local i
    two_nodes_gone || return
    three_in_a_row && bridge_between || return
    for i in 1 2; do on $i ethtool -K v$i tx-gso-list off >/dev/null; done
    ends && as_asked ib_core rdma_rxe && ends_meet
}

# bad_wire WAY NETEM-OPTIONS...: netem of two_bridged on the way from node 1 to node 2
# ("there"), back ("back") or both.
bad_wire() {
    local i way=$1
    shift
    for i in 1 2; do on 0 tc qdisc del dev b$i root 2>/dev/null; done
    for i in 1 2; do
        case $way$i in there1 | back2) continue ;; esac
        on 0 tc qdisc add dev b$i root netem limit 10000 "$@" || return
    done
}

has_rxe() { on "$1" rdma link show 2>/dev/null | grep -q "^link rxe$1/"; }
# two_nodes_gone: fails if a device or a namespace of the two nodes does not go.
two_nodes_gone() {
    local i left status=0
    for i in 1 2; do
        if [ -e "/run/netns/n$i" ]; then
            ip netns pids "n$i" | xargs -r kill -9 2>/dev/null
            # A test may have removed the device; and the end of node 1 takes the interface of node 2.
            if has_rxe $i && ! on $i rdma link del "rxe$i" && has_rxe $i; then status=1; fi
            ip netns del "n$i" || status=1
        fi
    done
    if [ -e /run/netns/n0 ]; then ip netns del n0 || status=1; fi
    # A namespace dies asynchronously; the next test wants its names back.
    for _ in $(seq $((300 * SCALE))); do
        left=$(ls -d /sys/class/infiniband/rxe[12] /run/netns/n[012] 2>/dev/null)
        [ -n "$left" ] || return "$status"
        sleep 0.1
    done
    echo "still there: $left"
    return 1
}

# refused_as WORDS CMD...: CMD fails, and its output has WORDS, a regular expression. A command
# that cannot be carried out at all fails as well, but in other words.
refused_as() {
    local words=$1 status=0
    shift
    "$@" >/tmp/refused 2>&1 || status=$?
    cat /tmp/refused
    [ "$status" -gt 0 ] && { [ "$status" -lt 124 ] || [ "$status" = 255 ]; } && grep -qE "$words" /tmp/refused
}

# cases_of NAME STATUS FILE [PREFIX]: the output of a program of src/ (result.h) or of ends.py as
# cases: "ok CASE", "not ok CASE: why" and "skip CASE: why"; other lines are notes. A program ends
# with the line "end" and with status 1 if a case failed, else 0. A program that died prints no
# such line, and a missing one no case.
cases_of() {
    local line n=0 failed=0
    while read -r line; do
        case $line in
        "ok "*) ktap_result ok "${4:-}${line#ok }" ;;
        "not ok "*)
            failed=1
            grep -F -B 8 -m 1 -- "$line" "$3" >/tmp/why
            line=${line#not ok }
            ktap_result "not ok" "${4:-}${line%%:*}" /tmp/why
            ;;
        "skip "*)
            line=${line#skip }
            skip "${4:-}${line%%:*}" "${line#*: }"
            ;;
        end) continue ;;
        *) note "$line"; continue ;;
        esac
        n=$((n + 1))
    done <"$3"
    check "$1 came to its end" ended "$2" $failed $n "$3"
}
ended() { # STATUS FAILED CASES FILE
    tail -n 5 "$4"
    echo "exit status $1, $3 cases, failed: $2"
    [ "$1" = "$2" ] && [ "$3" -gt 0 ] && [ "$(tail -n 1 "$4")" = end ]
}

# gid NODE ADDRESS: the index of ADDRESS (a.b.c.d or an IPv6 text) in rxeNODE's table. A worker
# follows the addresses of interfaces, and may be late.
gid() { gid_now "$@" 2>/dev/null || { wait_until 10 gid_now "$@" >&2 && gid_now "$@"; }; }
gid_now() {
    local want g
    case $2 in
    *:*) want=$(python3 -c 'import ipaddress, sys; print(ipaddress.ip_address(sys.argv[1]).exploded)' "$2") ;;
    # shellcheck disable=SC2046
    *) want=$(printf '0000:0000:0000:0000:0000:ffff:%02x%02x:%02x%02x' $(echo "$2" | tr . ' ')) ;;
    esac
    # One command for all: entering the namespace takes long on a slow machine.
    g=$(on "$1" grep -lxF "$want" "/sys/class/infiniband/rxe$1/ports/1/gids/"{0..31} 2>/dev/null | head -n 1)
    if [ -n "$g" ]; then
        echo "${g##*/}"
        return
    fi
    echo "no gid $2 on rxe$1" >&2
    return 1
}

# listening NODE PORT: wait until a program on the node listens on the TCP port.
listening() {
    wait_until 30 on "$1" grep -qhE "$(printf ':%04X 0*:0000 0A' "$2")" /proc/net/tcp /proc/net/tcp6 && return
    echo "nobody listens on port $2 of node $1"
    return 1
}

port=19000

# accepting NODE: wait until a program on the node listens through rdma_cm.
accepting() {
    wait_until 30 listener "$1" && return
    echo "nobody listens through rdma_cm on node $1"
    return 1
}

# listener [NODE]: whether a program listens through rdma_cm there, or in this namespace.
listener() { ${1:+on "$1"} rdma res show cm_id | grep -q 'state LISTEN'; }

# meet LIMIT SERVER-COMMAND -- CLIENT-COMMAND: a server on node 2 and a client on node 1 that meet
# through rdma_cm, and both end well. $ready, if set, is the command that waits for the server instead.
meet() {
    local limit=$1 server=() status=0 server_status=0 pid
    shift
    while [ "$1" != -- ]; do server+=("$1"); shift; done
    shift
    within "$limit" ip netns exec n2 "${server[@]}" >/tmp/meet-server 2>&1 &
    pid=$!
    ${ready:-accepting 2} || status=1
    within "$limit" ip netns exec n1 "$@" || status=$?
    [ $status = 0 ] || kill $pid 2>/dev/null
    wait $pid || server_status=$?
    [ "$status$server_status" = 00 ] || { echo "client $status, server $server_status"; tail -n 5 /tmp/meet-server; return 1; }
}

# has_node DEVICE: a program can open the device.
has_node() { grep -qsx "$1" /sys/class/infiniband_verbs/*/ibdev; }

# failing_allocations CMD...: allocations fail in processes that ask for it (make-it-fail). Needs
# CONFIG_FAILSLAB.
failing_allocations() {
    local f=/sys/kernel/debug/failslab status=0
    echo Y >$f/task-filter && echo 3 >$f/probability && echo -1 >$f/times && echo 0 >$f/verbose && echo N >$f/ignore-gfp-wait || return
    "$@" || status=$?
    echo 0 >$f/probability
    return $status
}

# captures FILE: wait until tcpdump, whose messages go to FILE, captures.
captures() { wait_until 30 grep -qs 'listening on' "$1"; }
# capture NODE DEVICE FILE TCPDUMP-ARG... -- CMD...: CMD, while the node's packets are captured to FILE.
capture() {
    local node=$1 device=$2 file=$3 args=() dump status=0
    shift 3
    while [ "$1" != -- ]; do args+=("$1"); shift; done
    shift
    rm -f "$file"
    ip netns exec "n$node" tcpdump --immediate-mode -U -n -i "$device" -w "$file" "${args[@]}" 2>/tmp/dump &
    dump=$!
    captures /tmp/dump || return
    "$@" || status=$?
    # Packets may still be on their way.
    sleep 1
    kill $dump && wait $dump
    grep dropped /tmp/dump
    return $status
}

# observed WORD COMMAND... -- TRAFFIC...: TRAFFIC, while COMMAND runs, which prints WORD when it is ready and
# is killed afterwards. Sets sent, the number of packets that node 1 sent meanwhile. The output of COMMAND
# is in /tmp/observer.
observed() {
    local word=$1 command=() before status=0 pid
    shift
    while [ "$1" != -- ]; do command+=("$1"); shift; done
    shift
    "${command[@]}" >/tmp/observer 2>&1 &
    pid=$!
    wait_until 30 grep -qs "$word" /tmp/observer || { cat /tmp/observer; kill $pid; return 1; }
    before=$(packets_sent)
    "$@" || status=$?
    sleep 0.5
    # shellcheck disable=SC2034
    sent=$(($(packets_sent) - before))
    kill $pid
    wait $pid || status=1
    echo "$sent packets sent; the command printed:"
    cat /tmp/observer
    return $status
}

# queue_length NODE DEVICE: how many packets wait in the queueing disciplines of a device.
queue_length() {
    on "$1" tc -s qdisc show dev "$2" | grep -oE 'backlog [0-9A-Za-z]+ [0-9]+p' | grep -oE '[0-9]+p' | tr -d p | sort -n | tail -n 1
}

# pair LIMIT V4|V6 TOOL ARG...: TOOL as a server on node 2 and as a client on node 1.
# Works for the ibv_*_pingpong programs and for perftest. Fails if either fails. The
# programs meet over TCP on IPv4 always; V4 or V6 chooses the GIDs, so the wire.
pair() {
    local limit=$1 v=$2 tool=$3 addr own server status=0 server_status=0
    shift 3
    port=$((port + 1))
    case $v in v4) addr=10.0.1.2 own=10.0.1.1 ;; *) addr=fd01::2 own=fd01::1 ;; esac
    local sargs=(-d rxe2 -p "$port") cargs=(-d rxe1 -p "$port") log
    case $tool in
    ibv_*) sargs+=(-g "$(gid 2 $addr)") cargs+=(-g "$(gid 1 $own)") ;;
    *) sargs+=(-x "$(gid 2 $addr)" -F -u $patience) cargs+=(-x "$(gid 1 $own)" -F -u $patience) ;;
    esac
    log=$(mktemp)
    within "$limit" ip netns exec n2 "$tool" "${sargs[@]}" "$@" >"$log" 2>&1 &
    server=$!
    case " $* " in
    *" -R "*) accepting 2 || status=1 ;;
    *) listening 2 "$port" || status=1 ;;
    esac
    within "$limit" ip netns exec n1 "$tool" "${cargs[@]}" "$@" 10.0.1.2 || status=$?
    if [ "$status" != 0 ]; then kill "$server" 2>/dev/null; fi
    wait "$server" || server_status=$?
    if [ "$status$server_status" != 00 ]; then
        echo "client $status, server $server_status; the server said:"
        tail -n 12 "$log"
        status=1
    fi
    rm -f "$log"
    return "$status"
}

# How long a QP of the verifier or of perftest waits for an answer, as the code of IBTA (4.096 us
# times a power of two): a debug kernel, or a busy machine, is slower than a wire. Where packets get
# lost, impatience: each loss at the end of a message costs as much.
patience=18 impatience=14
if [ "$SCALE" -gt 2 ]; then impatience=16; fi

# The node of the server in the two functions below; 1 is the client's.
far=2

# verify_pair LIMIT ARG...: our own data verifier between the two nodes.
verify_pair() {
    local limit=$1 server status=0 server_status=0 sock log
    shift
    sock=$(mktemp -u)
    log=$(mktemp)
    within "$limit" ip netns exec n$far xfer -d rxe$far -g "$(gid $far 10.0.1.$far)" -c "$sock" -s -T $patience "$@" >"$log" 2>&1 &
    server=$!
    wait_until 30 test -S "$sock"
    within "$limit" ip netns exec n1 xfer -d rxe1 -g "$(gid 1 10.0.1.1)" -c "$sock" -T $patience "$@" || status=$?
    if [ "$status" != 0 ]; then sleep 0.5; kill "$server" 2>/dev/null; fi
    wait "$server" || server_status=$?
    if [ "$status$server_status" != 00 ]; then
        echo "client $status, server $server_status; the server said:"
        tail -n 12 "$log"
        status=1
    fi
    rm -f "$log" "$sock"
    return "$status"
}

# verify_sizes ARG...: the verifier, with large messages and then with many small ones.
verify_sizes() { verify_pair 60 -r 6 -n 8 -l 150000 "$@" && verify_pair 60 -r 6 -n 32 -l 2000 "$@"; }

# verify_under CASE...: that, while netem does to v1 what each case says.
verify_under() {
    local case
    for case in "$@"; do
        on 1 tc qdisc del dev v1 root 2>/dev/null
        # shellcheck disable=SC2086
        check "netem $case" on 1 tc qdisc add dev v1 root netem limit 1000 $case
        check "data under $case" verify_sizes -T $impatience
    done
    on 1 tc qdisc del dev v1 root
}

# packets_sent: how many packets rxe1 has sent.
# packets_sent [NODE]: how many packets the node's rxe device has sent; node 1's without NODE.
packets_sent() { on "${1:-1}" rdma statistic show link "rxe${1:-1}" | grep -oE 'sent_pkts [0-9]+' | cut -d' ' -f2; }

sent_more() { [ $(($(packets_sent) - $1)) -gt 200 ]; }

# flowing BEFORE: wait until rxe1 has sent some more packets than BEFORE, which may take
# a while on a busy machine: only then has traffic begun.
flowing() {
    wait_until 60 sent_more "$1" && return
    echo "no traffic: $1 packets sent before, $(packets_sent) now"
    return 1
}

# traffic: endless verified traffic in the background, until traffic_stop. It may be cut off, but
# its data may not be wrong.
traffic() {
    local sock before status=0
    sock=$(mktemp -u)
    before=$(packets_sent)
    ip netns exec n$far xfer -d rxe$far -g "$(gid $far 10.0.1.$far)" -c "$sock" -s -r 1000000 -T $patience "$@" >/tmp/traffic2 2>&1 &
    traffic_server=$!
    wait_until 30 test -S "$sock"
    ip netns exec n1 xfer -d rxe1 -g "$(gid 1 10.0.1.1)" -c "$sock" -r 1000000 -T $patience "$@" >/tmp/traffic1 2>&1 &
    traffic_client=$!
    flowing "$before" || status=1
    sleep $((1 * SCALE))
    if ! kill -0 $traffic_client 2>/dev/null || ! kill -0 $traffic_server 2>/dev/null; then status=1; fi
    [ $status = 0 ] || cat /tmp/traffic1 /tmp/traffic2
    return $status
}

# traffic_stop [SECONDS]: both ends must be gone within the limit after a SIGKILL, and must not
# have seen wrong data before.
traffic_stop() {
    local pid status=0
    kill -9 "$traffic_server" "$traffic_client" 2>/dev/null
    for _ in $(seq $((${1:-30} * SCALE * 10))); do
        if ! kill -0 "$traffic_server" 2>/dev/null && ! kill -0 "$traffic_client" 2>/dev/null; then
            for pid in "$traffic_server" "$traffic_client"; do
                wait "$pid" 2>/dev/null
                # xfer's status for wrong data.
                if [ $? = 2 ]; then status=1; fi
            done
            if grep -hE 'WRONG|WRITTEN OUTSIDE|COMPLETION (ORDER|MISSING)|CHANGED' /tmp/traffic1 /tmp/traffic2; then status=1; fi
            return $status
        fi
        sleep 0.1
    done
    echo "a killed process did not go away:"
    cat "/proc/$traffic_server/stack" "/proc/$traffic_client/stack" 2>/dev/null
    return 1
}

# client_notices: the server of the traffic was killed, and its client ends by itself and says why:
# nobody answers its requests, or nobody is at the other end of the control socket.
client_notices() {
    local status=0
    if ! wait_until 60 not running "$traffic_client"; then
        traffic_stop
        echo "the client never noticed"
        return 1
    fi
    wait "$traffic_client" || status=$?
    cat /tmp/traffic1
    echo "the client's status: $status"
    traffic_stop && [ $status = 1 ] && grep -qE 'retry counter exceeded|the other side is gone|control write' /tmp/traffic1
}

# unload_stack: everything of the subsystem, ours or not, in the order in which it can be.
unload_stack() {
    local m left
    two_nodes_gone
    for _ in $(seq $((100 * SCALE))); do
        left=
        for m in $(stack | cut -d' ' -f1); do
            rmmod "$m" 2>/dev/null || left+=" $m"
        done
        if [ -z "$left" ]; then return; fi
        sleep 0.1
    done
    for m in $left; do
        echo "still there: $m, used $(cat "/sys/module/$m/refcnt" 2>&1) times, by modules: $(ls "/sys/module/$m/holders" | xargs)"
        rmmod "$m" 2>&1
    done
    return 1
}
