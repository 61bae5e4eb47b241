# SPDX-License-Identifier: GPL-2.0
# limit: 900
# Programs of high performance computing, as the distribution has them: libfabric, UCX, and Open MPI
# over each of the two. Their transports are fixed, so that what cannot go by RDMA fails instead of
# going by TCP or shared memory, and the packets of both devices are counted.
. ./ktap.sh
. ./rdma.sh

# sent NODE: how many packets its device has sent.
sent() { on "$1" rdma statistic show link "rxe$1/1" | grep -oE 'sent_pkts [0-9]+' | cut -d' ' -f2; }

# by_rdma CMD...: CMD succeeds, and meanwhile node 1 sends a packet for each of its 40 or more messages.
# Node 2 may only have to acknowledge them, several at once.
by_rdma() {
    local before=("$(sent 1)" "$(sent 2)") after
    "$@" || return
    after=("$(sent 1)" "$(sent 2)")
    echo "packets: $((after[0] - before[0])) and $((after[1] - before[1]))"
    [ $((after[0] - before[0])) -ge 40 ] && [ $((after[1] - before[1])) -ge 2 ]
}

# fabric ARG...: fi_pingpong between the nodes, data verified.
fabric() {
    ready="listening 2 47592" by_rdma meet 60 fi_pingpong -c "$@" -- fi_pingpong -c "$@" 10.0.1.2
}
# The domain, too, is the device of ours.
domain() { on 1 fi_info -p verbs -t "$1" >/tmp/fi; cat /tmp/fi; grep -q "domain: rxe1" /tmp/fi; }

# ucx TRANSPORTS ARG...: ucx_perftest over these, between the nodes.
ucx() {
    local i env=() tls=$1
    shift
    for i in 1 2; do env[i]="UCX_TLS=$tls UCX_NET_DEVICES=rxe$i:1"; done
    # shellcheck disable=SC2086
    ready="listening 2 13337" by_rdma meet 90 env ${env[2]} ucx_perftest -P 0 -w 5 -n 50 "$@" -- \
        env ${env[1]} ucx_perftest -P 0 -w 5 -n 50 "$@" 10.0.1.2
}
# uct TRANSPORT ARG...: the same by the library's lower layer, which does no wire-up of its own.
uct() {
    local tl=$1
    shift
    ready="listening 2 13337" by_rdma meet 90 ucx_perftest -P 0 -x "$tl" -d rxe2:1 -w 5 -n 50 "$@" -- \
        ucx_perftest -P 0 -x "$tl" -d rxe1:1 -w 5 -n 50 "$@" 10.0.1.2
}

# Two hosts of mpirun's, each a namespace with a name of its own; on_host takes the place of ssh.
mpi_ground() {
    printf '10.0.1.1 node1\n10.0.1.2 node2\n' >>/etc/hosts
    mkdir -p /tmp/node1 /tmp/node2
    cat >/tmp/on_host <<'END'
#!/bin/sh
node=$1
shift
exec ip netns exec "n${node#node}" unshare --uts sh -c "hostname $node; export TMPDIR=/tmp/$node; $*"
END
    cat >/tmp/rank <<'END'
#!/bin/sh
export UCX_NET_DEVICES="rxe$(hostname | tr -d a-z):1"
exec "$@"
END
    chmod +x /tmp/on_host /tmp/rank
}
# mpi RANKS ARG... -- PROGRAM...: so many ranks on each host.
mpi() {
    local ranks=$1 args=()
    shift
    while [ "$1" != -- ]; do args+=("$1"); shift; done
    shift
    by_rdma within 90 /tmp/on_host node1 mpirun --allow-run-as-root --prtemca plm_ssh_agent /tmp/on_host \
        --host "node1:$ranks,node2:$ranks" -np $((2 * ranks)) --map-by node:OVERSUBSCRIBE --bind-to none \
        "${args[@]}" /tmp/rank "$@"
}
# over_ucx TRANSPORTS RANKS PROGRAM...
over_ucx() {
    local tls=$1 ranks=$2
    shift 2
    mpi "$ranks" --mca pml ucx --mca osc ucx --mca opal_common_ucx_tls any --mca opal_common_ucx_devices any \
        -x "UCX_TLS=$tls,self" -- "$@"
}
over_fabric() {
    local ranks=$1
    shift
    mpi "$ranks" --mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include "verbs\;ofi_rxm" -- "$@"
}
right() { # RANKS CMD...: the verifier says that all was right
    local ranks=$1
    shift
    "$@" >/tmp/mpi 2>&1 || { cat /tmp/mpi; return 1; }
    cat /tmp/mpi
    grep -qx "$ranks ranks: right" /tmp/mpi
}
ring="python3 $PWD/mpi_ring.py"

check "two nodes" two_nodes 4200
check "fi_info: endpoints for messages" domain FI_EP_MSG
check "fi_info: endpoints for datagrams" domain FI_EP_DGRAM
check "fi_pingpong -e msg" fabric -p verbs -e msg -I 20
check "fi_pingpong -e msg, 300 kB" fabric -p verbs -e msg -I 5 -S 300000
check "fi_pingpong -e rdm" fabric -p "verbs;ofi_rxm" -e rdm -I 60 -S 1000
check "fi_pingpong -e rdm, tagged, 300 kB" fabric -p "verbs;ofi_rxm" -e rdm -m tagged -I 5 -S 300000
check "fi_pingpong -e dgram" fabric -p verbs -e dgram -I 60 -S 1000

for t in am_lat put_lat "am_bw -D bcopy -s 1000" "put_bw -D zcopy -s 4000" "get -D zcopy -s 20000"; do
    # shellcheck disable=SC2086
    check "uct rc_verbs, $t" uct rc_verbs -t $t
done
for t in add_lat fadd swap cswap; do check "uct rc_verbs, $t" uct rc_verbs -t $t -s 8; done
check "uct ud_verbs, am_lat" uct ud_verbs -t am_lat
check "uct ud_verbs, am_bw" uct ud_verbs -t am_bw -D bcopy -s 1000
for tls in rc_v ud_v; do
    for t in tag_lat "tag_lat -s 100000" "tag_bw -s 30000" "ucp_put_lat -s 64" "ucp_get -s 20000" "ucp_fadd -s 8" "ucp_am_bw -s 1000" "stream_bw -s 1000"; do
        # shellcheck disable=SC2086
        check "ucx $tls, $t" ucx $tls -t $t
    done
done

check "hosts for mpirun" mpi_ground
for tls in rc_v ud_v; do
    # shellcheck disable=SC2086
    check "Open MPI, UCX $tls: ring, collectives, windows" right 4 over_ucx $tls 2 $ring
done
# shellcheck disable=SC2086
check "Open MPI, UCX rc_v: a wrong byte is noticed" refused_as 'rank 0: ring of 1: wrong' over_ucx rc_v 2 $ring wrong
check "mpi4py.bench ringtest" over_ucx rc_v 2 python3 -m mpi4py.bench ringtest -n 50000 -l 5
check "NPopenmpi -i" over_ucx rc_v 1 NPopenmpi -i -u 20000 -n 3 -o /tmp/np.out
# shellcheck disable=SC2086
check "Open MPI, libfabric: ring, collectives" right 4 over_fabric 2 $ring two-sided
finish
