# SPDX-License-Identifier: GPL-2.0
# limit: 600
# Programs of high performance computing, as the distribution has them: libfabric and UCX.
# Their transports are fixed, so that what cannot go by RDMA fails instead of
# going by TCP or shared memory, and the packets of both devices are counted.
. ./ktap.sh
. ./rdma.sh

# by_rdma CMD...: CMD succeeds, and meanwhile node 1 sends a packet for each of its 40 or more messages.
# Node 2 may only have to acknowledge them, several at once.
by_rdma() {
    local before=("$(packets_sent 1)" "$(packets_sent 2)") after
    "$@" || return
    after=("$(packets_sent 1)" "$(packets_sent 2)")
    echo "packets: $((after[0] - before[0])) and $((after[1] - before[1]))"
    [ $((after[0] - before[0])) -ge 40 ] && [ $((after[1] - before[1])) -ge 2 ]
}

# fabric DOMAIN ARG...: fi_pingpong between the nodes, data verified. Every namespace sees both
# devices: each program is told the domain and the address of its own, in which N is the node.
fabric() {
    ready="listening 2 47592" by_rdma meet 60 fi_pingpong -c -d "${@//N/2}" -- fi_pingpong -c -d "${@//N/1}" 10.0.1.2
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

# UCX 1.18 expects the type of a datagram's network header where only NVIDIA's devices tell it (wc.sl),
# takes IPv4 for IPv6 and drops the datagram because of its GID.
export UCX_UD_VERBS_ETH_DGID_CHECK=n
# ofi_rxm's completion queue has room for so many peers; for 1024, the default, soft-RoCE's is too small.
export FI_UNIVERSE_SIZE=16

check "two nodes" two_nodes 4200
check "fi_info: endpoints for messages" domain FI_EP_MSG
check "fi_info: endpoints for datagrams" domain FI_EP_DGRAM
check "fi_pingpong -e msg" fabric rxeN -p verbs -e msg -I 60 -S 1000
check "fi_pingpong -e msg, 300 kB" fabric rxeN -p verbs -e msg -I 5 -S 300000
check "fi_pingpong -e rdm" fabric rxeN -s 10.0.1.N -p "verbs;ofi_rxm" -e rdm -I 60 -S 1000
check "fi_pingpong -e rdm, tagged, 300 kB" fabric rxeN -s 10.0.1.N -p "verbs;ofi_rxm" -e rdm -m tagged -I 5 -S 300000
check "fi_pingpong -e dgram" fabric rxeN-dgram -p verbs -e dgram -I 60 -S 1000

for t in am_lat put_lat "am_bw -D bcopy -s 1000" "put_bw -D zcopy -s 4000" "get -D zcopy -s 20000"; do
    # shellcheck disable=SC2086
    check "uct rc_verbs, $t" uct rc_verbs -t $t
done
# There is no swap in UCX's verbs transports.
for t in add_lat fadd cswap; do check "uct rc_verbs, $t" uct rc_verbs -t $t -s 8; done
check "uct ud_verbs, am_lat" uct ud_verbs -t am_lat
check "uct ud_verbs, am_bw" uct ud_verbs -t am_bw -D bcopy -s 1000
for t in tag_lat "tag_lat -s 100000" "tag_bw -s 30000" "ucp_put_lat -s 64" "ucp_get -s 20000" "ucp_fadd -s 8" "ucp_am_bw -s 1000" "stream_bw -s 1000"; do
    # shellcheck disable=SC2086
    check "ucx rc_v, $t" ucx rc_v -t $t
done
for t in tag_lat "tag_lat -s 100000" "ucp_am_bw -s 1000"; do
    # shellcheck disable=SC2086
    check "ucx ud_v, $t" ucx ud_v -t $t
done
finish
