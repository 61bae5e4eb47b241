# SPDX-License-Identifier: GPL-2.0
# limit: 300
# Datagrams, between two devices and on one: lists to many destinations, address handles that go,
# receivers that are not ready, overflow. All data are compared.
. ./ktap.sh
. ./rdma.sh

# between NAME NODE ADDRESS NODE ADDRESS [LOSS]
between() {
    local name=$1 status=0 a b
    a=$(gid "$2" "$3") b=$(gid "$4" "$5")
    # shellcheck disable=SC2086
    within 100 datagrams "rxe$2" "$a" "rxe$4" "$b" ${6:-} >/tmp/datagrams 2>&1 || status=$?
    cases_of "$name" $status /tmp/datagrams "$name: "
}

check "two nodes" two_nodes 4200
between "two devices" 1 10.0.1.1 2 10.0.1.2
between "two devices, IPv6" 1 fd01::1 2 fd01::2
between "one device" 1 10.0.1.1 1 10.0.1.1
between "one device, IPv6" 1 fd01::1 1 fd01::1
on 1 ethtool -K v1 tx-gso-list off tso off
check "packets one by one, collected by the receiver" on 2 ethtool -K v2 gro on
between "one by one" 1 10.0.1.1 2 10.0.1.2
check "loss, corruption and repetition" on 1 tc qdisc add dev v1 root netem limit 1000 loss 10% corrupt 5%
between "bad wire" 1 10.0.1.1 2 10.0.1.2 loss
on 1 tc qdisc del dev v1 root
check "the devices' end" two_nodes_gone
finish
