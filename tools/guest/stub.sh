#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The guest's first process. It only brings up what is needed to reach the share;
# what happens then is init.sh there, so that a change of it needs no new image.
# Under User-Mode Linux the share is a hostfs folder, else a 9p export.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev 2>/dev/null
mkdir -p /share /mods
if grep -q 'share=' /proc/cmdline; then
    dir=$(sed 's/.*share=\([^ ]*\).*/\1/' /proc/cmdline)
    mount -i -t hostfs -o "hostfs=$dir" none /share
else
    mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144 share /share
fi
bash /share/init.sh
sync
busybox poweroff -f
