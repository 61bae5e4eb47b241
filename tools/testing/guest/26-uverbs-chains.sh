# SPDX-License-Identifier: GPL-2.0
# limit: 300
# duration
# Random chains of requests to ib_uverbs, with faults among them (uverbs_chains.py): on soft-RoCE, and
# on the driver that has every operation; then the same with allocations that fail. 10 s each, or
# DURATION= seconds together. Objects live and end as the grammar says, and nothing is left.
. ./ktap.sh
. ./rdma.sh

if ! ours ib_uverbs; then
    skip "random chains" "the C ib_uverbs keeps a lock and leaves an object half made (CAREFUL of uverbs_answers.py)"
    finish
fi

seconds=10
[ -z "${DURATION:-}" ] || seconds=$(((DURATION + 3) / 4))
seed=${SEED:-$(date +%s)}

resources() { rdma res show "$1" | grep .; }
is_as_before() { [ "$(resources "$1")" = "$2" ]; }
chains() { within $((seconds + 45)) python3 ./uverbs_chains.py "$@" "$seed" "$seconds" 3; }
# told CMD...: what the chains say of themselves is a part of the log.
told() {
    local status=0
    "$@" >/tmp/chains 2>&1 || status=$?
    tail -n 60 /tmp/chains
    return $status
}

check "two nodes" two_nodes
check "fakeverbs loads" modprobe fakeverbs
note "seed $seed (SEED= repeats it), $seconds s each"
for device in rxe1 fakeverbs0; do
    check "$device has a node" wait_until 20 has_node $device
    before=$(resources $device)
    check "chains on $device" told chains $device
    note "$(grep '^chain: ' /tmp/chains | sort | uniq -c | tail -n 1)"
    check "nothing is left on $device" wait_until 20 is_as_before $device "$before"
    if [ -d /sys/kernel/debug/failslab ]; then
        check "chains on $device whose allocations fail" told failing_allocations chains --fail $device
        check "nothing is left of these on $device" wait_until 20 is_as_before $device "$before"
    else
        skip "chains on $device whose allocations fail" "this kernel has no failslab"
    fi
done
check "and the device still works" verify_pair 30 -r 3
check "fakeverbs unloads" wait_until 20 rmmod fakeverbs
finish
