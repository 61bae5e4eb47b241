# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# The C core and ours through the same operations, in one guest. A test sources this after
# ktap.sh and rdma.sh, and calls on_both_cores; then same_as compares what was written.
. ./kmemleak.sh

unload_core() { # MODULE...: and all of the subsystem
    local m
    for m in "$@"; do
        if [ -d "/sys/module/$m" ]; then rmmod "$m" || return; fi
    done
    unload_stack
}
load_core() {
    local m
    for m in rdma_rxe ib_uverbs rdma_ucm ib_umad; do modprobe $m || return; done
}
our_core() { load_core && loaded_as ib_core rust; }
# The C core stands in the same tree, behind ours.
c_core() { insmod "/lib/modules/$(uname -r)/kernel/drivers/infiniband/core/ib_core.ko" && load_core && loaded_as ib_core c; }
# c_ran FROM: since FROM only the C core was loaded. Where a driver fails, it may leak; that is
# not ours to answer for.
c_ran() { echo "$1 $(jiffies)" >>$c_alone; }
none_leaked() { old_leaks >/tmp/leaks && ! head -n 40 /tmp/leaks | grep .; }
run_steps() { bash "$1" "$2" >"$2.log" 2>&1 || { tail -n 20 "$2.log"; return 1; }; }

# with_fakeib NAME: ends the test where the guest does not have that driver.
with_fakeib() {
    [ "$STACK" != c ] && return
    skip "$1" "the driver fakeib is not in this guest (STACK=$STACK)"
    finish
}

# on_both_cores NAME STEPS [MODULE...]: STEPS, a script, writes into the folder that it is
# given: /tmp/ours, then /tmp/c. MODULEs are unloaded with the core. NAME is what is skipped
# if the core is not ours.
on_both_cores() {
    local name=$1 steps=$2 from
    shift 2
    if ! ours ib_core; then
        skip "$name" "the ib_core is not ours (STACK=$STACK)"
        finish
    fi
    # Both begin with the same modules, whatever tests before this one have loaded.
    check "all unloads" unload_core
    check "our core loads" our_core
    check "the steps on our core" run_steps "$steps" /tmp/ours
    check "our core unloads" unload_core "$@"
    [ ! -w "$kmemleak" ] || check "kmemleak, after our core" none_leaked
    from=$(jiffies)
    check "the C core loads" c_core
    check "the steps on the C core" run_steps "$steps" /tmp/c
    check "the C core unloads" unload_core "$@"
    c_ran "$from"
    check "our core loads again" our_core
    note "$(cat /tmp/ours/*.txt | wc -l) lines compared"
}

# Two equal files say nothing if both are those of a failure. So:
# same_as LIST COUNT: the steps left a LIST of COUNT names on either core, and each NAME.txt is
# the same on both and not empty; no wait timed out and no program was missing.
same_as() {
    local name core
    for core in c ours; do
        check "all parts of the steps ran, /tmp/$core" count_is "$2" "/tmp/$core/$1"
        check "nothing broke or was waited for in vain, /tmp/$core" unbroken /tmp/$core
    done
    while read -r name; do
        check "$name" same_files "/tmp/c/$name.txt" "/tmp/ours/$name.txt"
    done <"/tmp/c/$1"
}
same_files() { [ -s "$1" ] && diff -U 2 "$1" "$2"; }
count_is() { # COUNT FILE
    echo "$(wc -l <"$2") lines in $2, expected: $1"
    [ "$(wc -l <"$2")" = "$1" ]
}
unbroken() {
    ! grep -HE -A 8 '^never:|^Traceback|command not found|Segmentation fault|unbound variable|^(12[4-7]|13[0-9]): ' "$1"/*.txt
}
# has NAME PATTERN [COUNT]: NAME.txt of ours (which is the C core's, see same_as) has a line
# with the PATTERN; or COUNT of them.
has() {
    local n
    n=$(grep -cE -- "$2" "/tmp/ours/$1.txt")
    [ "$n" -gt 0 ] && [ "$n" = "${3:-$n}" ] && return
    echo "$n times${3:+, not $3}: $2"
    head -n 30 "/tmp/ours/$1.txt"
    return 1
}
# as_planned NAME FILE...: of the operations in the FILEs, lines "STATUS: COMMAND", those that
# failed are those that the C core refused when refused-peer.txt was written, in this order.
as_planned() {
    local name=$1
    shift
    sed -n "/^== $name\$/,/^== /p" refused-peer.txt | grep -v '^== ' >/tmp/planned
    grep -hE '^[0-9]+: ' "$@" >/tmp/done
    grep -v '^0: ' /tmp/done >/tmp/failed
    cp /tmp/failed "/share/results/$name.refused"
    echo "$(wc -l </tmp/done) operations"
    grep -q '^0: ' /tmp/done && [ -s /tmp/planned ] && diff /tmp/planned /tmp/failed
}
