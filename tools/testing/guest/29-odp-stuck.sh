# SPDX-License-Identifier: GPL-2.0
# limit: 300
# Page faults that do not end: memory on demand that is mapped from a file whose server does not
# answer. Others notice nothing, and objects, processes and devices end without the faults.
. ./ktap.sh
. ./rdma.sh

folder=/tmp/stuck
out=/tmp/stuck.out
server_out=/tmp/stuckfs.out
# Workers wait for the file on purpose.
hung=/proc/sys/kernel/hung_task_timeout_secs
before=$(cat $hung 2>/dev/null)

# A file system that answers no reads until it is thawed.
mounted() {
    rm -f $folder.thawed $folder.broken $server_out
    mkdir -p $folder
    python3 ./stuckfs.py $folder >$server_out 2>&1 &
    server=$!
    wait_until 30 grep -q mounted $server_out || { cat $server_out; return 1; }
}
thawed() { touch $folder.thawed; }
broken() { touch $folder.broken; }
server_killed() { kill -9 $server; }
unmounted() { wait_until 30 umount $folder && wait $server; }
# stuck PAIRS [MODE]: requests of the program that wait for the file.
stuck() {
    rm -f $out
    ip netns exec n1 stuck rxe1 "$(gid 1 10.0.1.1)" $folder/file "$@" >$out 2>&1 &
    user=$!
    wait_until 120 grep -q ^posted $out || { cat $out; return 1; }
}
ended() { # COMMAND... in the background, since nothing may be able to kill it
    "$@" >/tmp/ended 2>&1 &
    local runs=$! status=0
    if ! wait_until 70 not running $runs; then
        cat /proc/$runs/stack
        return 1
    fi
    wait $runs || status=$?
    cat /tmp/ended
    return $status
}
killed() {
    kill -9 $user
    wait_until 10 not running $user || { cat /proc/$user/task/*/stack; return 1; }
}
unharmed() {
    thawed
    wait_until 60 not running $user || return
    cat $out
    wait $user
}
9p_read() {
    echo 3 >/proc/sys/vm/drop_caches
    md5sum /share/tests/bin/xfer
}
no_queue_pairs() { not grep -q . <(on 1 rdma res show qp link rxe1 | grep ' type RC '); }
# ends_frozen: the program's requests end while the file cannot be read.
ends_frozen() {
    wait_until 60 not running $user || { cat $out; return 1; }
    cat $out
    wait $user
}
# Timers of soft-RoCE that expire while requests wait. None is needed: the faults wake the waiters.
no_timers() {
    local trace=/sys/kernel/tracing n
    [ -d $trace/events ] || mount -t tracefs none $trace
    echo 4096 >$trace/buffer_size_kb
    echo >$trace/trace
    echo 1 >$trace/events/timer/timer_expire_entry/enable
    echo 1 >$trace/events/timer/hrtimer_expire_entry/enable
    sleep 2
    echo 0 >$trace/events/timer/timer_expire_entry/enable
    echo 0 >$trace/events/timer/hrtimer_expire_entry/enable
    n=$(grep -c 'rdma_rxe' $trace/trace)
    echo "$n timers expired"
    [ "$n" -lt 10 ]
}

check "two nodes" two_nodes
if ! ours rdma_rxe; then
    skip "page faults that do not end" "the C driver waits for them"
    finish
fi
if [ -n "$before" ]; then echo 0 >$hung; fi
check "a file that cannot be read" mounted
check "300 requests wait for it" stuck 300
check "they do not look for it" no_timers
check "they succeed when it can" unharmed
check "it goes" unmounted

check "a file for requests that are given up" mounted
check "48 requests whose other ends fail, are reset or go" stuck 48 leave
check "they fail" ends_frozen
thawed
check "it goes as well" unmounted

check "a file that one user context has and another one reads" mounted
check "40 requests wait for it" stuck 40 owner
check "they do not look for it, either" no_timers
check "memory of the context that reads comes" wait_until 30 grep -q ^works $out
check "they succeed when the file can be read" unharmed
check "this one goes, too" unmounted

check "a file with errors" mounted
check "64 requests wait for it, too" stuck 64 broken
check "its reads fail" broken
check "so do they" ends_frozen
check "a file with errors goes" unmounted
check "a file whose server dies" mounted
check "64 requests wait for that" stuck 64 broken
check "the server is killed" server_killed
check "they fail with it" ends_frozen
check "its mount goes" wait_until 30 umount $folder

check "a file for queue pairs that are used again" mounted
check "8 requests wait for it" stuck 8 again
check "reset queue pairs do not" ends_frozen
thawed
check "it goes for them" unmounted

check "a file for a process that is killed" mounted
check "32 requests wait for it" stuck 32
check "their process can be killed" killed
thawed
check "its queue pairs go with the faults" wait_until 10 no_queue_pairs
check "and it, too" unmounted

check "another one" mounted
check "2100 requests wait for it" stuck 2100
check "unrelated work of the kernel goes on" ended 9p_read
check "memory on demand of others comes" ended verify_pair 60 -O -T 18 -r 3
check "the process can be killed" killed
check "memory on demand of others comes still" ended verify_pair 60 -O -T 18 -r 3
check "the device can be removed" ended ip netns exec n1 rdma link del rxe1
check "and added again" ip netns exec n1 rdma link add rxe1 type rxe netdev v1
check "and works" verify_pair 60 -O -T 18 -r 3

check "64 requests wait for it" stuck 64
check "the device can be removed while the program runs" ended ip netns exec n1 rdma link del rxe1
check "the program can be killed" killed
check "a veth to the namespace" ip link add w0 type veth peer name w1 netns n1
check "the namespaces go" two_nodes_gone
check "with the network devices in them" wait_until 30 not test -e /sys/class/net/w0
thawed
check "it goes, too" unmounted
check "two nodes again" two_nodes
check "they work" verify_pair 60 -O -T 18 -r 3
if [ -n "$before" ]; then echo "$before" >$hung; fi
check "the devices' end" two_nodes_gone
finish
