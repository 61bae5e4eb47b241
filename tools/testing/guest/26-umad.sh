# SPDX-License-Identifier: GPL-2.0
# limit: 200
# MADs of user space: what comes of them is what the C core makes of them.
. ./ktap.sh
. ./rdma.sh

index_of() { # DEVICE GID-PREFIX
    local f
    f=$(grep -l "$2" "/sys/class/infiniband/$1/ports/1/gids/"* | head -n 1)
    echo "${f##*/}"
}

# The steps of umad.py, and what they print on the C core.
as_the_peer() {
    within 110 python3 ./umad.py rxe1 rxe2 fd01::1 fd01::2 \
        "$(index_of rxe1 fd01:0000)" "$(index_of rxe2 fd01:0000)" >/tmp/umad-all || return
    # Whether the driver has counters is its own business.
    grep -v '^port counters' /tmp/umad-all >/tmp/umad
    diff umad-peer.txt /tmp/umad
}

# The runner looks as well; here it is known after which step.
no_report() {
    dmesg -t >/tmp/said && grep -qF "$began" /tmp/said || { echo "the log has lost its beginning"; return 1; }
    ! sed "1,/^$began\$/d" /tmp/said | grep -E 'BUG|WARNING|leak'
}
began="26-umad $$ begins"
echo "$began" >/dev/kmsg

opened() { [ "$(readlink "/proc/$1/fd/3")" = "$2" ]; }
unload_while_open() {
    local pid node status=0
    node=$(grep -lx rxe1 /sys/class/infiniband_mad/umad*/ibdev) && node=/dev/infiniband/$(basename "$(dirname "$node")") || return
    # The redirection would make a file.
    [ -c "$node" ] || { echo "$node is no device"; return 1; }
    sleep 120 >/dev/null 3<>"$node" &
    pid=$!
    wait_until 30 opened $pid "$node" || { echo "$node is not open"; return 1; }
    refused_as 'in use' rmmod ib_umad || return
    on 1 rdma link del rxe1 || return
    [ ! -e /sys/class/infiniband/rxe1 ] && kill -0 $pid || status=1
    kill $pid
    wait $pid
    rmmod ib_umad && return $status
}

check "two nodes" two_nodes
check "ib_umad loads" modprobe ib_umad
check "agents, answers, timeouts, transfers" as_the_peer
check "the device goes while a program has it" unload_while_open
check "no report of the kernel" no_report
finish
