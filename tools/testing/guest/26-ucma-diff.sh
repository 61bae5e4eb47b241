# SPDX-License-Identifier: GPL-2.0
# limit: 600
# Commands of programs to rdma_ucm that are almost right, in each state of a context, the same ones to
# the C module and to ours, in one guest: each must be answered alike, but for ucma-differences.txt. If
# the rdma_cm is ours, too, the C module rdma_ucm is above the C module rdma_cm.
. ./ktap.sh
. ./rdma.sh

if ! ours rdma_ucm; then
    skip "commands to both modules" "the rdma_ucm is not ours (STACK=$STACK)"
    finish
fi

out=/tmp/ucma
mkdir -p $out
kernel=/lib/modules/$(uname -r)/kernel/drivers/infiniband/core
both=rdma_ucm
if ours rdma_cm; then both="rdma_ucm rdma_cm"; fi
c_ucma() {
    # shellcheck disable=SC2086
    rmmod $both || return
    if ours rdma_cm; then insmod $kernel/rdma_cm.ko && loaded_as rdma_cm c || return; fi
    insmod $kernel/rdma_ucm.ko && loaded_as rdma_ucm c
}
our_ucma() {
    # shellcheck disable=SC2086
    rmmod $both && modprobe rdma_ucm && loaded_as rdma_ucm rust && as_asked rdma_cm
}

answers() { # FILE
    # shellcheck disable=SC2086
    within 240 python3 ./ucma_answers.py 26 "$words" $states >"$1" 2>"$1.log" || { tail -n 12 "$1.log"; tail -n 3 "$1"; return 1; }
    cp "$1" "/share/results/ucma-${1#"$out"/}.log"
    [ "$(tail -n 1 "$1")" = end ]
}
same_answers() {
    local file
    grep -v '^#' ucma-differences.txt | cut -f 1 | grep . >"$out/allowed" || :
    echo '^$' >>"$out/allowed"
    # Both kinds must be among them, or nothing was compared.
    grep -qE "^$reached: .* -> [0-9]" "$out/c" && grep -qE "^$reached: .* -> E" "$out/c" || return
    for file in c ours; do grep -vEf "$out/allowed" "$out/$file" >"$out/$file.compared"; done
    diff -U 0 "$out/c.compared" "$out/ours.compared" | head -n 60 >"$out/differ"
    cat "$out/differ"
    [ ! -s "$out/differ" ]
}

words=1
[ "$KERNEL" = fast ] || words=0
states=
reached=connected
if ! ours ib_core || ! ours ib_cm; then
    # With the C ib_core and ib_cm, ib_destroy_cm_id may wait for ever if a program closes its file
    # while it connects, also below the C rdma_ucm.
    states="new datagram bound bound_datagram joined anywhere listening resolved routed"
    reached=routed
fi

check "two nodes" two_nodes
check "rdma_ucm loads" modprobe rdma_ucm
for one in ours c; do
    check "the module is loaded: $one" "${one/ours/our}_ucma"
    check "commands: $one" answers "$out/$one"
done
check "answers alike" same_answers
check "our module is loaded again" our_ucma
note "$(wc -l <"$out/ours") answers compared, of them $(grep -cE -- '-> E' "$out/ours") refusals"
finish
