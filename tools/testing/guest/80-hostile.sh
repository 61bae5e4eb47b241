# SPDX-License-Identifier: GPL-2.0
# limit: 400
# short: um
# duration
# Hostile input at every uverbs entry: whatever is answered, the kernel lives, the
# abusers end, and the device still works for others.
. ./ktap.sh
. ./rdma.sh

# DURATION= is shared by the four ways of abuse.
seconds=$(((${DURATION:-32} + 3) / 4))
seed=${SEED:-$(date +%s)}

abuse() { within $((seconds + 60)) ip netns exec n1 hostile rxe1 "$(gid 1 10.0.1.1)" "$1" "$seconds" "$seed"; }

check "two nodes" two_nodes
note "seed $seed (SEED= repeats it), $seconds s each"
for way in write ioctl mmap rings; do
    check "hostile $way" abuse $way
    check "and the device still works" verify_pair 30 -r 3
done
nothing_left() {
    on 1 rdma res show qp link rxe1/1 >/tmp/left || return
    cat /tmp/left
    # The port's own queue pair shows that the list is one.
    grep -q 'type GSI' /tmp/left && ! grep -v 'type GSI' /tmp/left
}
check "no queue pair is left over" nothing_left
check "and the device can be removed" within 60 ip netns exec n1 rdma link del rxe1
finish
