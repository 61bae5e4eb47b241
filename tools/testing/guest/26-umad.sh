# SPDX-License-Identifier: GPL-2.0
# limit: 120
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
    within 90 python3 ./umad.py rxe1 rxe2 fd01::1 fd01::2 \
        "$(index_of rxe1 fd01:0000)" "$(index_of rxe2 fd01:0000)" >/tmp/umad-all || return
    # Whether the driver has counters is its own business.
    grep -v '^port counters' /tmp/umad-all >/tmp/umad
    diff umad-peer.txt /tmp/umad
}

said=$(dmesg | wc -l)
no_report() {
    ! dmesg | tail -n +$((said + 1)) | grep -E 'BUG|WARNING|leak'
}

unload_while_open() {
    local pid
    sleep 60 >/dev/null 3<>/dev/infiniband/umad0 &
    pid=$!
    on 1 rdma link del rxe1 || return
    kill $pid
    wait $pid || :
    modprobe -r ib_umad
}

check "two nodes" two_nodes
modprobe ib_umad
check "agents, answers, timeouts, transfers" as_the_peer
check "the device goes while a program has it" unload_while_open
check "no report of the kernel" no_report
finish
