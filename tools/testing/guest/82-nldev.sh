# SPDX-License-Identifier: GPL-2.0
# limit: 120
# Requests of netlink that are almost right, while devices come and go: whatever is
# answered, the next one is answered as well, and nothing is left over.
. ./ktap.sh
. ./scale.sh

seconds=${FUZZ_SECONDS:-15}
seed=${FUZZ_SEED:-$(date +%s)}

netdevs() {
    local i
    for i in 0 1; do
        ip link add fuzz$i type dummy && ip addr add 10.99.$i.1/24 dev fuzz$i && ip link set fuzz$i up || return
    done
}
mode() { rdma sys show | grep -q 'netns shared'; }
# Devices that no link type made cannot be deleted so; a sample driver may be loaded.
devices() { find /sys/class/infiniband -mindepth 1 2>/dev/null | wc -l; }
others=$(devices)
all_gone() {
    local d
    for d in /sys/class/infiniband/*; do
        [ ! -d "$d" ] || rdma link del "${d##*/}" || echo "not deleted: $d"
    done
    [ "$(devices)" = "$others" ] && ip link del fuzz0 && ip link del fuzz1
}

check "network devices" netdevs
note "seed $seed (FUZZ_SEED= repeats it)"
check "requests, lists and devices that come and go" timeout $((seconds + 60 * SCALE)) \
    python3 ./nldev_fuzz.py "$seconds" "$seed"
check "the system answers as before" mode
rdma sys set privileged-qkey off
check "devices go, and are not seen any more" all_gone
finish
