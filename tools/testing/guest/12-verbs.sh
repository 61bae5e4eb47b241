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
    local line status
    within 100 ip netns exec n1 "$1" rxe1 "$(gid 1 10.0.1.1)" "${@:2}" >/tmp/out 2>&1
    status=$?
    while read -r line; do
        case $line in
        "ok "*) ktap_result ok "${line#ok }" ;;
        "not ok "*) echo "$line" >/tmp/why; line=${line#not ok }; ktap_result "not ok" "${line%%:*}" /tmp/why ;;
        *) note "$line" ;;
        esac
    done </tmp/out
    check "$1 came to its end" test $status -le 1
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
