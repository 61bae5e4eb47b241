# SPDX-License-Identifier: GPL-2.0
# limit: 120
# short
# Rows of the verbs that the stock programs never touch: memory windows, atomic writes,
# flushes, inline data, changed regions; completion queues resized, overrun, waited for;
# drained send queues; queues that are made of others' memory; resets while something fails.
. ./ktap.sh
. ./rdma.sh

# program NAME ARG...: a program of src, whose lines are results.
program() {
    local status=0
    within 100 ip netns exec n1 "$1" rxe1 "$(gid 1 10.0.1.1)" "${@:2}" >/tmp/out 2>&1 || status=$?
    cases_of "$1" $status /tmp/out
}

check "two nodes" two_nodes
whose=()
if ours rdma_rxe; then whose=(ours); fi
program memory "${whose[@]}"
program completions
program resets
program again "${whose[@]}"
check "the devices' end" two_nodes_gone
finish
