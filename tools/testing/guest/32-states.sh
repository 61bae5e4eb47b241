# SPDX-License-Identifier: GPL-2.0
# limit: 300
# Queue pair states beyond the usual, attributes that are clamped, header fields, and
# the port's counters.
. ./ktap.sh
. ./rdma.sh

# cases NAME...: of states.py, one result each.
cases() {
    local status=0
    SCALE=$SCALE within 100 python3 ./states.py rxe1 "$(gid 1 "$1")" rxe2 "$(gid 2 "$2")" "${@:3}" >/tmp/states 2>&1 || status=$?
    cases_of "$1: the program" $status /tmp/states "$1: "
}
on_the_wire() { # what tcpdump saw of the flow-label case
    tcpdump -r /tmp/cap.pcap -n -v 2>/dev/null >/tmp/seen
    cat /tmp/seen
    grep -q 'class 0x48, flowlabel 0xabcde' /tmp/seen
}
counters=/sys/class/infiniband/rxe1/ports/1
follows() { # PMA-COUNTER HW-COUNTER FACTOR
    local pma hw
    pma=$(cat $counters/counters/"$1") hw=$(cat $counters/hw_counters/"$2")
    echo "$1 $pma, $2 $hw"
    [ "$hw" -gt 0 ] && [ "$pma" = $((hw / $3)) ]
}
downed_since() { [ "$(cat $counters/counters/link_downed)" -gt "$1" ]; }
link_downed() {
    local before now
    before=$(cat $counters/counters/link_downed)
    on 1 ip link set v1 down && on 1 ip link set v1 up && wait_until 20 downed_since "$before"
    now=$(cat $counters/counters/link_downed)
    echo "$before, then $now"
    [ "$now" -gt "$before" ]
}

check "two nodes" two_nodes
cases 10.0.1.1 10.0.1.2 sqe-ud sqe-uc rc-has-no-sqe path-mtu-rc path-mtu-uc path-mtu-small read-depth wrong-qkey
ip netns exec n1 tcpdump --immediate-mode -U -i v1 -w /tmp/cap.pcap 'udp port 4791' >/dev/null 2>/tmp/cap.log &
dump=$!
captures /tmp/cap.log
cases fd01::1 fd01::2 flow-label sqe-ud path-mtu-rc
wait_until 20 on_the_wire
kill $dump
wait $dump
check "flow label and traffic class on the wire" on_the_wire
check "port_xmit_packets in sysfs" follows port_xmit_packets sent_pkts 1
check "port_rcv_packets in sysfs" follows port_rcv_packets rcvd_pkts 1
check "port_xmit_data in sysfs" follows port_xmit_data sent_bytes 4
check "port_rcv_data in sysfs" follows port_rcv_data rcvd_bytes 4
check "link_downed in sysfs" link_downed
check "the devices' end" two_nodes_gone
finish
