# SPDX-License-Identifier: GPL-2.0
# limit: 240
# Counters of every kind, and all files of a device, with a driver of our own on the C core
# and on ours: count_steps.sh must show the same.
. ./ktap.sh
. ./rdma.sh
. ./two_cores.sh

on_both_cores "counters on both cores" ./count_steps.sh countdev
same_as names
finish
