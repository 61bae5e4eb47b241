# SPDX-License-Identifier: GPL-2.0
# limit: 180
# The rdma cgroup: what a process holds of a device is counted, a limit is kept to, and all
# is given back when the process or the device goes.
. ./ktap.sh
. ./rdma.sh

root=/tmp/cgroup
group=$root/rdma-test

in_group() { echo $BASHPID >$group/cgroup.procs && exec python3 ./cgroup.py "$@"; }
try() { (in_group "$@"); }
# The kernel ends its lines with a space.
lines() { sed 's/ *$//' "$group/rdma.$1"; }
current() { lines current | grep "^$1 "; }
set_max() { echo "$*" >$group/rdma.max && lines max | grep -x "$*"; }
# holding EXPECTED ARG...: what is counted while a process holds as much, and after it.
holding() {
    local expected=$1 pid status=0
    shift
    rm -f /tmp/holds
    in_group "$@" /tmp/holds &
    pid=$!
    wait_until 60 test -e /tmp/holds
    current rxe1 | tee /tmp/current
    grep -qx "rxe1 $expected" /tmp/current || status=1
    kill -9 $pid
    wait $pid
    wait_until 30 nothing_held && return $status
    echo "after the process: $(current rxe1)"
    return 1
}
nothing_held() { current rxe1 | grep -q 'hca_handle=0 hca_object=0'; }
# A group's own group cannot have more than it.
nested() {
    echo +rdma >$group/cgroup.subtree_control && mkdir $group/inner && echo "rxe1 hca_handle=9 hca_object=max" >$group/inner/rdma.max || return
    (echo $BASHPID >$group/inner/cgroup.procs && exec python3 ./cgroup.py refused 1 5)
    local status=$?
    rmdir $group/inner
    echo -rdma >$group/cgroup.subtree_control
    return $status
}
gone() {
    lines max | grep '^rxe2 ' && on 1 rdma link del rxe1 || return
    grep '' $group/rdma.max $group/rdma.current >/tmp/lines
    cat /tmp/lines
    ! grep ':rxe1 ' /tmp/lines
}
back_again() {
    on 1 rdma link add rxe1 type rxe netdev v1 || return
    if lines max | grep "^rxe1 " | grep -v "hca_handle=max hca_object=max"; then return 1; fi
    current rxe1
    try holds 2 5
}

check "two nodes" two_nodes
mkdir -p $root
mount -t cgroup2 none $root
echo +rdma >$root/cgroup.subtree_control
check "a group" mkdir $group
check "no limit: nothing is refused" try holds 4 12
check "a limit is taken and shown" set_max rxe1 hca_handle=2 hca_object=4
check "as much as the limit" try holds 2 4
check "one context too many: EAGAIN" try refused 3 0
check "one object too many: EAGAIN" try refused 1 5
check "the other device has no limit" try holds-other 4 12
check "counted, and given back when the process is killed" holding "hca_handle=2 hca_object=3" keeps 2 3
check "a limit of no device" refused_as 'No such device' bash -c "echo 'nobody hca_handle=2' >$group/rdma.max"
check "a limit of no resource" refused_as 'Invalid argument' bash -c "echo 'rxe1 hca_thing=2' >$group/rdma.max"
check "a limit below zero" refused_as 'Invalid argument' bash -c "echo 'rxe1 hca_handle=-1' >$group/rdma.max"
check "a limit of the group above holds below" nested
check "the device goes, and its lines go" gone
check "it comes back without limits" back_again
rmdir $group
umount $root
finish
