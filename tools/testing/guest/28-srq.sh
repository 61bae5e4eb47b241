# SPDX-License-Identifier: GPL-2.0
# limit: 180
# Shared receive queues: sizes, limits, and resizing in the middle of traffic.
. ./ktap.sh
. ./rdma.sh

check "two nodes" two_nodes
check "sizes, limits, resizing" within 120 ip netns exec n1 srq rxe1 "$(gid 1 10.0.1.1)"
check "the devices' end" two_nodes_gone
finish
