# SPDX-License-Identifier: GPL-2.0
# limit: 150
# iWARP: siw, the kernel's software driver (C), on the core that is loaded, through iw_cm and
# rdma_cm. Its connections are TCP's, so every step is another path than RoCE's.
. ./ktap.sh
. ./rdma.sh

# The ground of two_nodes, with siw on the interfaces in place of soft-RoCE.
two_siw() {
    local i
    two_nodes && modprobe siw || return
    for i in 1 2; do on $i rdma link del rxe$i && on $i rdma link add siw$i type siw netdev v$i || return; done
    on 1 ibv_devinfo -d siw1 | grep -q 'transport:.*iWARP'
}
# A peer that is killed: the other one learns it, and both devices can go.
killed() {
    local server client status=0
    ip netns exec n2 rping -s -a 10.0.1.2 -C 1000000 >/dev/null 2>&1 &
    server=$!
    accepting 2 || return
    ip netns exec n1 rping -c -a 10.0.1.2 -C 1000000 >/tmp/siw1 2>&1 &
    client=$!
    sleep $SCALE
    kill -0 $client || { cat /tmp/siw1; return 1; }
    kill -9 $server
    wait $server
    within 60 tail --pid=$client -f /dev/null || return
    wait $client || status=$?
    cat /tmp/siw1
    echo "the client's status: $status"
    # By an event or by a completion, not by a signal.
    [ $status -gt 0 ] && [ $status -lt 124 ] || grep -q 'DISCONNECT' /tmp/siw1
}
removed() {
    on 1 rdma link del siw1 && on 2 rdma link del siw2 && rmmod siw
}

needs CONFIG_RDMA_SIW -- "iWARP"
check "two nodes with siw" two_siw
check "rping" meet 40 rping -s -a 10.0.1.2 -C 20 -V -- rping -c -a 10.0.1.2 -C 20 -V
check "rping, large" meet 40 rping -s -a 10.0.1.2 -C 5 -V -S 60000 -- rping -c -a 10.0.1.2 -C 5 -V -S 60000
check "rping over IPv6" meet 40 rping -s -a fd01::2 -C 5 -V -- rping -c -a fd01::2 -C 5 -V
check "ib_write_bw through rdma_cm" meet 40 ib_write_bw -R -d siw2 -F -s 4096 -n 200 -- ib_write_bw -R -d siw1 -F -s 4096 -n 200 10.0.1.2
check "ib_read_lat through rdma_cm" meet 40 ib_read_lat -R -d siw2 -F -s 64 -n 100 -- ib_read_lat -R -d siw1 -F -s 64 -n 100 10.0.1.2
check "the peer is killed" killed
check "both go, and the driver" removed
finish
