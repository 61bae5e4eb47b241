#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The guest's part of a bench of the kernel's own users of RDMA (ULP=1): storage, files and RDS
# datagrams, both ends on one device (MTU 4200). Block devices are null_blk, which stores
# nothing; files are in a tmpfs. Prints "R|case|value|unit" lines, of which run.sh makes the table:
# the guest's time for a request, with those of fio, the file systems and the block layer in it.
# ROWS, if set, is a regular expression: the rows to measure; ULPS: the users.
# The profile sources this file for its functions, with COUNTED set.
cd /share/tests || exit 1
. ./rdma.sh
. /share/env

here=10.0.9.1

one_device() {
    ip link add u1 type veth peer name u2 && ip link set u1 mtu 4200 up && ip link set u2 mtu 4200 up &&
        ip addr add $here/24 dev u1 && rdma link add rxe type rxe netdev u1 || return
    modprobe null_blk gb=1 nr_devices=3 && mount -t configfs none /sys/kernel/config 2>/dev/null
    as_asked ib_core rdma_rxe
}

# appears GLOB: wait for a device, and print its name.
appears() { wait_until 60 first "$1" >&2 && first "$1"; }
first() { compgen -G "$1" | grep -m 1 .; }
scsi_disk() { appears '/sys/class/scsi_disk/*/device/block/*' | sed 's|.*/|/dev/|'; }

# Each user has a function of its own, which sets target: the device, or the file, to access.
use_nvme() {
    (
        modprobe nvmet-rdma && cd /sys/kernel/config/nvmet && mkdir -p subsystems/t/namespaces/1 ports/1 &&
            echo 1 >subsystems/t/attr_allow_any_host && echo -n /dev/nullb0 >subsystems/t/namespaces/1/device_path &&
            echo 1 >subsystems/t/namespaces/1/enable && echo rdma >ports/1/addr_trtype && echo ipv4 >ports/1/addr_adrfam &&
            echo $here >ports/1/addr_traddr && echo 4420 >ports/1/addr_trsvcid &&
            ln -s /sys/kernel/config/nvmet/subsystems/t ports/1/subsystems/t
    ) && modprobe nvme-rdma && within 60 nvme connect -t rdma -a $here -s 4420 -n t -i 1 \
        -q nqn.2026-01.test:host -I 11111111-2222-3333-4444-555555555555 &&
        target=$(appears '/dev/nvme*n1')
}
done_nvme() { within 60 nvme disconnect -n t >/dev/null; }

# backstore NAME DEVICE: a block device behind the SCSI target core.
backstore() {
    local b=/sys/kernel/config/target/core/iblock_0/$1
    modprobe target_core_mod && modprobe target_core_iblock && mkdir -p "$b" &&
        echo "udev_path=$2" >"$b/control" && echo 1 >"$b/enable"
}

use_iser() {
    local t=/sys/kernel/config/target/iscsi/iqn.2026-01.test:t/tpgt_1
    local node=(iscsiadm -m node -T iqn.2026-01.test:t -p $here)
    backstore i /dev/nullb1 && modprobe iscsi_target_mod && modprobe ib_isert &&
        mkdir -p $t/lun/lun_0 $t/np/$here:3260 && ln -s /sys/kernel/config/target/core/iblock_0/i $t/lun/lun_0/i &&
        echo 1 >$t/np/$here:3260/iser && echo 0 >$t/attrib/authentication && echo 1 >$t/attrib/generate_node_acls &&
        echo 0 >$t/attrib/demo_mode_write_protect && echo 1 >$t/enable || return
    modprobe ib_iser && mkdir -p /run/lock/iscsi /var/lib/iscsi /etc/iscsi &&
        echo InitiatorName=iqn.2026-01.test:i >/etc/iscsi/initiatorname.iscsi && iscsid &&
        within 20 "${node[@]}" -o new && within 20 "${node[@]}" -o update -n iface.transport_name -v iser &&
        within 60 "${node[@]}" --login >&2 && target=$(scsi_disk)
}
done_iser() { within 60 iscsiadm -m node -T iqn.2026-01.test:t -p $here --logout >/dev/null; }

use_srp() {
    local us p guid gid=/sys/class/infiniband/rxe/ports/1/gids/0
    us=0x0000000000000000$(cut -c 21- $gid | tr -d :)
    backstore s /dev/nullb2 && modprobe ib_srpt || return
    p=/sys/kernel/config/target/srpt/0x$(tr -d : <$gid)
    p+=/${p##*/}
    mkdir -p "$p/lun/lun_0" && ln -s /sys/kernel/config/target/core/iblock_0/s "$p/lun/lun_0/s" &&
        mkdir -p "$p/acls/$us/lun_0" && ln -s "$p/lun/lun_0" "$p/acls/$us/lun_0/s" && echo 1 >"$p/enable" &&
        echo 5555 >/sys/kernel/config/target/srpt/discovery_auth/rdma_cm_port || return
    guid=$(cat /sys/module/ib_srpt/parameters/srpt_service_guid) && guid=${guid#0x} && modprobe ib_srp &&
        echo "id_ext=$guid,ioc_guid=$guid,dest=$here:5555" >/sys/class/infiniband_srp/srp-rxe-1/add_target &&
        target=$(scsi_disk)
}
done_srp() { echo 1 >"$(appears '/sys/class/srp_remote_ports/*/delete')"; }

use_nfs() {
    modprobe nfsd && modprobe rpcrdma && mkdir -p /tmp/export && mount -t tmpfs export /tmp/export &&
        mkdir -p /var/lib/nfs/v4recovery /run/rpcbind && mount -t nfsd nfsd /proc/fs/nfsd 2>/dev/null
    rpcbind -w
    touch /var/lib/nfs/etab /var/lib/nfs/rmtab
    mount -t rpc_pipefs none /var/lib/nfs/rpc_pipefs 2>/dev/null
    nfsdcld 2>/dev/null
    exportfs -o rw,no_root_squash,insecure,fsid=0 '*:/tmp/export' && rpc.nfsd -G 10 -L 10 4 && rpc.mountd &&
        echo rdma 20049 >/proc/fs/nfsd/portlist && modprobe nfsv4 && mkdir -p /tmp/nfs &&
        within 60 mount -t nfs -o vers=4.1,proto=rdma,port=20049,hard $here:/ /tmp/nfs &&
        grep -q 'proto=rdma' /proc/mounts && head -c 64M /dev/zero >/tmp/export/file && target=/tmp/nfs/file
}
done_nfs() { within 60 umount /tmp/nfs; }

use_smb() {
    modprobe ksmbd && mkdir -p /tmp/share /tmp/smb /etc/ksmbd && mount -t tmpfs smb /tmp/share && chmod 777 /tmp/share &&
        printf '[global]\n\tworkgroup = T\n[s]\n\tpath = /tmp/share\n\tread only = no\n' >/etc/ksmbd/ksmbd.conf &&
        ksmbd.adduser -a -p secret us >&2 && ksmbd.mountd >&2 && modprobe cifs || return
    within 60 mount -t cifs "//$here/s" /tmp/smb -o rdma,vers=3.1.1,username=us,password=secret,cache=none &&
        grep -q ',rdma' /proc/mounts && head -c 64M /dev/zero >/tmp/share/file && chmod 666 /tmp/share/file &&
        target=/tmp/smb/file
}
done_smb() { within 60 umount /tmp/smb; }

# access RW BLOCK COUNT: requests to $target, eight at a time; prints us for each.
access() {
    within 100 fio --name=b --filename="$target" --rw="$1" --bs="$2" --iodepth=8 --size=64m --io_size=$((${2%k} * $3))k \
        --ioengine=libaio --direct=1 --gtod_reduce=1 --thread --output-format=json |
        python3 -c '
import json, sys
text = sys.stdin.read()
job = json.loads(text[text.index("{"):])["jobs"][0]
side = job["read"] if job["read"]["total_ios"] else job["write"]
print(1000 * side["runtime"] / side["total_ios"])'
}

# Datagrams of a size from one socket to another, a few unconfirmed: prints us for each.
datagrams='
import socket, sys, time
size, count = map(int, sys.argv[1:3])
sockets = [socket.socket(socket.AF_RDS, socket.SOCK_SEQPACKET, 0) for _ in range(2)]
for port, s in enumerate(sockets):
    s.bind(("10.0.9.1", 4000 + port))
    s.settimeout(60)
one, two = sockets
data = bytes(size)
# What the socket that receives has room for.
group = min(8, (128 << 10) // size)
def run(count):
    for _ in range(count // group):
        for _ in range(group):
            one.sendto(data, ("10.0.9.1", 4001))
        for _ in range(group):
            assert len(two.recv(1 << 20)) == size
run(64)
begin = time.monotonic()
run(count)
print(1e6 * (time.monotonic() - begin) / count)
'
use_rds() { modprobe rds_rdma && target=rds; }
done_rds() { :; }
datagram() { within 100 python3 -c "$datagrams" "$(numfmt --from=iec "${1^^}")" "$2"; }

# row CASE CMD...: CMD prints the value.
row() {
    local name=$1 value
    shift
    if [ -n "${ROWS:-}" ] && ! [[ $name =~ $ROWS ]]; then return; fi
    value=$("$@")
    echo "R|$name|${value:-failed}|us"
}

[ -z "${COUNTED:-}" ] || return 0
one_device || exit 1
for user in ${ULPS:-nvme iser srp nfs smb rds}; do
    if ! "use_$user"; then
        echo "R|$user|failed|us"
        continue
    fi
    if [ "$user" = rds ]; then
        row "RDS datagram 4 KiB" datagram 4k 4000
        row "RDS datagram 64 KiB" datagram 64k 800
    else
        declare -A names=([nvme]=NVMe [iser]=iSER [srp]=SRP [nfs]=NFS [smb]="SMB Direct")
        access randread 4k 64 >/dev/null
        row "${names[$user]} read 128 KiB" access read 128k 400
        row "${names[$user]} write 128 KiB" access write 128k 400
        row "${names[$user]} random read 4 KiB" access randread 4k 3000
        row "${names[$user]} random write 4 KiB" access randwrite 4k 3000
    fi
    "done_$user"
done
