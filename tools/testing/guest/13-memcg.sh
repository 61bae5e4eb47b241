# SPDX-License-Identifier: GPL-2.0
# limit: 240
# The memory cgroup: memory that a user causes the driver to take is charged to the user. At
# the limit the user gets ENOMEM: nobody is killed, and others go on.
. ./ktap.sh
. ./rdma.sh

root=/tmp/memcg
group=$root/rdma-test

in_group() { (echo $BASHPID >$group/cgroup.procs && exec timeout -k 5 $((60 * SCALE * ${PATIENCE:-1})) python3 ./memcg.py "$group" "$@"); }
events() { grep -E '^(oom|oom_kill) ' $group/memory.events; }
# refused WHAT: WHAT fails with ENOMEM at the limit, and the OOM killer is not called.
refused() {
    local before hits
    before=$(events)
    hits=$(sed -n 's/^max //p' $group/memory.events)
    in_group refused "$1" || return
    # It wants more than the machine has, and is refused before anything is charged.
    [ "$1" != largest ] || return 0
    echo "limit reached: $hits before, $(sed -n 's/^max //p' $group/memory.events) after"
    [ "$(sed -n 's/^max //p' $group/memory.events)" -gt "$hits" ] || return
    echo "$before, after: $(events)"
    [ "$(events)" = "$before" ]
}
# charges KB WORD COMMAND...: COMMAND, in the group, charges so much kernel memory between its first
# line of output, after which it is given a line, and the one with WORD.
charges() {
    local kb=$1 word=$2 before after runs
    shift 2
    rm -f /tmp/memcg.in /tmp/memcg.out
    mkfifo /tmp/memcg.in
    (echo $BASHPID >$group/cgroup.procs && exec timeout -k 5 $((60 * SCALE * ${PATIENCE:-1})) "$@") </tmp/memcg.in >/tmp/memcg.out 2>&1 &
    runs=$!
    exec 9>/tmp/memcg.in
    wait_until 30 grep -q . /tmp/memcg.out
    before=$(kernel_memory)
    echo >&9
    wait_until 60 grep -q "$word" /tmp/memcg.out || { cat /tmp/memcg.out; return 1; }
    after=$(kernel_memory)
    echo >&9
    exec 9>&-
    wait $runs
    cat /tmp/memcg.out
    echo "charged: $(((after - before) / 1024)) KiB, expected: $kb"
    [ $(((after - before) / 1024)) -ge "$kb" ]
}
# objects KIND N KB: so many objects charge so much kernel memory.
objects() { charges "$3" made objects rxe1 "$(gid 1 10.0.1.1)" "$1" "$2"; }
kernel_memory() { sed -n 's/^kernel //p' $group/memory.stat; }
# Freed memory leaves the count with some delay: it is counted in batches.
given_back() {
    for _ in $(seq $((300 * SCALE * ${PATIENCE:-1}))); do
        if [ "$(cat $group/memory.current)" -lt $((16 << 20)) ]; then return; fi
        echo 32M >$group/memory.reclaim 2>/dev/null || :
        sleep 0.1
    done
    cat $group/memory.current $group/memory.stat
    return 1
}

check "two nodes" two_nodes
mkdir -p $root
mount -t cgroup2 none $root
if ! ours rdma_rxe; then
    skip "memory is charged" "the C driver charges nobody for its queues"
elif ! grep -qw memory $root/cgroup.controllers; then
    skip "memory is charged" "this kernel has no memory cgroup (CONFIG_MEMCG)"
else
    echo +memory >$root/cgroup.subtree_control
    mkdir $group
    check "a queue pair of 24 MiB is charged" in_group charged
    check "a group with a limit of 128 MiB" bash -c "echo 128M >$group/memory.max"
    check "the largest queue pair" refused largest
    check "many queue pairs" refused many
    check "the largest shared receive queue" refused srq
    check "the memory comes back" given_back
    check "pages of a region on demand, which a worker brings" charges 12000 touched odp rxe1 "$(gid 1 10.0.1.1)" touch 1024
    check "5000 address handles" objects ah 5000 1000
    check "5000 protection domains" objects pd 5000 1000
    check "5000 regions" objects mr 5000 1000
    check "5000 windows" objects mw 5000 1000
    check "500 small queue pairs" objects qp 500 1000
    check "all memory comes back" given_back
    check "others still work" verify_pair 30 -r 3
    check "a small queue pair can be made in the group" in_group small
    check "the OOM killer was not called at all" bash -c "! dmesg | grep -E 'Memory cgroup out of memory|Out of memory:|oom-kill:'"
    check "no allocation was reported as failed" bash -c "! dmesg | grep -E 'vmalloc error|page allocation failure|SLUB: Unable to allocate'"
    rmdir $group
fi
umount $root
finish
