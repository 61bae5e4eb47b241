# SPDX-License-Identifier: GPL-2.0
# limit: 180
# Devices below a device (rdma dev add) while it is moved between namespaces, and while it is
# unregistered. The C core waits in a move until the last of them is deleted.
# fakeib makes them in the initial namespace.
. ./ktap.sh
. ./rdma.sh

if ! ours ib_core; then
    skip "moves, and devices below a device" "the C core waits for these for ever"
    finish
fi

add() { rdma dev add smi0 type SMI parent fakeib0; }
del() { rdma dev del smi0; }
add_and_del() { add && del; }
here() { rdma dev show fakeib0; }
set_up() {
    wait_until 60 rdma system set netns exclusive || return
    ip netns add n1 && ip netns add n2 && ip netns attach first $$ && modprobe fakeib adapters=1 && here
}
# A move would delete what is below.
keeps() {
    add || return
    refused_as 'busy' rdma dev set fakeib0 netns n1 || return
    rdma dev show smi0 && del
}
moved() {
    rdma dev set fakeib0 netns n1 && on 1 rdma dev add smi0 type SMI parent fakeib0 || return
    del && on 1 rdma dev set fakeib0 netns first && add_and_del
}
# One of the two moves comes too late. It must change nothing.
two_movers() {
    local i n
    for i in {1..40}; do
        for n in n1 n2; do rdma dev set fakeib0 netns $n 2>/dev/null & done
        wait
        for n in 1 2; do on $n rdma dev set fakeib0 netns first 2>/dev/null; done
        add_and_del || { echo "after $i pairs"; return 1; }
    done
}
# The namespace goes, with a device below the device that comes back.
namespace_goes() {
    rdma dev set fakeib0 netns n1 && on 1 rdma dev add smi0 type SMI parent fakeib0 && ip netns del n1 || return
    wait_until 30 here && add_and_del
}
# Moves end, devices below are asked for, and the device is unregistered.
unregistered() {
    local i jobs=()
    for i in {1..12}; do
        modprobe fakeib adapters=1 && here >/dev/null || return
        jobs=()
        while here; do rdma dev set fakeib0 netns n2; on 2 rdma dev set fakeib0 netns first; done >/dev/null 2>&1 &
        jobs+=($!)
        while [ -e /sys/module/fakeib ]; do add; done >/dev/null 2>&1 &
        jobs+=($!)
        wait_until 30 rmmod fakeib || return
        # The exit status of these loops does not matter.
        wait "${jobs[@]}" || :
    done
}
# Also where a case has failed: the tests after this one use the shared mode.
shared_again() {
    local n
    [ ! -d /sys/module/fakeib ] || wait_until 30 rmmod fakeib || return
    for n in n1 n2 first; do [ ! -e /run/netns/$n ] || ip netns del $n || return; done
    wait_until 60 rdma system set netns shared
}

check "a device in exclusive mode" set_up
check "a move is refused while there is one below" keeps
check "it can be added after a move" moved
check "two movers" two_movers
check "its namespace goes" namespace_goes
check "it is unregistered meanwhile" unregistered
check "the end" shared_again
finish
