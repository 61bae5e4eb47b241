# SPDX-License-Identifier: GPL-2.0
# limit: 1000
# What kernel consumers ask the subnet administrator: paths, by it or by a local service, and
# multicast groups; with managers that go and links that fail. sa_steps.sh must show the same
# on the C core and on ours.
. ./ktap.sh
. ./rdma.sh
. ./two_cores.sh

with_fakeib "subnet administration on both cores"
on_both_cores "subnet administration on both cores" ./sa_steps.sh fakeib
same_as names 7
received='3 packets transmitted, 3 received'
check "IPoIB finds a path" has up "$received" 1
check "groups of IPoIB" has memberships 'ff12:401b'
check "rdma_cm joins, also as one who only sends" has multicast '^return status 0' 3
check "with a local service that answers, sends rubbish, fails, or is silent" has local_paths "$received" 4
check "datagrams of rdma_cm with each of them" has local_paths '^return status 0' 8
check "the local service is asked for paths" has local_paths '^path fakeib0 1 '
check "a manager that has forgotten" has manager_goes "$received" 1
check "links that fail" has events "$received" 4
check "nobody waits for the service" has gone '^in time$'
check "the driver goes" has gone '^0: rmmod fakeib$'
finish
