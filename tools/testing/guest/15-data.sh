# SPDX-License-Identifier: GPL-2.0
# limit: 180
# short
# Mixed operations with every byte verified, on a clean wire.
. ./ktap.sh
. ./rdma.sh

check "two nodes" two_nodes 4200
check "sends" verify_pair 60 -r 20 -k 0x3
check "writes" verify_pair 60 -r 20 -k 0xc
check "reads" verify_pair 60 -r 20 -k 0x10
check "atomics" verify_pair 60 -r 20 -k 0x60
check "sends with invalidate, atomic writes, flushes" verify_pair 60 -r 20 -k 0x380
check "everything old and new" verify_pair 60 -r 20 -k 0x3ff
check "everything, across the PSN wrap" verify_pair 60 -r 40
check "everything, by completion events" verify_pair 60 -r 20 -e
check "everything, path MTU 256" verify_pair 60 -r 10 -m 256
check "everything, path MTU 4096" verify_pair 60 -r 20 -m 4096
check "large messages, up to 2 MB" verify_pair 90 -r 4 -n 4 -l 2000000
check "64 operations outstanding" verify_pair 60 -r 10 -n 64 -l 20000
finish
