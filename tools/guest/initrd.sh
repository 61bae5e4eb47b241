#!/bin/busybox sh
# SPDX-License-Identifier: GPL-2.0
# The first process where the drivers of the guest's disk are modules: loads all of /mods in
# the order of their names, which is that of their dependencies, and goes on from the disk.
b=/bin/busybox
$b mount -t proc proc /proc
$b mount -t sysfs sys /sys
$b mount -t devtmpfs dev /dev
for module in /mods/*; do $b insmod "$module" || echo "not loaded: $module"; done
tries=0
until [ -b /dev/vda ] || [ $tries = 300 ]; do
    tries=$((tries + 1))
    $b usleep 100000
done
$b mount -t ext4 /dev/vda /disk || $b poweroff -f
for dir in proc sys dev; do $b umount /$dir; done
exec $b switch_root /disk /rdma-init
