# SPDX-License-Identifier: GPL-2.0
# limit: 180
# short: um um-lockdep stock stock-7.3
# Programs over the connection manager.
. ./ktap.sh
. ./rdma.sh

check "two nodes" two_nodes
check_with rdma_ucm "rping -V" meet 40 rping -s -V -C 30 -a 10.0.1.2 -- rping -c -V -C 30 -a 10.0.1.2
check_with rdma_ucm "rping -V, 60 kB" meet 40 rping -s -V -C 10 -S 60000 -a 10.0.1.2 -- rping -c -V -C 10 -S 60000 -a 10.0.1.2
check_with rdma_ucm "rping -V over IPv6" meet 40 rping -s -V -C 20 -a fd01::2 -- rping -c -V -C 20 -a fd01::2
check_with rdma_ucm "ucmatose" meet 40 ucmatose -b 10.0.1.2 -- ucmatose -s 10.0.1.2
check_with rdma_ucm "udaddy" meet 40 udaddy -b 10.0.1.2 -- udaddy -s 10.0.1.2
check_with rdma_ucm "rdma_server, rdma_client" meet 40 rdma_server -- rdma_client -s 10.0.1.2
check_with rdma_ucm "rstream" meet 60 rstream -b 10.0.1.2 -S 4096 -I 50 -C 5 -- rstream -S 4096 -I 50 -C 5 -s 10.0.1.2
check_with rdma_ucm "cmtime, 20 connections" meet 60 cmtime -b 10.0.1.2 -c 20 -- cmtime -c 20 -s 10.0.1.2
finish
