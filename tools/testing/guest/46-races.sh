# SPDX-License-Identifier: GPL-2.0
# limit: 600
# duration
# Everything at once, for DURATION= seconds: queue pairs, regions, resizes, traffic
# whose ends are stopped, continued and killed, links that go down, devices, interfaces and
# namespaces that come and go, the module reloaded. The kernel log stays clean, nobody
# hangs, no data is wrong, and memory comes back.
. ./ktap.sh
. ./rdma.sh

if [ -z "${DURATION:-}" ] && ! ours rdma_rxe; then
    skip "races" "the C driver; run it with DURATION=30 or more"
    finish
fi
seconds=${DURATION:-20}
seed=${SEED:-$(date +%s)}

over() { [ -e /tmp/over ]; }
did() { echo >>"/tmp/did.$1"; }
times() { if [ -e "/tmp/did.$1" ]; then wc -l <"/tmp/did.$1"; else echo 0; fi; }
wrong() { echo "$*" >>/tmp/wrong; }
# nap MILLISECONDS: sleep for a random time up to this.
nap() {
    local ms=$((RANDOM % $1))
    sleep "$(printf '0.%03d' $ms)"
}

# Threads of one process over both devices, or over one. It may be told that they are
# gone, and it may die of it; it may not hang or miss a completion (9).
verbs() { # DEVICE GID DEVICE GID SECONDS
    local status=0 out=/tmp/races.$BASHPID
    within 60 races "$@" $RANDOM >"$out" 2>&1 || status=$?
    awk '/^queue pairs/ { print $3, $5, $7, $9 }' "$out" >>/tmp/figures
    case $status in
    0) did verbs ;;
    9 | 124 | 137) wrong "races ended with $status: $(tail -n 1 "$out")" ;;
    *) did verbs-cut-off; sleep 0.2 ;;
    esac
}
# no_gid LOOP: what is there where a GID is not found, as the loop sees it.
no_gid() {
    did no-gid
    for i in 1 2; do
        on $i ip -br addr show dev v$i
        on $i grep -H : "/sys/class/infiniband/rxe$i/ports/1/gids/"{0..3}
    done >"/tmp/no-gid.$1" 2>&1
    sleep 0.1
}
verbs_loop() {
    local g1 g2 i
    while ! over; do
        g1=$(gid_now 1 10.0.1.1 2>/dev/null) && g2=$(gid_now 2 10.0.1.2 2>/dev/null) || { no_gid verbs; continue; }
        if [ $((RANDOM % 2)) = 0 ]; then verbs rxe1 "$g1" rxe2 "$g2" 3; else verbs rxe1 "$g1" rxe1 "$g1" 3; fi
    done
}

# Sequence numbers begin anywhere: a device that was added again gives the same queue pair
# numbers, and what is still on its way to the old one would be taken by the new.
# A verified transfer whose ends are stopped for a while, or killed.
step() { echo "$SECONDS s: $*" >/tmp/peers-step; }
peers_loop() {
    local a b g1 g2 i who status
    while ! over; do
        step "looks for GIDs"
        g1=$(gid_now 1 10.0.1.1 2>/dev/null) && g2=$(gid_now 2 10.0.1.2 2>/dev/null) || { no_gid peers; continue; }
        rm -f /tmp/peers
        step "starts both ends"
        timeout -k 5 $((40 * SCALE)) xfer -d rxe2 -g "$g2" -c /tmp/peers -s -p $((RANDOM * 512)) -r 1000000 -T $impatience >/tmp/peer2 2>&1 &
        b=$!
        for _ in $(seq 200); do if [ -S /tmp/peers ] || not running $b; then break; fi; sleep 0.05; done
        timeout -k 5 $((40 * SCALE)) xfer -d rxe1 -g "$g1" -c /tmp/peers -p $((RANDOM * 512)) -r 1000000 -T $impatience >/tmp/peer1 2>&1 &
        a=$!
        step "stops one"
        for _ in 1 2 3; do
            nap 999
            who=$a
            [ $((RANDOM % 2)) = 0 ] || who=$b
            # The programs are the children of timeout.
            pkill -STOP -P $who 2>/dev/null && nap 999 && pkill -CONT -P $who 2>/dev/null && did stop
        done
        step "kills both"
        pkill -KILL -P $a
        nap 300
        pkill -KILL -P $b
        did kill
        step "waits for both"
        for who in $a $b; do
            wait $who
            status=$?
            # 2 is wrong data, 124 a process that had been killed and did not go.
            case $status in 2 | 124) wrong "xfer ended with $status: $(tail -n 1 /tmp/peer1) $(tail -n 1 /tmp/peer2)" ;; esac
        done
    done
}

# Devices deleted and added, links down and up.
links_loop() {
    local i
    while ! over; do
        i=$((1 + RANDOM % 2))
        nap 999
        if [ $((RANDOM % 3)) = 0 ]; then
            on $i ip link set v$i down
            nap 300
            on $i ip link set v$i up && on $i ip addr add fd01::$i/64 dev v$i nodad 2>/dev/null
            did flap
        else
            on $i rdma link del rxe$i 2>/dev/null
            nap 200
            if on $i rdma link add rxe$i type rxe netdev v$i 2>/dev/null; then did link; else did not-added; fi
        fi
        sleep 1
    done
}

# Interfaces and namespaces that go with a device on them in use.
spaces_loop() {
    local user g
    while ! over; do
        ip netns add n3 && ip link add v3 type veth peer name v4 && ip link set v3 netns n3 &&
            on 3 ip link set v3 up && on 3 ip addr add 10.0.3.1/24 dev v3 || { wrong "no namespace"; return; }
        if on 3 rdma link add rxe3 type rxe netdev v3 2>/dev/null; then
            sleep 0.2
            g=$(gid_now 3 10.0.3.1 2>/dev/null) && { verbs rxe3 "$g" rxe3 "$g" 2 & user=$!; }
            nap 999
            if [ $((RANDOM % 2)) = 0 ]; then ip link del v4; else ip netns del n3; fi
            did space
            wait $user
        fi
        ip link del v4 2>/dev/null
        ip netns del n3 2>/dev/null
        for _ in $(seq 50); do [ -e /sys/class/infiniband/rxe3 ] || break; sleep 0.1; done
    done
}

modules_loop() {
    local i
    while ! over; do
        sleep 4
        if timeout $((60 * SCALE)) rmmod rdma_rxe 2>/dev/null; then did reload; elif [ $? = 124 ]; then wrong "rmmod hangs"; fi
        nap 500
        modprobe rdma_rxe || wrong "modprobe failed"
        for i in 1 2; do on $i rdma link add rxe$i type rxe netdev v$i 2>/dev/null; done
    done
}

# everything SECONDS [LEAST]: at least so long, and until it happened so often.
everything() {
    local actor pids=() end n=0
    rm -f /tmp/over /tmp/did.* /tmp/wrong /tmp/figures /tmp/no-gid.*
    two_nodes || return
    for actor in verbs peers links spaces modules; do
        # A subshell begins with numbers of its own.
        n=$((n + 1))
        { RANDOM=$((seed + n)) && "${actor}_loop" >/dev/null 2>&1; } &
        pids+=($!)
    done
    sleep "$1"
    if [ -n "${2:-}" ] && ! wait_until 60 all_happened "$2"; then
        {
            echo "at $SECONDS s; the peers since $(cat /tmp/peers-step)"
            tail -n 20 /tmp/no-gid.*
        } >/tmp/why
    fi
    touch /tmp/over
    end=$((SECONDS + 90 * SCALE))
    for actor in "${pids[@]}"; do
        while kill -0 "$actor" 2>/dev/null; do
            if [ $SECONDS -gt $end ]; then
                echo "somebody hangs:"
                ps -eo pid,stat,wchan:30,args | awk '$2 ~ /D/'
                return 1
            fi
            sleep 0.2
        done
    done
    cat /tmp/wrong 2>/dev/null && return 1
    return 0
}

bare() {
    two_nodes_gone
    modprobe rdma_rxe
    rmmod rdma_rxe
}
# Large allocations are in no single line of meminfo: what is neither free nor a cache. The
# least of some seconds, since the kernel frees much of it late.
used_kb() {
    for _ in $(seq 12); do
        echo 3 >/proc/sys/vm/drop_caches
        memory_in_use
        sleep 1
    done | sort -n | head -n 1
}
memory_back() {
    local status=0
    wait_until 60 is_back || status=1
    echo "kernel memory: $before kB, now $after kB"
    return $status
}
is_back() {
    after=$(used_kb)
    # A leak of the rings of each queue pair would be more than 12 MB. KASAN holds back what
    # was freed, up to a part of the memory.
    [ $((after - before)) -lt $((SCALE > 1 ? 100000 : 10000)) ]
}
enough() { # NAME LEAST
    echo "$1: $(times "$1") times"
    [ "$(times "$1")" -ge "$2" ]
}
figures() { cat /tmp/figures 2>/dev/null | awk '{ q += $1; r += $2; s += $3; c += $4 } END { print q + 0, r + 0, s + 0, c + 0 }'; }
worked() { # LEAST, of each thing that the threads do
    local n
    for n in $(figures); do [ "$n" -ge "$1" ] || { echo "only: $(figures)"; return 1; }; done
}
# The C driver may not be unloaded under its users.
kinds="stop kill link space"
if ours rdma_rxe; then kinds+=" reload"; fi
all_happened() { # LEAST
    local what
    for what in $kinds; do enough "$what" "$1" || return; done
    worked $(($1 > 1 ? 20 : 1))
}
again() { modprobe rdma_rxe && two_nodes && verify_pair 30 -r 3; }

note "seed $seed (SEED= repeats it), $seconds s"
check "a short round first" everything 12
check "all devices removed, module unloaded" bare
before=$(used_kb)
# In a short time little happens, but something of each kind.
least=1
[ "$seconds" -lt 60 ] || least=2
check "everything at once for $seconds s" everything "$seconds" $least
note "cut off $(times verbs-cut-off) times, stops $(times stop), kills $(times kill), verbs $(times verbs), links $(times link), not added $(times not-added), flaps $(times flap), namespaces $(times space), reloads $(times reload), GIDs not found $(times no-gid)"
note "queue pairs, regions, resizes, completions: $(figures)"
happened() { enough "$1" $least || { cat /tmp/why; return 1; }; }
for what in $kinds; do check "it happened: $what" happened "$what"; done
check "it happened: verbs" worked $((least > 1 ? 20 : 1))
check "all devices removed, module unloaded" bare
check "memory comes back" memory_back
note "in use before $before kB, after $after kB"
check "and works again" again
finish
