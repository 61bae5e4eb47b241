# SPDX-License-Identifier: GPL-2.0
# limit: 400
# short: um
# Memory on demand: traffic while pages are taken away, errors, advice.
. ./ktap.sh
. ./rdma.sh

retries() { on 1 rdma stat show link rxe1/1 | grep -o "completer_retry_err [0-9]*"; }
no_retries() {
    local now
    now=$(retries)
    echo "before: $before, now: $now"
    [ -n "$before" ] && [ "$now" = "$before" ]
}
lost() {
    tc -n n1 -s qdisc show dev v1 >/tmp/lost
    cat /tmp/lost
    grep -qE 'dropped [1-9]' /tmp/lost
}
dies() { traffic -O -T 18 "$@" && traffic_stop; }

check "two nodes" two_nodes
check "sends" verify_pair 60 -O -T 18 -r 10 -k 0x3
check "writes" verify_pair 60 -O -T 18 -r 10 -k 0xc
check "reads" verify_pair 60 -O -T 18 -r 10 -k 0x10
check "atomics" verify_pair 60 -O -T 18 -r 10 -k 0x60
check "everything" verify_pair 60 -O -T 18 -r 20
# Memory on demand may be called persistent without being it.
check "atomic writes, flushes for persistence" verify_pair 60 -O -P -T 18 -r 10 -k 0x304
check "large messages, up to 2 MB" verify_pair 90 -O -T 18 -r 3 -n 4 -l 2000000
words=
if [ -e /proc/sys/vm/nr_hugepages ] && [ -e /sys/kernel/mm/transparent_hugepage ]; then
    echo 8 >/proc/sys/vm/nr_hugepages
    words+=" huge"
else
    skip "huge pages" "this kernel has none"
fi
# The C core of 7.2 holds the mmap lock while a fault waits: such memory is none.
if ours ib_core || grep -qw hmm_range_fault_unlocked_timeout /proc/kallsyms; then words+=" userfault"; fi
# Debug kernels delay the reuse of freed memory.
if ours rdma_rxe; then
    words+=" implicit large"
    if [ "$SCALE" = 1 ]; then words+=" count"; fi
fi
# shellcheck disable=SC2086
within 120 ip netns exec n1 odp rxe1 "$(gid 1 10.0.1.1)" $words >/tmp/odp 2>&1
status=$?
if [ -e /proc/sys/vm/nr_hugepages ]; then echo 0 >/proc/sys/vm/nr_hugepages; fi
cases_of "the program" $status /tmp/odp
if ours rdma_rxe; then
    check "implicit: sends" verify_pair 60 -I -T 18 -r 10 -k 0x3
    check "implicit: writes and reads" verify_pair 60 -I -T 18 -r 10 -k 0x1c
    check "implicit: everything old" verify_pair 60 -I -T 18 -r 20
    check "implicit: windows, atomic writes, flushes" verify_pair 60 -I -T 18 -r 10 -k 0x380
    check "implicit: large messages, up to 2 MB" verify_pair 90 -I -T 18 -r 3 -n 4 -l 2000000
fi
# shellcheck disable=SC2034
far=1
before=$(retries)
check "everything, on one device" verify_pair 60 -O -T 20 -r 20
check "large messages, on one device" verify_pair 90 -O -T 20 -r 3 -n 4 -l 2000000
if ours rdma_rxe; then
    check "implicit: everything, on one device" verify_pair 60 -I -T 20 -r 20 -k 0x3ff
    check "implicit: large messages, on one device" verify_pair 90 -I -T 20 -r 3 -n 4 -l 2000000
fi
check "nobody had to ask again there" no_retries
# shellcheck disable=SC2034
far=2
check "a wire that loses 1 %" tc -n n1 qdisc add dev v1 root netem loss 1%
check "everything, with 1 % loss" verify_pair 90 -O -T 16 -r 8 -l 20000
check "processes die under traffic" dies
if ours rdma_rxe; then check "implicit: processes die under traffic" dies -I; fi
check "packets were lost" lost
check "the devices' end" two_nodes_gone
finish
