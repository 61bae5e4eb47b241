# SPDX-License-Identifier: GPL-2.0
# limit: 120
# Where a path of RoCE leads: routes, neighbours that answer, do not, or only later, and
# vectors that make no sense. What each attempt comes to is the C core's, as it was seen.
. ./ktap.sh
. ./rdma.sh

expected() {
    cat <<'END'
own address: ok
own address, IPv6: ok
neighbour: ok
neighbour, IPv6: ok
neighbour with a flow label: ok
loopback: ETIMEDOUT, waited
nobody there: ETIMEDOUT, waited
nobody there, IPv6: ETIMEDOUT, waited
no route: ETIMEDOUT, waited
no route, IPv6: ENETUNREACH
by a gateway: ok
another family: EINVAL
another family, the other way: EINVAL
group: ok
group, IPv6: ok
zero: ENETUNREACH
no such index: ENODATA
empty index: ENODATA
no global route: EINVAL
no such port: EINVAL
port 0: EINVAL
alternate path: EINVAL
PSN of 25 bits: ok
known later: ok
changed by four at a time
END
}
program() {
    on 1 ip route add 198.51.100.0/24 via 10.0.1.2
    ip netns exec n1 timeout $((60 * SCALE)) python3 ./paths.py rxe1 "$(gid 1 10.0.1.1)" "$(gid 1 fd01::1)" >/tmp/paths 2>&1
    local status=$?
    cat /tmp/paths
    return $status
}

check "two nodes" two_nodes
check "the program comes to its end" program
expected >/tmp/expected
check "every attempt" diff -U 1 /tmp/expected /tmp/paths
check "the devices' end" two_nodes_gone
finish
