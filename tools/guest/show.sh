#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The guest's part of "make run": two nodes, the stock programs, a closing line.
cd /share/tests || exit 1
. ./rdma.sh
. ./reports.sh

echo "Linux $(uname -r), modules loaded:"
rust-rdma-status --short | sed 's/^/  /'
if ! two_nodes 4200; then
    echo "FAILED: the two nodes could not be set up"
    exit 1
fi
echo "two nodes: rxe1 on v1 (10.0.1.1, fd01::1)   rxe2 on v2 (10.0.1.2, fd01::2)"
echo

good=() wrong=()
show() { # NAME HIGHLIGHT CMD...: run, print the lines that tell, remember the verdict
    local name=$1 highlight=$2 status=0
    shift 2
    "$@" >/tmp/show 2>&1 || status=$?
    if [ $status = 0 ]; then
        good+=("$name")
        printf '%-16s ok      %s\n' "$name" "$(grep -E "$highlight" /tmp/show | tail -n 1 | xargs)"
    else
        wrong+=("$name")
        printf '%-16s FAILED  status %s\n' "$name" "$status"
        tail -n 8 /tmp/show | sed 's/^/    /'
    fi
}
ping_pair() {
    within 30 ip netns exec n2 rping -s -V -C 20 -a 10.0.1.2 >/tmp/rping-server 2>&1 &
    for _ in $(seq 100); do on 2 rdma res show cm_id | grep -q LISTEN && break; sleep 0.1; done
    within 30 ip netns exec n1 rping -c -V -v -C 20 -a 10.0.1.2 && wait $!
}

show ibv_devinfo 'state:' on 1 ibv_devinfo -d rxe1
show ibv_rc_pingpong 'Mbit/sec' pair 30 v4 ibv_rc_pingpong -c -n 500
show ibv_uc_pingpong 'Mbit/sec' pair 30 v4 ibv_uc_pingpong -n 500
show ibv_ud_pingpong 'Mbit/sec' pair 30 v4 ibv_ud_pingpong -n 500
show rping 'ping data' ping_pair
figures='^ *[0-9]+ +[0-9]+ +[0-9.]+'
echo "                         bytes, messages, peak MB/s, average MB/s, million messages/s:"
show ib_send_bw "$figures" pair 30 v4 ib_send_bw -s 65536 -n 100
show ib_write_bw "$figures" pair 30 v4 ib_write_bw -s 65536 -n 100
show ib_read_bw "$figures" pair 30 v4 ib_read_bw -s 65536 -n 100
show ib_atomic_bw "$figures" pair 30 v4 ib_atomic_bw -n 500
show "rc over IPv6" 'Mbit/sec' pair 30 v6 ibv_rc_pingpong -c -n 200
two_nodes_gone

echo
ours=$(stack | awk '$2 == "rust" { print $1 }' | xargs)
dmesg >/tmp/log
if reports /tmp/log; then wrong+=("the kernel log"); fi
if [ ${#wrong[@]} -gt 0 ]; then
    echo "FAILED: ${wrong[*]} (worked: ${good[*]:-nothing}; in Rust: ${ours:-nothing})"
    exit 1
fi
echo "All worked (in Rust: ${ours:-nothing}): $(printf '%s, ' "${good[@]}" | sed 's/, $//')"
