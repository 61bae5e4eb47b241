# SPDX-License-Identifier: GPL-2.0
# limit: 500
# duration
# Eight processes make and unmake objects of all kinds, while devices come and go and are
# renamed, addresses flap, namespaces exit with a device in them, and others look at all of
# it; then the same with allocations that fail. 8 s each, or DURATION= seconds together. The
# kernel log stays clean, nobody hangs, and memory comes back.
. ./ktap.sh
. ./rdma.sh

seconds=8
[ -z "${DURATION:-}" ] || seconds=$((DURATION / 2))
seed=${SEED:-$(date +%s)}
RANDOM=$seed

over() { [ -e /tmp/over ]; }
did() { echo >>"/tmp/did.$1"; }
times() { wc -l <"/tmp/did.$1" 2>/dev/null || echo 0; }
nap() { sleep "$(printf '0.%03d' $((RANDOM % $1)))"; }
# All in one namespace: the programs see all devices.
interfaces() {
    local i
    for i in 1 2 3; do ip link add "s$i" type dummy && ip link set "s$i" up && ip addr add "10.0.$i.1/24" dev "s$i" || return; done
    for i in 1 2 3; do rdma link add "storm$i" type rxe netdev "s$i" || return; done
}
ls_devices() { ls /sys/class/infiniband | grep .; }
interfaces_gone() {
    local i
    for i in 1 2 3 9; do ip link del "s$i" 2>/dev/null; done
    wait_until 60 not ls_devices && return
    ls /sys/class/infiniband
    return 1
}

devices_loop() {
    local i
    while ! over; do
        i=$((1 + RANDOM % 3))
        nap 400
        rdma link del "storm$i" 2>/dev/null
        nap 100
        rdma link add "storm$i" type rxe netdev "s$i" 2>/dev/null && did device
    done
}
renames_loop() {
    while ! over; do
        nap 500
        rdma dev set storm1 name storm4 2>/dev/null && did rename
        nap 200
        rdma dev set storm4 name storm1 2>/dev/null
        rdma link del storm4 2>/dev/null
    done
}
addresses_loop() {
    local i a
    while ! over; do
        i=$((1 + RANDOM % 3))
        for a in 2 3 4 5; do ip addr add "10.0.$i.$a/24" dev "s$i" 2>/dev/null; ip addr add "fd0$i::$a/64" dev "s$i" nodad 2>/dev/null; done
        if [ $((RANDOM % 3)) = 0 ]; then ip link set "s$i" down; nap 50; ip link set "s$i" up; fi
        if [ $((RANDOM % 3)) = 0 ]; then ip link add link "s$i" name "s9" type vlan id 9 2>/dev/null && ip link set s9 up && ip addr add 10.9.9.9/24 dev s9; nap 50; ip link del s9 2>/dev/null; fi
        for a in 2 3 4 5; do ip addr del "10.0.$i.$a/24" dev "s$i" 2>/dev/null; ip addr del "fd0$i::$a/64" dev "s$i" 2>/dev/null; done
        did address
    done
}
# A namespace is removed with an interface in it that has a device in use.
spaces_loop() {
    local g
    while ! over; do
        ip netns add n5 && ip -n n5 link add s5 type dummy && ip -n n5 link set s5 up || return
        ip netns exec n5 rdma link add storm5 type rxe netdev s5 2>/dev/null
        ip netns exec n5 timeout 20 storm 1 $RANDOM 1 20 >/dev/null 2>&1 &
        g=$!
        nap 999
        ip -n n5 link del s5 2>/dev/null
        kill $g 2>/dev/null
        ip netns del n5
        wait $g
        did space
    done
}
onlookers_loop() {
    while ! over; do
        rdma res show qp >/dev/null 2>&1
        rdma -j -d dev >/dev/null 2>&1
        rdma statistic >/dev/null 2>&1
        cat /sys/class/infiniband/*/ports/1/{gids,gid_attrs/types,hw_counters}/* >/dev/null 2>&1
        did look
    done
}

storm_of() { # SECONDS [fail]
    local actor pids=() status end
    rm -f /tmp/over /tmp/did.*
    interfaces || return
    for actor in devices renames addresses spaces onlookers; do
        "${actor}_loop" >/dev/null 2>&1 &
        pids+=($!)
    done
    storm "$1" "$seed" 8 $((30 * SCALE)) "${2:-}" | tee /tmp/storm
    status=${PIPESTATUS[0]}
    # On a busy machine the others may not have got round to it yet.
    wait_until 60 happened
    touch /tmp/over
    end=$((SECONDS + 60 * SCALE))
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
    interfaces_gone && return "$status"
}
failing() { failing_allocations storm_of "$seconds" fail; }
made() { # of each kind that soft-RoCE has
    local kind
    for kind in pd channel cq srq qp mr mw ah mcast; do
        awk -v k=$kind '$1 == k && $2 > 2 { found = 1 } END { exit !found }' /tmp/storm || { echo "too few: $kind"; cat /tmp/storm; return 1; }
    done
}
# made_by STORM...: some of each kind were made by the last storm, or are when it comes again: on a
# busy machine many a life ends before it has begun.
made_by() {
    for _ in 1 2; do
        if made; then return; fi
        "$@" || return
    done
    made
}
happened() {
    local what
    for what in device rename address space look; do echo "$what: $(times $what)"; [ "$(times $what)" -gt 0 ] || return; done
}
used_kb() {
    local cache
    for _ in $(seq 8); do
        echo 3 >/proc/sys/vm/drop_caches
        for cache in /sys/kernel/slab/*/shrink; do echo 1 >"$cache" 2>/dev/null; done
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
    [ $((after - before)) -lt $((SCALE > 1 ? 100000 : 10000)) ]
}

two_nodes_gone
note "seed $seed (SEED= repeats it)"
check "a short storm first" storm_of 4
before=$(used_kb)
check "storm of $seconds s" storm_of "$seconds"
note "$(xargs </tmp/storm)"
check "objects of all kinds were made" made_by storm_of "$seconds"
check "all around it happened" happened
if [ -d /sys/kernel/debug/failslab ]; then
    check "the same with allocations that fail" failing
    note "$(xargs </tmp/storm)"
    check "objects of all kinds were made all the same" made_by failing
else
    skip "the same with allocations that fail" "this kernel has no failslab"
fi
check "memory comes back" memory_back
check "works after all that" eval 'two_nodes && verify_pair 20 -r 3'
finish
