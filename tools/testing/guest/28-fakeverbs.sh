# SPDX-License-Identifier: GPL-2.0
# limit: 200
# User verbs of every kind, with a driver of our own and without a library: fakeverbs.py makes
# what the driver then says it was asked for. On our core, then on the C core.
. ./ktap.sh
. ./rdma.sh
. ./two_cores.sh

if ! modinfo fakeverbs >/dev/null 2>&1; then
    skip "user verbs of every kind" "the driver fakeverbs is not in this guest (STACK=$STACK)"
    finish
fi

verbs() { # CORE PART
    local status=0
    within 60 python3 ./fakeverbs.py "$2" >"/tmp/verbs-$2" 2>&1 || status=$?
    cases_of "fakeverbs.py $2" "$status" "/tmp/verbs-$2" "$1, $2: "
}
wrong_definition() {
    modprobe fakeverbs wrong_def=1 || return
    [ -e /sys/class/infiniband/fakeverbs0 ] && not has_node fakeverbs0 && rmmod fakeverbs
}
steps() { # CORE
    check "$1: the driver loads" modprobe fakeverbs
    check "$1: it has a node" wait_until 10 has_node fakeverbs0
    for part in objects events unregister; do verbs "$1" $part; done
    # The C ib_uverbs leaves events that refer to handles which are gone.
    [ "$1" = "C core" ] || verbs "$1" forget
    check "$1: the driver unloads" wait_until 10 rmmod fakeverbs
    check "$1: a wrong definition gives no node" wrong_definition
}

if ours ib_core; then
    check "all unloads" unload_core
    check "our core loads" our_core
    steps "our core"
    check "our core unloads" unload_core fakeverbs
    check "the C core loads" c_core
    steps "C core"
    check "the C core unloads" unload_core fakeverbs
    check "our core loads again" our_core
else
    steps "C core"
fi
finish
