# SPDX-License-Identifier: GPL-2.0
# limit: 180
# short: um
# Programs over the connection manager.
. ./ktap.sh
. ./rdma.sh

# cm LIMIT ADDRESS SERVER-COMMAND -- CLIENT-COMMAND: a pair that meets through rdma_cm.
cm() {
    local limit=$1 address=$2 server=() status=0 server_status=0 pid
    shift 2
    while [ "$1" != -- ]; do server+=("$1"); shift; done
    shift
    within "$limit" ip netns exec n2 "${server[@]}" >/tmp/cm-server 2>&1 &
    pid=$!
    accepting 2
    within "$limit" ip netns exec n1 "$@" "$address" || status=$?
    [ $status = 0 ] || kill $pid 2>/dev/null
    wait $pid || server_status=$?
    [ "$status$server_status" = 00 ] || { echo "client $status, server $server_status"; cat /tmp/cm-server; return 1; }
}

check "two nodes" two_nodes
check_with rdma_ucm "rping -V" cm 40 10.0.1.2 rping -s -V -C 30 -a 10.0.1.2 -- rping -c -V -C 30 -a
check_with rdma_ucm "rping -V, 60 kB" cm 40 10.0.1.2 rping -s -V -C 10 -S 60000 -a 10.0.1.2 -- rping -c -V -C 10 -S 60000 -a
check_with rdma_ucm "rping -V over IPv6" cm 40 fd01::2 rping -s -V -C 20 -a fd01::2 -- rping -c -V -C 20 -a
check_with rdma_ucm "ucmatose" cm 40 10.0.1.2 ucmatose -b 10.0.1.2 -- ucmatose -s
check_with rdma_ucm "udaddy" cm 40 10.0.1.2 udaddy -b 10.0.1.2 -- udaddy -s
check_with rdma_ucm "rdma_server, rdma_client" cm 40 10.0.1.2 rdma_server -- rdma_client -s
check_with rdma_ucm "rstream" cm 60 10.0.1.2 rstream -b 10.0.1.2 -S 4096 -I 50 -C 5 -- rstream -S 4096 -I 50 -C 5 -s
check_with rdma_ucm "cmtime, 20 connections" cm 60 10.0.1.2 cmtime -b 10.0.1.2 -c 20 -- cmtime -c 20 -s
finish
