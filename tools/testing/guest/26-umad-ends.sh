# SPDX-License-Identifier: GPL-2.0
# limit: 300
# Devices that go while programs wait for MADs or for a subnet manager's node, agents that come and
# go in many threads, and programs that are killed. The C module hangs or dies in some of these.
. ./ktap.sh
. ./rdma.sh

if ! ours ib_umad; then
    skip "the ends of files of ib_umad" "the ib_umad is not ours (STACK=$STACK)"
    finish
fi
export SCALE

is_manager() { # DEVICE: the bit IsSM of its port
    [ $(($(cat "/sys/class/infiniband/$1/ports/1/cap_mask") & 2)) = 2 ]
}
node() { basename "$(dirname "$(grep -lx "$2" /sys/class/infiniband_mad/$1*/ibdev)")"; }

manager_killed() {
    local pid path
    path=/dev/infiniband/$(node issm fakeib0)
    [ -c "$path" ] || { echo "$path is no device"; return 1; }
    if is_manager fakeib0; then echo "a manager before it is opened"; return 1; fi
    sleep 120 3<"$path" &
    pid=$!
    wait_until 30 is_manager fakeib0 || return
    kill -9 $pid
    wait $pid
    wait_until 30 not is_manager fakeib0
}
# Two managers: the second gets the node when the first goes, and then the bit stays.
manager_waits() {
    local first second path
    path=/dev/infiniband/$(node issm fakeib0)
    sleep 120 3<"$path" &
    first=$!
    wait_until 30 is_manager fakeib0 || return
    bash -c "exec 3<$path && exec sleep 120" &
    second=$!
    sleep 1
    [ "$(readlink /proc/$second/fd/3)" != "$path" ] || { echo "two have it"; return 1; }
    kill -9 $first
    wait $first
    wait_until 30 has_it $second "$path" || return
    is_manager fakeib0 || return
    kill -9 $second
    wait $second
    wait_until 30 not is_manager fakeib0
}
has_it() { [ "$(readlink "/proc/$1/fd/3")" = "$2" ]; }

# A program outside the device's namespace, which is not shared.
other_namespace() {
    local status=0
    rdma system set netns exclusive || return
    ip netns add elsewhere
    refused_as 'Operation not permitted' ip netns exec elsewhere \
        bash -c "exec 3<>/dev/infiniband/$(node umad fakeib0)" || status=1
    refused_as 'Operation not permitted' ip netns exec elsewhere \
        bash -c "exec 3</dev/infiniband/$(node issm fakeib0)" || status=1
    ip netns del elsewhere
    rdma system set netns shared
    return $status
}

races() { within 150 python3 ./umad_races.py "${DURATION:-20}" fakeib0 rxe1 | tee /tmp/races && grep -qx end /tmp/races; }
no_report() {
    dmesg -t >/tmp/said && grep -qF "$began" /tmp/said || { echo "the log has lost its beginning"; return 1; }
    ! sed "1,/^$began\$/d" /tmp/said | grep -E 'BUG|WARNING|leak'
}
began="26-umad-ends $$ begins"
echo "$began" >/dev/kmsg

check "ib_umad loads" modprobe ib_umad
check "fakeib loads" modprobe fakeib
# First: while there are other namespaces, the mode cannot be changed.
check "not from another namespace" other_namespace
check "two nodes" two_nodes
check "a manager that is killed" manager_killed
check "a second manager waits" manager_waits
check "agents come and go in many threads" races
within 100 python3 ./umad_untold.py rxe1 rxe2 fd01::1 "$(gid 2 fd01::2)" >/tmp/untold
cases_of umad_untold.py $? /tmp/untold
within 150 python3 ./umad_ends.py fakeib0 rmmod fakeib >/tmp/ends
cases_of umad_ends.py $? /tmp/ends
check "ib_umad unloads" rmmod ib_umad
check "ib_umad loads again" modprobe ib_umad
check "no report of the kernel" no_report
finish
