# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# security_steps.sh DIR: two InfiniBand ports brought up by opensm, and what the policy of
# security.conf, which is loaded, lets programs do with them.
set -u
dir=$1
rm -rf "$dir"
mkdir -p "$dir"
. ./scale.sh
modprobe ib_umad
modprobe fakeib
opensm -g 0x0266616b65690001 -B -f /tmp/opensm.log >/dev/null 2>&1
up() { ! cat /sys/class/infiniband/fakeib[01]/ports/1/state | grep -qv ACTIVE; }
for _ in $(seq $((400 * SCALE))); do up && break; sleep 0.1; done
pkill -9 -x opensm
while pgrep -x opensm >/dev/null; do sleep 0.1; done
# The C core means to tell users of queue pairs that are stopped, and does not: it looks for a
# context that those of programs do not have.
told=()
[ "$dir" != /tmp/ours ] || told=("$dir/told")
echo 1 >/sys/fs/selinux/enforce
SCALE=$SCALE timeout -k 5 $((120 * SCALE)) python3 -u ./security.py "${told[@]}" >"$dir/security.txt" 2>&1
echo "status $?" >>"$dir/security.txt"
# For those who come after this.
echo 0 >/sys/fs/selinux/enforce
echo security >"$dir/names"
rmmod fakeib
