# SPDX-License-Identifier: GPL-2.0
# limit: 300
# Two cores, one script: core_steps.sh takes the C core and ours through the same
# operations, and after each what users can see must be the same.
. ./ktap.sh
. ./rdma.sh

case " $(stack | awk '$2 == "rust" { print $1 }' | xargs) " in
*" ib_core "*) ;;
*)
    skip "the same states on both cores" "the ib_core loaded is not ours (STACK=$STACK)"
    finish
    ;;
esac

unload() {
    local m
    for m in rdma_ucm ib_umad rdma_rxe siw ib_uverbs ib_uverbs_support rdma_cm iw_cm ib_cm ib_core; do
        if [ -d /sys/module/$m ]; then rmmod $m || return; fi
    done
}
# The C core stands in the same tree, behind ours.
load_c() {
    local dir=/lib/modules/$(uname -r)/kernel/drivers/infiniband
    insmod "$dir/core/ib_core.ko" && modprobe rdma_rxe && modprobe ib_uverbs
}
load_ours() { modprobe rdma_rxe && modprobe ib_uverbs; }
run() { bash ./core_steps.sh "$1" >"$1.log" 2>&1 || { tail -n 20 "$1.log"; return 1; }; }
same() { diff -U 2 "/tmp/c/$1" "/tmp/ours/$1"; }

check "the steps on our core" run /tmp/ours
check "our core unloads" unload
check "the C core loads" load_c
check "the steps on the C core" run /tmp/c
check "the C core unloads" unload
check "our core loads again" load_ours
note "$(wc -l </tmp/ours/steps) operations, $(cat /tmp/ours/*.txt | wc -l) lines compared"
while read -r state; do
    check "$state" same "$state.txt"
done </tmp/c/states
finish
