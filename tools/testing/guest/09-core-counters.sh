# SPDX-License-Identifier: GPL-2.0
# limit: 240
# Counters of every kind, and all files of a device, with a driver of our own on the C core
# and on ours: count_steps.sh must show the same.
. ./ktap.sh
. ./rdma.sh

case " $(stack | awk '$2 == "rust" { print $1 }' | xargs) " in
*" ib_core "*) ;;
*)
    skip "counters on both cores" "the ib_core loaded is not ours (STACK=$STACK)"
    finish
    ;;
esac

unload() {
    local m
    for m in countdev rdma_ucm ib_umad rdma_rxe siw ib_uverbs ib_uverbs_support rdma_cm iw_cm ib_cm ib_core; do
        if [ -d /sys/module/$m ]; then rmmod $m || return; fi
    done
}
load_c() { insmod "/lib/modules/$(uname -r)/kernel/drivers/infiniband/core/ib_core.ko" && modprobe ib_uverbs; }
load_ours() { modprobe rdma_rxe && modprobe ib_uverbs; }
run() { bash ./count_steps.sh "$1"; }
same() { diff -U 2 "/tmp/c/$1" "/tmp/ours/$1"; }

check "the steps on our core" run /tmp/ours
check "our core unloads" unload
check "the C core loads" load_c
check "the steps on the C core" run /tmp/c
check "the C core unloads" unload
check "our core loads again" load_ours
note "$(cat /tmp/ours/*.txt | wc -l) lines compared"
while read -r name; do
    check "$name" same "$name.txt"
done </tmp/c/names
finish
