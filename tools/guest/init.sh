#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# What the guest does after the share is mounted: finish the set-up, load the
# chosen stack, run the script, leave its exit status and dmesg on the share.
. /share/env
# boot.sh boots a guest again that hangs before this.
: >/share/reached
mkdir -p /dev/shm /dev/pts /run /usr/lib/modules
mount -t tmpfs tmp /tmp
mount -t tmpfs run /run
mount -t tmpfs shm /dev/shm
mount -t devpts pts /dev/pts 2>/dev/null
# udev would make it; bash needs it for <(...).
ln -sfn /proc/self/fd /dev/fd
mount -t debugfs debug /sys/kernel/debug
mount -t tracefs trace /sys/kernel/tracing 2>/dev/null
mount -t configfs config /sys/kernel/config 2>/dev/null
mkdir -p /run/netns /run/lock
if [ -n "${MODS_DIR:-}" ]; then
    mount -i -t hostfs -o "hostfs=$MODS_DIR" none /usr/lib/modules
else
    mount -t 9p -o ro,trans=virtio,version=9p2000.L,msize=262144,cache=loose mods /usr/lib/modules
fi
ulimit -l unlimited
ulimit -c 0
ip link set lo up
export NODE NODES KERNEL STACK DURATION SEED PATIENCE PARTIAL
if [ "${NODES:-1}" -gt 1 ]; then
    hostname "node$NODE"
    ip link set eth0 up
    ip addr add "10.0.0.$NODE/24" dev eth0
    ip addr add "fd00::$NODE/64" dev eth0 nodad
else
    hostname guest
fi

# The share loses nothing when the guest dies; a terminal would lose its last lines.
out=/share/output

# kmemleak: what the boot itself leaves is not ours.
if [ -w /sys/kernel/debug/kmemleak ]; then
    for order in scan=off scan clear; do echo $order >/sys/kernel/debug/kmemleak; done
fi

status=0
for m in ${LOAD-rdma_rxe ib_uverbs rdma_ucm ib_umad}; do
    if modprobe "$m" 2>/run/modprobe; then continue; fi
    # A module of ours that is not whole yet may lack what this one needs; a test that
    # needs it says so (check_with).
    if [ -n "${PARTIAL:-}" ] && grep -q 'Unknown symbol' /run/modprobe; then
        echo "not loaded on this stack: $m" >>"$out"
    else
        cat /run/modprobe >>"$out"
        echo "the guest could not load $m (see the console)" >>"$out"
        status=3
    fi
done
export PATH=/share/bin:$PATH
cd /root || exit
if [ "$status" = 0 ]; then
    if [ -n "${SHELL_MODE:-}" ]; then
        tty=/dev/hvc0
        [ -c $tty ] || tty=/dev/tty0
        setsid -c bash -i <$tty >$tty 2>&1
    else
        bash /share/script </dev/null >>"$out" 2>&1
    fi
    status=$?
fi
dmesg >/share/dmesg
echo "$status" >/share/status
