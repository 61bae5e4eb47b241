# SPDX-License-Identifier: GPL-2.0
# limit: 180
# short: um stock stock-7.3
# The ibverbs example programs, data checked where they can (-c).
. ./ktap.sh
. ./rdma.sh

one_device() {
    local g
    g=$(gid 1 10.0.1.1)
    within 60 ip netns exec n1 ibv_rc_pingpong -d rxe1 -g "$g" -c -n 200 >/tmp/server 2>&1 &
    listening 1 18515 && within 60 ip netns exec n1 ibv_rc_pingpong -d rxe1 -g "$g" -c -n 200 10.0.1.1 && wait $!
}

check "two nodes" two_nodes 4200
check "ibv_rc_pingpong -c" pair 30 v4 ibv_rc_pingpong -n 500 -c
check "ibv_rc_pingpong -c -e (events)" pair 30 v4 ibv_rc_pingpong -n 300 -c -e
for mtu in 256 512 1024 2048 4096; do
    check "ibv_rc_pingpong -c, path MTU $mtu, 8 kB" pair 30 v4 ibv_rc_pingpong -n 100 -c -m $mtu -s 8192
done
check "ibv_rc_pingpong, 1 MB" pair 60 v4 ibv_rc_pingpong -n 10 -c -s 1048576
check "ibv_uc_pingpong" pair 30 v4 ibv_uc_pingpong -n 300
check "ibv_ud_pingpong" pair 30 v4 ibv_ud_pingpong -n 300
check "ibv_srq_pingpong" pair 30 v4 ibv_srq_pingpong -n 100
check "ibv_rc_pingpong -c over IPv6" pair 30 v6 ibv_rc_pingpong -n 300 -c
check "ibv_uc_pingpong over IPv6" pair 30 v6 ibv_uc_pingpong -n 100
check "ibv_ud_pingpong over IPv6" pair 30 v6 ibv_ud_pingpong -n 100
check "ibv_rc_pingpong -c on one device" one_device
finish
