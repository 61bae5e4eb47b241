# SPDX-License-Identifier: GPL-2.0
# limit: 500
# nodes: 2
# The kernel's own users of RDMA (C, unmodified) between two guests, one with the C
# stack and one with ours: storage whose data fio or a checksum verifies. Node 1
# serves, node 2 uses and drives.
. ./ktap.sh
. ./rdma.sh

server=10.0.0.1
rdma link add rxe type rxe netdev eth0 || exit 1
if [ "$NODE" = 1 ]; then
    python3 ./agent.py serve
    finish
fi
there() { python3 ./agent.py $server "$*"; }

# verified DEVICE: write random blocks of several sizes and read them back.
verified() {
    within 100 fio --name=v --filename="$1" --rw=randwrite --bsrange=4k-128k --size=8m \
        --direct=1 --ioengine=psync --numjobs=2 --offset_increment=8m --thread \
        --verify=crc32c --do_verify=1 --verify_fatal=1 --group_reporting
}

# appears GLOB: wait for a device to show up, and say which.
appears() {
    local n
    for n in $(seq $((600 * SCALE))); do
        # shellcheck disable=SC2086
        n=$(ls $1 2>/dev/null | head -n 1)
        if [ -n "$n" ]; then echo "$n"; return; fi
        sleep 0.1
    done
    echo "nothing appears as $1" >&2
    return 1
}

# A ram disk there behind a target core, for the SCSI targets.
backstore="modprobe null_blk memory_backed=1 gb=1 nr_devices=4 2>/dev/null
modprobe target_core_mod; modprobe target_core_iblock; mount -t configfs none /sys/kernel/config 2>/dev/null
b=/sys/kernel/config/target/core/iblock_0"
# Where it is a module, udev would load it for the disk.
scsi_disk() { modprobe sd_mod && appears '/sys/class/scsi_disk/*/device/block/*' | sed 's|.*/|/dev/|'; }

nvme_target() {
    there "modprobe null_blk memory_backed=1 gb=1 nr_devices=4; modprobe nvmet-rdma && mount -t configfs none /sys/kernel/config 2>/dev/null
        cd /sys/kernel/config/nvmet && mkdir -p subsystems/t/namespaces/1 ports/1 &&
        echo 1 >subsystems/t/attr_allow_any_host && echo -n /dev/nullb0 >subsystems/t/namespaces/1/device_path &&
        echo 1 >subsystems/t/namespaces/1/enable && echo rdma >ports/1/addr_trtype && echo ipv4 >ports/1/addr_adrfam &&
        echo $server >ports/1/addr_traddr && echo 4420 >ports/1/addr_trsvcid && ln -s /sys/kernel/config/nvmet/subsystems/t ports/1/subsystems/t"
}
nvme_host() {
    modprobe nvme-rdma && within 60 nvme connect -t rdma -a $server -s 4420 -n t -i 2 \
        -q nqn.2026-01.test:host -I 11111111-2222-3333-4444-555555555555 || return
    verified "$(appears '/dev/nvme*n1')" && within 60 nvme disconnect -n t
}

iser_target() {
    there "$backstore
        mkdir -p \$b/i && echo udev_path=/dev/nullb1 >\$b/i/control && echo 1 >\$b/i/enable &&
        modprobe iscsi_target_mod && modprobe ib_isert &&
        t=/sys/kernel/config/target/iscsi/iqn.2026-01.test:t/tpgt_1 && mkdir -p \$t/lun/lun_0 \$t/np/$server:3260 &&
        ln -s \$b/i \$t/lun/lun_0/i && echo 1 >\$t/np/$server:3260/iser &&
        echo 0 >\$t/attrib/authentication && echo 1 >\$t/attrib/generate_node_acls && echo 0 >\$t/attrib/demo_mode_write_protect &&
        echo 1 >\$t/enable"
}
iser_initiator() {
    local node=(iscsiadm -m node -T iqn.2026-01.test:t -p $server)
    modprobe ib_iser && mkdir -p /run/lock/iscsi /var/lib/iscsi /etc/iscsi &&
        echo InitiatorName=iqn.2026-01.test:i >/etc/iscsi/initiatorname.iscsi || return
    pgrep iscsid >/dev/null || iscsid || return
    within 20 "${node[@]}" -o new && within 20 "${node[@]}" -o update -n iface.transport_name -v iser &&
        within 60 "${node[@]}" --login || return
    verified "$(scsi_disk)" && within 60 "${node[@]}" --logout
}

srp_target() {
    local us
    us=0x0000000000000000$(cut -c 21- /sys/class/infiniband/rxe/ports/1/gids/0 | tr -d :)
    there "$backstore
        mkdir -p \$b/s && echo udev_path=/dev/nullb2 >\$b/s/control && echo 1 >\$b/s/enable &&
        modprobe ib_srpt || exit
        gid=0x\$(tr -d : </sys/class/infiniband/rxe/ports/1/gids/0); p=/sys/kernel/config/target/srpt/\$gid/\$gid
        mkdir -p \$p/lun/lun_0 && ln -s \$b/s \$p/lun/lun_0/s && mkdir -p \$p/acls/$us/lun_0 &&
        ln -s \$p/lun/lun_0 \$p/acls/$us/lun_0/s && echo 1 >\$p/enable &&
        echo 5555 >/sys/kernel/config/target/srpt/discovery_auth/rdma_cm_port && grep . /sys/module/ib_srpt/parameters/srpt_service_guid"
}
srp_initiator() {
    local guid
    guid=$(there "cat /sys/module/ib_srpt/parameters/srpt_service_guid") && guid=${guid#0x} && modprobe ib_srp &&
        echo "id_ext=$guid,ioc_guid=$guid,dest=$server:5555" >/sys/class/infiniband_srp/srp-rxe-1/add_target || return
    verified "$(scsi_disk)" && echo 1 >"$(appears '/sys/class/srp_remote_ports/*/delete')"
}

nfs_server() {
    there "modprobe nfsd && modprobe rpcrdma && mkdir -p /tmp/export && mount -t tmpfs export /tmp/export &&
        mkdir -p /var/lib/nfs/v4recovery /run/rpcbind && mount -t nfsd nfsd /proc/fs/nfsd 2>/dev/null; pgrep rpcbind >/dev/null || rpcbind -w
        touch /var/lib/nfs/etab /var/lib/nfs/rmtab; mount -t rpc_pipefs none /var/lib/nfs/rpc_pipefs 2>/dev/null; nfsdcld 2>/dev/null
        exportfs -o rw,no_root_squash,insecure,fsid=0 '*:/tmp/export' && rpc.nfsd -G 10 -L 10 4 && rpc.mountd &&
        echo rdma 20049 >/proc/fs/nfsd/portlist && cat /proc/fs/nfsd/portlist"
}
nfs_client() {
    modprobe rpcrdma && modprobe nfsv4 && mkdir -p /tmp/mnt /tmp/src &&
        within 60 mount -t nfs -o vers=4.1,proto=rdma,port=20049,hard "$server:/" /tmp/mnt || return
    grep -q 'proto=rdma' /proc/mounts || return
    head -c 6000001 /dev/urandom >/tmp/src/file && within 100 cp /tmp/src/file /tmp/mnt/file && sync &&
        echo 3 >/proc/sys/vm/drop_caches && cmp /tmp/src/file /tmp/mnt/file &&
        [ "$(there "sha256sum </tmp/export/file")" = "$(sha256sum </tmp/src/file)" ] && within 60 umount /tmp/mnt
}

# Reliable datagrams: each is echoed unchanged, large ones by RDMA.
rds='
import hashlib, os, socket, sys
s = socket.socket(socket.AF_RDS, socket.SOCK_SEQPACKET, 0)
role, own, peer = sys.argv[1:4]
s.bind((own, 4000))
open("/tmp/rds-bound", "w").close()
s.settimeout(60)
sizes = [1, 64, 4096, 10000, 60000] * 4
if role == "serve":
    for _ in sizes:
        data, source = s.recvfrom(1 << 20)
        s.sendto(data, source)
else:
    for n in sizes:
        data = os.urandom(n)
        s.sendto(data, (peer, 4000))
        back, _ = s.recvfrom(1 << 20)
        assert back == data, f"{n} bytes came back as {len(back)}"
'
rds_echo() {
    modprobe rds_rdma && there "modprobe rds_rdma" || return
    there "within 90 python3 -c '$rds' serve $server 10.0.0.2" >/tmp/rds 2>&1 &
    # Datagrams to a socket that is not bound yet are lost.
    wait_until 60 there "test -e /tmp/rds-bound"
    within 90 python3 -c "$rds" use 10.0.0.2 $server && wait $! || { cat /tmp/rds; return 1; }
}

smb_server() {
    there "modprobe ksmbd && mkdir -p /tmp/smb /etc/ksmbd && mount -t tmpfs smb /tmp/smb && chmod 777 /tmp/smb &&
        printf '[global]\n\tworkgroup = T\n[s]\n\tpath = /tmp/smb\n\tread only = no\n' >/etc/ksmbd/ksmbd.conf &&
        rm -f /etc/ksmbd/ksmbdpwd.db && ksmbd.adduser -a -p secret us && ksmbd.mountd && cat /sys/class/ksmbd-control/stats"
}
smb_client() {
    modprobe cifs && mkdir -p /tmp/smb /tmp/src || return
    within 60 mount -t cifs "//$server/s" /tmp/smb -o rdma,vers=3.1.1,username=us,password=secret,cache=none || return
    grep -q ',rdma' /proc/mounts || return
    head -c 6000001 /dev/urandom >/tmp/src/smb && within 100 cp /tmp/src/smb /tmp/smb/file && within 100 cmp /tmp/src/smb /tmp/smb/file &&
        [ "$(there "sha256sum </tmp/smb/file")" = "$(sha256sum </tmp/src/smb)" ] && within 60 umount /tmp/smb
}

check "the other guest answers" there true
check "the stack here is the one asked for" as_asked ib_core rdma_rxe
check "the stack there is the one asked for" there as_asked ib_core rdma_rxe
check "nvmet-rdma serves" nvme_target
check "nvme-rdma, data verified" nvme_host
check "isert serves" iser_target
check "iser, data verified" iser_initiator
check "srpt serves" srp_target
check "srp, data verified" srp_initiator
check "nfsd serves over RDMA" nfs_server
check "NFS over RDMA, data compared" nfs_client
if [ -e /proc/lockdep ]; then
    # Its first report is lockdep's last.
    skip "RDS over RDMA" "rds_trans_sem and the mutexes of rdma_cm, C both, are in a cycle"
else
    check "RDS over RDMA" rds_echo
fi
if has_config CONFIG_CIFS_SMB_DIRECT CONFIG_SMB_SERVER_SMBDIRECT; then
    check "ksmbd serves" smb_server
    check "SMB Direct, data compared" smb_client
else
    skip "SMB Direct" "this kernel has no $without"
fi
there quit
finish
