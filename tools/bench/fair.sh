#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The guest's part of a bench of what a stream leaves to others (FAIR=1): a ping over wires of
# its own, and a program that only computes, beside one queue pair that sends as fast as it can.
# Prints "R|case|value|unit" lines, of which run.sh makes the table.
cd /share/tests || exit 1
. ./rdma.sh
. /share/env

two_nodes 4200 || exit 1
ip netns add n3
ip link add v3 type veth peer name v4 netns n3
ip addr add 10.0.3.1/24 dev v3
ip link set v3 up
on 3 ip addr add 10.0.3.2/24 dev v4
on 3 ip link set v4 up
ping -q -c 1 -W 5 10.0.3.2 >/dev/null || exit 1

# The computing takes turns with whatever else runs: what it gets is its share of the CPU.
cat >/tmp/compute.py <<'PY'
import time
end, rounds = time.monotonic() + 2, 0
while time.monotonic() < end:
    for _ in range(200):
        pass
    rounds += 1
print(2e6 / rounds if rounds else "failed")
PY

# others CASE: how a ping and a computing program fare.
others() {
    local rtt
    rtt=$(ping -q -i 0.01 -c 200 10.0.3.2 | sed -n 's|^rtt [^=]*= \([0-9.]*\)/\([0-9.]*\)/\([0-9.]*\)/.*|\2 \3|p')
    echo "R|ping, mean, $1|$(awk '{ print $1 * 1000 }' <<<"$rtt")|us"
    echo "R|ping, longest, $1|$(awk '{ print $2 * 1000 }' <<<"$rtt")|us"
    echo "R|a round of computing, $1|$(python3 /tmp/compute.py)|us"
}

# beside CASE SIZE COUNT: others, while so many messages of that size are sent: enough for the
# six seconds that others take. Their rate is that of the whole time, with others and without.
beside() {
    local name=$1 size=$2 count=$3 server client rate
    port=$((port + 1))
    on 1 ib_send_bw -d rxe1 -x "$(gid 1 10.0.1.1)" -F -p $port -m 1024 -s "$size" -n "$count" -e >/tmp/server 2>&1 &
    server=$!
    listening 1 $port
    on "$target" ib_send_bw -d "rxe$target" -x "$(gid "$target" "10.0.1.$target")" -F -p $port -m 1024 -s "$size" -n "$count" -e 10.0.1.1 >/tmp/client 2>&1 &
    client=$!
    sleep 1
    others "beside $name"
    wait $client $server
    rate=$(grep -E '^ *[0-9]+ +[0-9]+ +[0-9.]+' /tmp/client | tail -n 1 | awk '$4 > 0 { print $4 }')
    if [ -z "$rate" ]; then tail -n 5 /tmp/client >&2; fi
    echo "R|$name beside them|${rate:-failed}|MiB/s"
}

others "alone"
target=2
beside "wire send 64 KiB" 65536 15000
beside "wire send 64 B" 64 700000
target=1
beside "loop send 64 KiB" 65536 60000
beside "loop send 64 B" 64 800000
