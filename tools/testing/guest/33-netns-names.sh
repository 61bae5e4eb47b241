# SPDX-License-Identifier: GPL-2.0
# limit: 900
# Names of devices in namespaces of exclusive mode: moved, renamed, both at a time, and what is
# refused, in which words. The C core of this kernel says what is right: up to 7.2 a name is unique in
# the system, later in a namespace.
. ./ktap.sh
. ./rdma.sh
. ./two_cores.sh
export SCALE

on_both_cores "the same names on both cores" ./names_steps.sh
same_as parts 8
check "nothing was waited for at the end" not grep -H '^never:' /tmp/ours/end.txt /tmp/c/end.txt

if grep -qx names_per_netns features; then
    check "a file that is no namespace is refused in words" has refusals 'EBADF Invalid target net namespace fd$' 6
    check "a device is moved and named" has moves '^init: d0 to=a name=dup: done$'
    check "two devices have one name" has moves '^b: d1 name=dup: done$'
    check "where its name is in use, a device is not moved" has moves 'EEXIST Device name already exists in the target net namespace$'
    check "a device is made by the name of one elsewhere" has links '^0: init: rdma link add dup '
    check "numbers are taken in each namespace" has patterns '^init has .*count0\('
    check "a driver that cannot move is told of" has patterns 'ENOTSUP Device does not support namespace changes'
    check "a namespace ends, and its device gets another name" has ends '^init has .*ibdev[0-9]*\([0-9]*\)'
    check "shared devices are not moved, in words" has in_shared_mode 'ENOTSUP Cannot change net namespace of RDMA device in shared netns mode$'
else
    check "a file that is no namespace is refused" has refusals '^init: d0 : (EBADF|EINVAL) $' 4
    check "a request that moves and names only names" has moves '^init has dup\('
    check "a name is in use in the whole system" has moves '^b: d1 name=dup: EEXIST $'
    check "also for a device that is made" has links '^1: init: rdma link add dup '
    check "numbers are taken in the system" has patterns '^init has .*count3\('
    check "shared devices are not moved" has in_shared_mode '^init: d0 to=a: ENOTSUP $'
fi

storm() {
    local status=0
    wait_until 60 rdma system set netns exclusive || return
    ip netns add a && ip netns add b || return
    timeout $((10 * STORM + 240 * SCALE)) python3 ./netns_storm.py "$STORM" "$seed" || status=$?
    ip netns del a && ip netns del b && wait_until 60 rdma system set netns shared || return
    return $status
}
STORM=${STORM:-20}
seed=${STORM_SEED:-$(date +%s)}
note "seed $seed (STORM_SEED= repeats it)"
check "moves and names from all namespaces while devices and namespaces come and go" storm
finish
