# SPDX-License-Identifier: GPL-2.0
# limit: 400
# Connections over every combination of the C modules and ours: ib_cm, iw_cm, rdma_cm, rdma_ucm.
. ./ktap.sh
. ./rdma.sh

tree=/lib/modules/$(uname -r)
# From below: each uses those before it.
all=(ib_cm iw_cm rdma_cm rdma_ucm)
both=()
for name in "${all[@]}"; do if [ -e "$tree/updates/$name.ko" ]; then both+=($name); fi; done
if [ ${#both[@]} = 0 ]; then
    skip "combinations of modules" "none of these modules is ours (STACK=$STACK)"
    finish
fi

# load OURS...: these modules are ours, the others of the four are the C modules.
load() {
    local i name
    for ((i = ${#all[@]} - 1; i >= 0; i--)); do
        if [ -d /sys/module/${all[i]} ]; then rmmod ${all[i]} || return; fi
    done
    for name in "${all[@]}"; do
        case " $* " in
        *" $name "*) insmod "$tree/updates/$name.ko" && loaded_as $name rust ;;
        *) insmod "$tree/kernel/drivers/infiniband/core/$name.ko" && loaded_as $name c ;;
        esac || return
    done
}
connects() {
    meet 40 rping -s -V -C 5 -a 10.0.1.2 -- rping -c -V -C 5 -a 10.0.1.2 &&
        meet 40 rping -s -V -C 5 -a fd01::2 -- rping -c -V -C 5 -a fd01::2 &&
        meet 40 ucmatose -b 10.0.1.2 -- ucmatose -s 10.0.1.2 &&
        meet 40 udaddy -b 10.0.1.2 -- udaddy -s 10.0.1.2 &&
        meet 60 cmtime -b 10.0.1.2 -c 10 -- cmtime -c 10 -s 10.0.1.2
}

check "two nodes" two_nodes
for ((which = 0; which < 1 << ${#both[@]}; which++)); do
    chosen=()
    for ((i = 0; i < ${#both[@]}; i++)); do if ((which >> i & 1)); then chosen+=(${both[i]}); fi; done
    name=${chosen[*]:-none}
    check "these load as ours: $name" load "${chosen[@]}"
    check "programs connect, ours: $name" connects
done
check "the devices' end, ours: $name" two_nodes_gone
finish
