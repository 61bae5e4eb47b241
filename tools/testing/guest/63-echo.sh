# SPDX-License-Identifier: GPL-2.0
# limit: 240
# A consumer in the kernel, written in Rust without unsafe code: samples/echo. Its service is in the
# initial namespace; its clients are programs in another one, and itself.
. ./ktap.sh
. ./rdma.sh

if ! ours ib_core; then
    skip "samples/echo" "it is part of the Rust modules (STACK=$STACK)"
    finish
fi

ground() {
    two_nodes_gone || return
    # The number: the service listens on the devices of both namespaces, and siw binds both sockets in that
    # of the service, by the numbers of their interfaces, which must differ.
    ip netns add n1 && ip link add e0 index 77 type veth peer name v1 netns n1 || return
    ip link set e0 up && ip addr add 10.0.1.2/24 dev e0 && ip addr add fd01::2/64 dev e0 nodad || return
    on 1 ip link set lo up
    on 1 ip link set v1 up
    on 1 ip addr add 10.0.1.1/24 dev v1
    on 1 ip addr add fd01::1/64 dev v1 nodad
    rdma link add echo0 type rxe netdev e0 && on 1 rdma link add rxe1 type rxe netdev v1 && modprobe rdma_ucm &&
        as_asked ib_core rdma_rxe && reaches 1 10.0.1.2 && reaches 1 fd01::2
}
client() { within 40 ip netns exec n1 python3 ./echo_client.py "$@"; }
clients() { # COUNT: at once
    local n pids=() status=0
    for n in $(seq "$1"); do
        client 10.0.1.2 7471 "$((16 + n))" &
        pids+=($!)
    done
    for n in "${pids[@]}"; do wait "$n" || status=1; done
    return $status
}
# itself ARGS...: loads the module, whose client tries the service at 10.0.1.2, its own.
itself() { reload address=0x0a000102 "$@" && dmesg | grep -q "rdma_echo: $came_back"; }
reload() { # PARAMETERS...
    if [ -d /sys/module/rdma_echo ]; then within 20 rmmod rdma_echo || return; fi
    within 40 modprobe rdma_echo "$@"
}
orders() { within 60 ip netns exec n1 echo_orders 10.0.1.2 7471 "$1"; }
# Nothing of an order that is refused stays, and the service serves the next client.
refused() { orders "$1" && wait_until 30 no_qp && orders good; }
# A peer of the client in the kernel, which writes by a connection with the service to what the client
# has exposed to it. The module is loaded anew afterwards: its client has failed.
stolen() {
    local status=0 thief
    orders steal >/tmp/steals 2>&1 &
    thief=$!
    wait_until 30 grep -q listening /tmp/steals || return
    reload address=0x0a000101 rdma=1 count=1 && echo "the client has not failed" && status=1
    wait "$thief" || status=1
    cat /tmp/steals
    reload && return $status
}
no_qp() { ! rdma res show qp | grep -q rdma_echo; }
# stay SECONDS: a client that has had its messages back and keeps the connection; its number is in
# $stays.
stay() {
    client 10.0.1.2 7471 8 "$1" >/tmp/stays 2>&1 &
    stays=$!
    wait_until 30 grep -q "came back" /tmp/stays
}
gone() { ! running "$stays"; }
killed() { stay 100 && pkill -9 -f echo_client.py && wait_until 20 gone && wait_until 60 no_qp; }
removed() { stay 3 && within 20 rdma link del echo0 && wait_until 20 gone; }
again() { rdma link add echo0 type rxe netdev e0 && client 10.0.1.2 7471; }
unloaded() { stay 3 && within 20 rmmod rdma_echo && wait_until 20 gone; }
shown() {
    stay 5 || return
    rdma res show qp >/tmp/shown
    rdma res show cm_id >>/tmp/shown
    cat /tmp/shown
    grep -q "lqpn.*rdma_echo" /tmp/shown && grep -q "cm-idn.*rdma_echo" /tmp/shown && wait_until 20 gone
}
# said CHECK: what rdma_ulp_check has printed.
said() { dmesg | grep -F "rdma_ulp_check: " | tail -n 8 && dmesg | grep -qF "rdma_ulp_check: ok - $1"; }

# The same over iWARP: siw in place of soft-RoCE.
iwarp() {
    if [ -d /sys/module/rdma_echo ]; then within 20 rmmod rdma_echo || return; fi
    if rdma link show | grep -q '^link echo0/'; then rdma link del echo0 || return; fi
    on 1 rdma link del rxe1 && modprobe siw || return
    rdma link add echo0 type siw netdev e0 && on 1 rdma link add siw1 type siw netdev v1 &&
        reaches 1 10.0.1.2 && reaches 1 fd01::2 && reload
}
iwarp_gone() { within 20 rmmod rdma_echo && on 1 rdma link del siw1 && wait_until 20 rmmod siw; }

check "two nodes" ground
came_back="100 messages of 4096 bytes came back" check "a client in the kernel" itself
came_back="1000 messages of 1 bytes came back" check "1,000 messages of one byte" itself count=1000 size=1
came_back="50 messages of 65536 bytes came back" check "messages of 64 KiB" itself count=50 size=65536
came_back="100 messages of 4096 bytes came back" check "data by RDMA" itself rdma=1
came_back="1000 messages of 1 bytes came back" check "1,000 times one byte by RDMA" itself rdma=1 count=1000 size=1
came_back="200 messages of 65536 bytes came back" check "64 KiB by RDMA" itself rdma=1 count=200 size=65536
check "a program's data by RDMA" orders good
for what in key address long huge none short readonly; do
    check "an order that cannot be carried out: $what" refused $what
done
check "a message of no bytes" orders empty
check "no more RDMA READs at a time than the client takes" orders one
check "a client that takes no RDMA READs" orders noreads
check "a client that writes nothing, with immediate data" refused immediate
check "a client that breaks its queue pair and stays" refused break
check "what is exposed to one peer is not to another" stolen
check "a program" client 10.0.1.2 7471
check "a program, by IPv6" client fd01::2 7471
check "rdma resource shows the service" shown
check "eight programs at once" clients 8
check "no queue pair is left" wait_until 30 no_qp
check "a program is killed" killed
check "the device is removed under a connection" removed
check "the device comes back" again
check "the module is unloaded under a connection" unloaded
check "rdma_ulp_check loads" within 200 modprobe rdma_ulp_check address=0x0a000102
for what in "a buffer that is too large is refused" "a rejection has a reason and data" \
    "a request that fails gives its queue pair back" "refusals use no keys" \
    "a handler does not wait for itself"; do
    check "$what" said "$what"
done
check "rdma_ulp_check unloads" within 20 rmmod rdma_ulp_check
if ! has_config CONFIG_RDMA_SIW; then
    skip "iWARP" "this kernel has no $without"
elif ! ours rdma_cm; then
    # It looks the mapped address up that a socket of IPv6 has for an IPv4 peer, and finds no device.
    skip "iWARP" "the C rdma_cm refuses IPv4 peers of a listener on all addresses"
else
    check "iWARP: two nodes" iwarp
    check "iWARP: a program" client 10.0.1.2 7471
    check "iWARP: a program, by IPv6" client fd01::2 7471
    check "iWARP: eight programs at once" clients 8
    check "iWARP: no queue pair is left" wait_until 30 no_qp
    check "iWARP: a program is killed" killed
    came_back="100 messages of 4096 bytes came back" check "iWARP: a client in the kernel" itself
    came_back="50 messages of 65536 bytes came back" check "iWARP: messages of 64 KiB" itself count=50 size=65536
    check "iWARP: the device is removed under a connection" removed
    check "iWARP: all go" iwarp_gone
fi
finish
