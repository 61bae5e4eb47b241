# SPDX-License-Identifier: GPL-2.0
# limit: 600
# Calls of other modules to rdma_cm and ib_cm, right and wrong, in each state of an ID (the module cmcalls),
# the same ones to the C modules and to ours, in one guest: each must be answered alike, but for
# cm-differences.txt.
. ./ktap.sh
. ./rdma.sh

if ! ours ib_core || { ! ours rdma_cm && ! ours ib_cm; }; then
    skip "calls to both modules" "neither rdma_cm nor ib_cm is ours, on a core of ours (STACK=$STACK)"
    finish
fi

kernel=/lib/modules/$(uname -r)/kernel/drivers/infiniband/core
gone() {
    local module
    for module in cmcalls rdma_ucm rdma_cm ib_cm; do
        [ ! -d /sys/module/$module ] || within 60 rmmod $module || return
    done
}
modules_c() { gone && insmod $kernel/ib_cm.ko && insmod $kernel/rdma_cm.ko && loaded_as ib_cm c && loaded_as rdma_cm c; }
modules_ours() { gone && modprobe rdma_cm && as_asked ib_cm rdma_cm; }
# What is asked of addresses must not depend on how soon.
settled() { [ -z "$(ip -6 addr show tentative)" ]; }
ground() {
    two_nodes_gone || return
    ip link add e0 type veth peer name e1 && ip link set e0 up && ip link set e1 up || return
    ip addr add 10.0.1.2/24 dev e0 && rdma link add echo0 type rxe netdev e0 && as_asked ib_core rdma_rxe &&
        wait_until 30 settled
}
answers() { # FILE
    within 280 modprobe cmcalls seed=26 calls="$calls" || return
    cat /sys/kernel/debug/cmcalls/answers >"$1" && cp "$1" "/share/results/cm-calls${1#/tmp/calls}.log" && rmmod cmcalls
    [ "$(tail -n 1 "$1")" = end ]
}
reached() { # FILE
    ! grep 'is not reached\|is not told' "$1"
}
same_answers() {
    local file
    grep -v '^#' cm-differences.txt | cut -f 1 | grep . >/tmp/allowed || :
    echo '^$' >>/tmp/allowed
    for file in c ours; do grep -vEf /tmp/allowed "/tmp/calls-$file" >"/tmp/calls-$file.compared"; done
    # Both kinds of answers must be among them, in the last states, or nothing was compared.
    for file in 'passive: .* -> 0' 'passive: .* -> -22' 'ud-requested: .* -> 0' 'ib active: .* -> 0' 'ib dreq-rcvd: .* -> -22'; do
        grep -qE "^$file" /tmp/calls-ours.compared || { echo "missing: $file"; return 1; }
    done
    diff -U 0 /tmp/calls-c.compared /tmp/calls-ours.compared | head -n 60 >/tmp/differ
    cat /tmp/differ
    [ ! -s /tmp/differ ]
}
cleared() { gone && rdma link del echo0 && ip link del e0; }

calls=48
[ "$KERNEL" = fast ] || calls=24
check "a device" ground
for one in ours c; do
    check "the modules are loaded: $one" modules_$one
    check "calls: $one" answers "/tmp/calls-$one"
    check "all states are reached: $one" reached "/tmp/calls-$one"
done
check "answers alike" same_answers
note "$(grep -c -- '->' /tmp/calls-ours) answers compared, of them $(grep -cE -- '-> -[0-9]' /tmp/calls-ours) refusals"
check "all go" cleared
finish
