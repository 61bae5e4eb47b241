# SPDX-License-Identifier: GPL-2.0
# limit: 240
# perftest's programs, as they are shipped.
. ./ktap.sh
. ./rdma.sh

check "two nodes" two_nodes 4200
check "ib_send_bw" pair 30 v4 ib_send_bw -s 4096 -n 200
check "ib_write_bw" pair 30 v4 ib_write_bw -s 65536 -n 50
check "ib_read_bw" pair 30 v4 ib_read_bw -s 65536 -n 50
check "ib_atomic_bw, fetch and add" pair 30 v4 ib_atomic_bw -n 200 -A FETCH_AND_ADD
check "ib_atomic_bw, compare and swap" pair 30 v4 ib_atomic_bw -n 200 -A CMP_AND_SWAP
check "ib_send_lat" pair 30 v4 ib_send_lat -s 64 -n 100
check "ib_write_lat" pair 30 v4 ib_write_lat -s 64 -n 100
check "ib_read_lat" pair 30 v4 ib_read_lat -s 64 -n 100
check "ib_atomic_lat" pair 30 v4 ib_atomic_lat -n 100
check "ib_send_bw, events" pair 30 v4 ib_send_bw -s 4096 -n 200 -e
check "ib_send_bw, both directions" pair 30 v4 ib_send_bw -s 4096 -n 100 -b
check "ib_send_bw, 4 queue pairs" pair 40 v4 ib_send_bw -s 4096 -n 100 -q 4
check "ib_write_bw, 4 queue pairs" pair 40 v4 ib_write_bw -s 65536 -n 25 -q 4
check "ib_send_bw, UC" pair 30 v4 ib_send_bw -c UC -s 4096 -n 200
check "ib_write_bw, UC" pair 30 v4 ib_write_bw -c UC -s 4096 -n 200
check "ib_send_bw, UD" pair 30 v4 ib_send_bw -c UD -s 1024 -n 200
check "ib_send_bw, shared receive queue" pair 40 v4 ib_send_bw -s 4096 -n 100 -q 2 -r 128 --use-srq
check "ib_write_bw over IPv6" pair 30 v6 ib_write_bw -s 65536 -n 25
check_with rdma_ucm "ib_send_bw through rdma_cm" pair 30 v4 ib_send_bw -R -s 4096 -n 100
finish
