# SPDX-License-Identifier: GPL-2.0
# limit: 120
# icount
# The pages of many mappings are taken away, those of one process between those of another. The cost
# must grow as their number; the guest's time is counted in instructions, however busy the machine is.
. ./ktap.sh
. ./rdma.sh

if ! modinfo fakeverbs >/dev/null 2>&1; then
    skip "mappings of two processes" "the driver fakeverbs is not in this guest (STACK=$STACK)"
    finish
fi

verbs() {
    local status=0
    python3 ./fakeverbs.py "$1" >"/tmp/verbs-$1" 2>&1 || status=$?
    cases_of "fakeverbs.py $1" "$status" "/tmp/verbs-$1" ""
}

check "the driver loads" modprobe fakeverbs
check "it has a node" wait_until 10 has_node fakeverbs0
verbs zap
check "the driver unloads" wait_until 10 rmmod fakeverbs
finish
