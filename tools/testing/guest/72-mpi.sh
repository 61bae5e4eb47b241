# SPDX-License-Identifier: GPL-2.0
# limit: 600
# Open MPI as the distribution has it, over UCX. Its transport is fixed, so that what cannot go
# by RDMA fails instead of going by TCP or shared memory, and the packets of both devices are counted.
. ./ktap.sh
. ./rdma.sh

# Two hosts for mpirun: the namespaces, each with a host's name and a folder for temporary files of its own, and
# told its device. The agent takes the place of ssh.
hosts() {
    printf '10.0.1.1 node1\n10.0.1.2 node2\n' >>/etc/hosts
    mkdir -p /tmp/node1 /tmp/node2
    cat >/tmp/agent <<'END'
#!/bin/sh
node=$1 n=${1#node}
shift
export TMPDIR="/tmp/$node" UCX_NET_DEVICES="rxe$n:1" FI_VERBS_DEVICE_NAME="rxe$n"
exec ip netns exec "n$n" unshare --uts sh -c "hostname $node; $*"
END
    chmod +x /tmp/agent
}

# mpi RANKS "ARG..." PROGRAM...: RANKS on the two nodes by turns, so that neighbours are on different ones.
mpi() {
    local ranks=$1 args=$2
    shift 2
    # shellcheck disable=SC2086
    within 90 /tmp/agent node1 exec mpirun --allow-run-as-root --prtemca plm_ssh_agent /tmp/agent \
        --host "node1:$ranks,node2:$ranks" -np "$ranks" --map-by node:OVERSUBSCRIBE --bind-to none \
        --mca mpi_yield_when_idle 1 --mca btl self $args "$@"
}
# Debian's file of parameters excludes these components.
ucx="--mca pml ucx --mca osc ucx --mca opal_common_ucx_tls any --mca opal_common_ucx_devices any"

# right RANKS ARGS [windows]: the verifier says that all was right, and its data went through both devices: between
# two neighbours 5 MB, in packets of 4096 bytes at most.
right() {
    local ranks=$1 before=("$(packets_sent 1)" "$(packets_sent 2)") after
    mpi "$ranks" "$2" python3 "$PWD/mpi_ring.py" "${@:3}" >/tmp/mpi 2>&1 || { cat /tmp/mpi; return 1; }
    cat /tmp/mpi
    after=("$(packets_sent 1)" "$(packets_sent 2)")
    echo "packets: $((after[0] - before[0])) and $((after[1] - before[1]))"
    grep -qx "$ranks ranks: right" /tmp/mpi &&
        [ $((after[0] - before[0])) -ge $((600 * ranks)) ] && [ $((after[1] - before[1])) -ge $((600 * ranks)) ]
}
# over TRANSPORTS CMD...: UCX has these only.
over() {
    local -x UCX_TLS=$1
    shift
    "$@"
}

# See 71-hpc.
export UCX_UD_VERBS_ETH_DGID_CHECK=n

check "two nodes" two_nodes 4200
check "hosts for mpirun" hosts
check "UCX rc_v, 2 ranks: ring, neighbours, collectives" over rc_v,self right 2 "$ucx"
check "UCX rc_v, 2 ranks: NPopenmpi -i" over rc_v,self mpi 2 "$ucx" NPopenmpi -i -u 20000 -n 3 -o /tmp/np
finish
