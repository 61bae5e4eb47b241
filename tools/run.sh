#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# run.sh: the main job, shown. Boots the guest with our modules and moves data
# between two nodes with the stock programs; the guest's part is guest/show.sh.
. "$(dirname "$0")/lib.sh"
# What only tests is not needed.
export RDMA_TESTS=n
# The archive may have no release that fits: a newer version is next, then the kernel that is built here.
while [[ ${KERNEL:=fast} == stock* ]]; do
    status=0
    "$TOP/tools/kernel.sh" "$KERNEL" || status=$?
    case $status:$KERNEL in
    0:*) break ;;
    3:stock) next=stock-7.3 ;;
    3:*) next=fast ;;
    *) exit $status ;;
    esac
    say "KERNEL=$KERNEL does not fit (see the line above): taking KERNEL=$next"
    KERNEL=$next
done
export KERNEL
"$TOP/tools/roots.sh" guest
if [ "${STACK:-rust}" != c ]; then
    say "our modules: some seconds, or about 2 minutes for the first time"
    "$TOP/tools/modules.sh" "$KERNEL"
fi
say "booting a stock Linux guest under QEMU (STACK=${STACK:-rust}, KERNEL=$KERNEL); about a minute from here"
# A slow machine is to come to the end as well.
export TIMEOUT=${TIMEOUT:-900}
exec "$TOP/tools/boot.sh" "$BUILD/run" "$TOP/tools/guest/show.sh"
