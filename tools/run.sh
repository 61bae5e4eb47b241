#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# run.sh: the main job, shown. Boots the guest with our modules and moves data
# between two nodes with the stock programs; the guest's part is guest/show.sh.
. "$(dirname "$0")/lib.sh"
# The archive may have no release that fits.
case ${KERNEL:-fast} in
stock | stock-*)
    "$TOP/tools/kernel.sh" "$KERNEL" || {
        [ $? = 3 ] || exit
        say "KERNEL=$KERNEL does not fit (see the line above): taking KERNEL=fast, which is built here"
        export KERNEL=fast
    }
    ;;
esac
say "booting a stock Linux guest under QEMU (STACK=${STACK:-rust}, KERNEL=${KERNEL:-fast}); about a minute from here"
# A slow machine is to come to the end as well.
export TIMEOUT=${TIMEOUT:-900}
exec "$TOP/tools/boot.sh" "$BUILD/run" "$TOP/tools/guest/show.sh"
