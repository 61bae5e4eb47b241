# SPDX-License-Identifier: GPL-2.0
# limit: 500
# nodes: 2
# Two guests on one wire, each with a stack of its own (the runner lets a C one and
# a Rust one meet, both ways round). Node 2 drives, node 1 does as it is told.
. ./ktap.sh
. ./rdma.sh

address=10.0.0.$NODE
rdma link add rxe type rxe netdev eth0 || exit 1
if [ "$NODE" = 1 ]; then
    python3 ./agent.py serve
    finish
fi

there() { python3 ./agent.py 10.0.0.1 "$*"; }

# index ADDRESS: the local GID index, as here_gid, in the guest's own namespace.
gid_index='i() { local g; for g in $(seq 0 15); do case $(cat /sys/class/infiniband/rxe/ports/1/gids/$g) in *"$1") echo $g; return;; esac; done; }'
eval "$gid_index"

# both LIMIT WAY TOOL ARG...: WAY "out" runs the client here and the server there,
# "in" the other way round.
both() {
    local limit=$1 way=$2 tool=$3 v4=ffff:0a00:000 opt status=0 server=0
    shift 3
    port=$((port + 1))
    case $tool in ibv_*) opt=-g ;; *) opt="-F -u $patience -x" ;; esac
    local here="within $limit $tool -d rxe -p $port $opt $(i ${v4}2) $*"
    local far="$gid_index; within $limit $tool -d rxe -p $port $opt \$(i ${v4}1) $*"
    if [ "$way" = out ]; then
        there "$far" >/tmp/far 2>&1 &
        there "wait_until 30 grep -qE ':$(printf %04X $port) 0*:0000 0A' /proc/net/tcp /proc/net/tcp6" || status=1
        $here 10.0.0.1 || status=$?
    else
        $here >/tmp/far 2>&1 &
        wait_until 30 grep -qE ":$(printf %04X $port) 0*:0000 0A" /proc/net/tcp /proc/net/tcp6
        there "$far 10.0.0.2" || status=$?
    fi
    wait $! || server=$?
    [ "$status$server" = 00 ] || { echo "client $status, server $server"; tail -n 12 /tmp/far; return 1; }
}

server_options=
verified() { # LIMIT WAY ARG...
    local limit=$1 way=$2 status=0 server=0
    shift 2
    port=$((port + 1))
    local far="$gid_index; within $limit xfer -d rxe -g \$(i ffff:0a00:0001) $*"
    if [ "$way" = out ]; then
        there "$far $server_options -s -t 10.0.0.1,$port" >/tmp/far 2>&1 &
        within "$limit" xfer -d rxe -g "$(i ffff:0a00:0002)" "$@" -t "10.0.0.1,$port" || status=$?
    else
        within "$limit" xfer -d rxe -g "$(i ffff:0a00:0002)" "$@" $server_options -s -t "10.0.0.2,$port" >/tmp/far 2>&1 &
        there "$far -t 10.0.0.2,$port" || status=$?
    fi
    wait $! || server=$?
    [ "$status$server" = 00 ] || { echo "client $status, server $server"; tail -n 12 /tmp/far; return 1; }
}

# datagrams WAY: udaddy sends datagrams with immediate data: where the replies go is in it.
datagrams() {
    local pid status=0
    if [ "$1" = out ]; then
        there "within 40 udaddy -b 10.0.0.1" >/tmp/far 2>&1 &
        pid=$!
        there "wait_until 30 listener" || status=1
        within 40 udaddy -s 10.0.0.1 || status=$?
    else
        within 40 udaddy -b 10.0.0.2 >/tmp/far 2>&1 &
        pid=$!
        wait_until 30 listener
        there "within 40 udaddy -s 10.0.0.2" || status=$?
    fi
    wait $pid || status=$?
    [ $status = 0 ] || { tail -n 12 /tmp/far; return 1; }
}

cm() {
    there "within 40 rping -s -V -C 20 -a 10.0.0.1" >/tmp/far 2>&1 &
    there "wait_until 30 listener" &&
        within 40 rping -c -V -C 20 -a 10.0.0.1 && wait $!
}

server_is_ours() { # WAY
    if [ "$1" = out ]; then there ours rdma_rxe; else ours rdma_rxe; fi
}

check "the other guest answers" there true
check "the stack here is the one asked for" as_asked ib_core rdma_rxe
check "the stack there is the one asked for" there as_asked ib_core rdma_rxe
note "here: $(stack | grep rdma_rxe), there: $(there stack | grep rdma_rxe)"
for way in out in; do
    check "verified data, all operations, $way" verified 60 $way -r 25
    check "verified data, path MTU 256, $way" verified 60 $way -r 8 -m 256
    check "verified data, completion events, $way" verified 60 $way -r 10 -e
    # Kinds of xfer: 0x80 send with invalidate, 0x100 atomic write, 0x200 write and flush.
    check "verified data: send with invalidate, atomic write, $way" verified 60 $way -r 25 -k 0x180 -T 18
    check "verified data: these among the others, $way" verified 60 $way -r 15 -k 0x1ff -T 18
    # What the C driver calls the ICRC of a FLUSH ours knows, but not the other way round.
    if { ! ours rdma_rxe && ! there ours rdma_rxe; } || server_is_ours $way; then
        check "verified data: flush, $way" verified 60 $way -r 25 -k 0x380 -T 18
    else
        skip "flush, $way" "the C driver: its ICRC of a FLUSH covers the headers from the BTH on twice"
    fi
    # Without persistent memory in the guest, only memory on demand may be called that.
    if ours rdma_rxe && there ours rdma_rxe; then
        server_options=-O
        check "verified data: flush for persistence, atomic write, $way" verified 60 $way -r 10 -l 20000 -k 0x304 -P -T 18
        server_options=
    fi
    check "ibv_rc_pingpong -c, $way" both 40 $way ibv_rc_pingpong -n 200 -c
    check "ibv_uc_pingpong, $way" both 40 $way ibv_uc_pingpong -n 100
    check "ibv_ud_pingpong, $way" both 40 $way ibv_ud_pingpong -n 100
    check "ib_write_bw, UC, $way" both 40 $way ib_write_bw -c UC -s 65536 -n 25
    check "ib_write_bw, UC, messages of one packet, $way" both 40 $way ib_write_bw -c UC -s 512 -n 100
    check_with rdma_ucm "datagrams with immediate data, $way" datagrams $way
    check "ib_send_bw, $way" both 40 $way ib_send_bw -s 4096 -n 100
    check "ib_write_bw, $way" both 40 $way ib_write_bw -s 65536 -n 25
    check "ib_read_bw, $way" both 40 $way ib_read_bw -s 65536 -n 25
    check "ib_atomic_bw, $way" both 40 $way ib_atomic_bw -n 100
done
check_with rdma_ucm "rping -V" cm
# The C requester loses atomic results and reads when responses are lost, so that
# it is spared them here; ours is not.
mask=0x0f
if ours rdma_rxe; then mask=0x7f; fi
tc qdisc add dev eth0 root netem loss 2%
check "verified data with 2 % loss, kinds $mask" verified 90 out -r 6 -l 20000 -T $impatience -k $mask
tc qdisc del dev eth0 root
there quit
finish
