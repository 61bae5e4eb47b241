# SPDX-License-Identifier: GPL-2.0
# limit: 120
# MADs that programs send are charged to their memory cgroup. At its limit a write fails with ENOMEM:
# nobody is killed.
. ./ktap.sh
. ./rdma.sh

root=/tmp/memcg
group=$root/umad-test

in_group() { (echo $BASHPID >$group/cgroup.procs && exec timeout -k 5 $((60 * SCALE)) python3 ./umad_memcg.py "$group" rxe1 fd01::2 "$index" "$@"); }
events() { grep -E '^(oom|oom_kill) ' $group/memory.events; }
refused() { # BYTES
    local before hits
    before=$(events)
    hits=$(sed -n 's/^max //p' $group/memory.events)
    in_group refused "$1" || return
    echo "limit reached: $hits before, $(sed -n 's/^max //p' $group/memory.events) after"
    [ "$(sed -n 's/^max //p' $group/memory.events)" -gt "$hits" ] || return
    echo "$before, after: $(events)"
    [ "$(events)" = "$before" ]
}
given_back() {
    for _ in $(seq $((300 * SCALE))); do
        if [ "$(cat $group/memory.current)" -lt $((12 << 20)) ]; then return; fi
        echo 32M >$group/memory.reclaim 2>/dev/null || :
        sleep 0.1
    done
    cat $group/memory.current $group/memory.stat
    return 1
}

if ! ours ib_umad; then
    skip "MADs are charged" "the C ib_umad charges nobody"
    finish
fi
mkdir -p $root
mount -t cgroup2 none $root
if ! grep -qw memory $root/cgroup.controllers; then
    skip "MADs are charged" "this kernel has no memory cgroup (CONFIG_MEMCG)"
    umount $root
    finish
fi
check "two nodes" two_nodes
check "ib_umad loads" modprobe ib_umad
index=$(gid 1 fd01::1)
echo +memory >$root/cgroup.subtree_control
mkdir $group
check "a transfer of 8 MiB is charged" in_group charged $((8 << 20))
check "a group with a limit of 48 MiB" bash -c "echo 48M >$group/memory.max"
check "no room for the copy of the program's bytes" refused $((100 << 20))
check "no room for the segments" refused $((24 << 20))
check "the memory comes back" given_back
check "a transfer of 1 MiB can be sent in the group" in_group charged $((1 << 20))
check "the OOM killer was not called at all" bash -c "! dmesg | grep -E 'Memory cgroup out of memory|Out of memory:|oom-kill:'"
check "no allocation was reported as failed" bash -c "! dmesg | grep -E 'vmalloc error|page allocation failure|SLUB: Unable to allocate'"
rmdir $group
umount $root
finish
