# SPDX-License-Identifier: GPL-2.0
# limit: 400
# Counters of every kind, and all files of a device, with a driver of our own on the C core
# and on ours: count_steps.sh must show the same.
. ./ktap.sh
. ./rdma.sh
. ./two_cores.sh

on_both_cores "counters on both cores" ./count_steps.sh countdev
same_as names 6
check "what was refused" as_planned 09-core-counters /tmp/ours/{files,optional,manual,automatic,agents,refused}.txt
check "the driver loads" has files '^0: modprobe countdev$'
check "counters of a port" has files 'hw_counters/port_a: '
check "an optional counter is on" has optional 'optional_x'
check "a counter bound by hand" has manual '^0: rdma statistic qp bind .* lqpn 5$'
check "counters bound by themselves" has automatic '^0: rdma statistic qp set .* auto type on$'
finish
