# SPDX-License-Identifier: GPL-2.0
# limit: 600
# What kernel consumers ask the subnet administrator: paths, by it or by a local service, and
# multicast groups; with managers that go and links that fail. sa_steps.sh must show the same
# on the C core and on ours.
. ./ktap.sh
. ./rdma.sh
. ./two_cores.sh

with_fakeib "subnet administration on both cores"
on_both_cores "subnet administration on both cores" ./sa_steps.sh fakeib
same_as names 7
finish
