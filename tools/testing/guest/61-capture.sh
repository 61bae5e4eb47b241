# SPDX-License-Identifier: GPL-2.0
# limit: 500
# nodes: 2
# What both stacks put on the wire, as others see it: every ICRC is checked by a
# reader of our own, every header by tshark, and each stack must have sent every
# opcode that the traffic calls for.
. ./ktap.sh
. ./rdma.sh

rdma link add rxe type rxe netdev eth0 || exit 1
if [ "$NODE" = 1 ]; then
    python3 ./agent.py serve
    finish
fi
there() { python3 ./agent.py 10.0.0.1 "$*"; }

gid='i() { local g; for g in $(seq 0 15); do case $(cat /sys/class/infiniband/rxe/ports/1/gids/$g) in *"$1") echo $g; return;; esac; done; }'
eval "$gid"

# traffic ARG...: verified operations, of which each side asks for some.
both_ways() {
    local pid
    for way in out in; do
        port=$((port + 1))
        if [ $way = out ]; then
            there "$gid; within 60 xfer -d rxe -g \$(i ffff:0a00:0001) $* -s -t 10.0.0.1,$port" &
            pid=$!
            within 60 xfer -d rxe -g "$(i ffff:0a00:0002)" "$@" -t "10.0.0.1,$port" || return
        else
            within 60 xfer -d rxe -g "$(i ffff:0a00:0002)" "$@" -s -t "10.0.0.2,$port" &
            pid=$!
            there "$gid; within 60 xfer -d rxe -g \$(i ffff:0a00:0001) $* -t 10.0.0.2,$port" || return
        fi
        wait $pid || return
    done
}

# waiting NODE: wait until the server there listens on $port.
waiting() {
    local look="wait_until 60 grep -qhE ':$(printf %04X $port) 0*:0000 0A' /proc/net/tcp /proc/net/tcp6"
    if [ "$1" = 1 ]; then there "$look"; else eval "$look"; fi || { echo "nobody listens on port $port of node $1"; return 1; }
}

# one_way CLIENT-NODE TOOL ARG...: a client there or here, and a server at the other end.
one_way() {
    local client=$1 tool=$2 opt pid status=0 server client_command
    shift 2
    port=$((port + 1))
    case $tool in ibv_*) opt=-g ;; *) opt="-F -u $patience -x" ;; esac
    server="$gid; within 40 $tool -d rxe -p $port $opt \$(i ffff:0a00:000$((3 - client))) $*"
    client_command="$gid; within 40 $tool -d rxe -p $port $opt \$(i ffff:0a00:000$client) $* 10.0.0.$((3 - client))"
    if [ "$client" = 2 ]; then there "$server"; else bash -c ". ./rdma.sh; $server"; fi >/tmp/far 2>&1 &
    pid=$!
    waiting $((3 - client)) || status=$?
    if [ "$client" = 1 ]; then there "$client_command"; else bash -c ". ./rdma.sh; $client_command"; fi || status=$?
    [ $status = 0 ] || kill $pid
    wait $pid && [ $status = 0 ] || { cat /tmp/far; return 1; }
}
unreliable() {
    local client
    for client in 1 2; do
        one_way $client ibv_uc_pingpong -n 10 && one_way $client ib_send_bw -c UC -s 64 -n 20 || return
        one_way $client ib_write_bw -c UC -s 8192 -n 20 && one_way $client ib_write_bw -c UC -s 64 -n 20 || return
    done
}
# Both ends of udaddy send, with immediate data.
immediate() {
    there "within 40 udaddy -b 10.0.0.1" >/tmp/far 2>&1 &
    there "wait_until 30 listener" &&
        within 40 udaddy -s 10.0.0.1 && wait $!
}

datagrams() {
    port=$((port + 1))
    there "$gid; within 40 ibv_ud_pingpong -d rxe -p $port -g \$(i ffff:0a00:0001) -n 10" >/tmp/far 2>&1 &
    waiting 1 || { cat /tmp/far; return 1; }
    within 40 ibv_ud_pingpong -d rxe -p $port -g "$(i ffff:0a00:0002)" -n 10 10.0.0.1 && wait $!
}

# sent ADDRESS OPCODE...: the sender has used each of the opcodes.
sent() {
    local from=$1 opcode
    shift
    for opcode in "$@"; do
        grep "^$from:" /tmp/icrc | grep -qE " $opcode\*" || { echo "no opcode $opcode from $from"; cat /tmp/icrc; return 1; }
    done
}

opens() { tshark -r /tmp/wire.pcap -T fields -e infiniband.bth.opcode 2>/dev/null | grep -c . >/tmp/decoded && [ "$(cat /tmp/decoded)" -gt 100 ]; }
# It takes the first bytes of a Send for the head of another protocol, and stumbles when
# there are less than 16, behind the four of an IETH or not; that is not about us.
malformed() {
    tshark -r /tmp/wire.pcap -Y '(_ws.malformed || _ws.expert.severity == error) && !(infiniband.bth.opcode == 4 && udp.length < 40) && !(infiniband.bth.opcode == 23 && udp.length < 44)' >/tmp/malformed 2>/tmp/tshark || { cat /tmp/tshark; return 1; }
    ! grep . /tmp/malformed
}

check "the other guest answers" there true
check "the stack here is the one asked for" as_asked ib_core rdma_rxe
check "the stack there is the one asked for" there as_asked ib_core rdma_rxe
# Each packet as it came, not as GRO collects them.
ethtool -K eth0 gro off
tcpdump -B 16384 -i eth0 -s 0 -w /tmp/wire.pcap --immediate-mode udp port 4791 >/tmp/tcpdump 2>&1 &
dump=$!
captures /tmp/tcpdump
check "verified data both ways" both_ways -r 12 -l 6000
check "sends with invalidate both ways" both_ways -r 12 -l 6000 -k 0x80 -T 18
check "datagrams" datagrams
check "unreliable connections" unreliable
check_with rdma_ucm "datagrams with immediate data" immediate
sleep 1
kill -INT $dump
wait $dump
check "every ICRC is right" sh -c 'python3 ./icrc.py /tmp/wire.pcap >/tmp/icrc; s=$?; cat /tmp/icrc; exit $s'
while read -r line; do note "$line"; done </tmp/icrc
# RC: sends, writes, reads, atomics, their responses, sends with invalidate. UC: sends and writes without
# immediate data, for which there is no program here. Datagrams without and with.
for node in 1 2; do
    check "node $node used every opcode" sent 10.0.0.$node 00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f 10 11 12 13 14 16 17 \
        20 21 22 24 26 27 28 2a 64 65
done
check "tshark takes them for InfiniBand" opens
check "tshark finds nothing malformed" malformed
there quit
finish
