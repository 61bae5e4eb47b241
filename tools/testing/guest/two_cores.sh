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
# The C core stands in the same tree, behind ours.
load_c_core() { insmod "/lib/modules/$(uname -r)/kernel/drivers/infiniband/core/ib_core.ko" && load_core; }
load_core() {
    local m
    for m in rdma_rxe ib_uverbs rdma_ucm ib_umad; do modprobe $m || return; done
}
none_leaked() { old_leaks >/tmp/leaks && ! head -n 40 /tmp/leaks | grep .; }
run_steps() { bash "$1" "$2" >"$2.log" 2>&1 || { tail -n 20 "$2.log"; return 1; }; }

# with_fakeib NAME: ends the test where the guest does not have that driver.
with_fakeib() {
    modprobe -n fakeib 2>/dev/null && return
    skip "$1" "the driver fakeib is not in this guest (STACK=$STACK)"
    finish
}

# on_both_cores NAME STEPS [MODULE...]: STEPS, a script, writes into the folder that it is
# given: /tmp/ours, then /tmp/c. MODULEs are unloaded with the core. NAME is what is skipped
# if the core that is loaded is not ours.
on_both_cores() {
    local name=$1 steps=$2 from
    shift 2
    case " $(stack | awk '$2 == "rust" { print $1 }' | xargs) " in
    *" ib_core "*) ;;
    *)
        skip "$name" "the ib_core loaded is not ours (STACK=$STACK)"
        finish
        ;;
    esac
    # Both begin with the same modules, whatever tests before this one have loaded.
    check "all unloads" unload_core
    check "our core loads" load_core
    check "the steps on our core" run_steps "$steps" /tmp/ours
    check "our core unloads" unload_core "$@"
    [ ! -w "$kmemleak" ] || check "kmemleak, after our core" none_leaked
    from=$(jiffies)
    check "the C core loads" load_c_core
    check "the steps on the C core" run_steps "$steps" /tmp/c
    check "the C core unloads" unload_core "$@"
    # Where a driver fails, the C core may leak; that is not ours to answer for.
    echo "$from $(jiffies)" >>$c_alone
    check "our core loads again" load_core
    note "$(cat /tmp/ours/*.txt | wc -l) lines compared"
}

# same_as LIST: each NAME of the LIST that the steps left has the same NAME.txt on both.
same_as() {
    local name
    while read -r name; do
        check "$name" diff -U 2 "/tmp/c/$name.txt" "/tmp/ours/$name.txt"
    done <"/tmp/c/$1"
}
