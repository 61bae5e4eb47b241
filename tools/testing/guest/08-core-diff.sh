# SPDX-License-Identifier: GPL-2.0
# limit: 900
# Two cores, one script: core_steps.sh takes the C core and ours through the same
# operations, and after each what users can see must be the same.
. ./ktap.sh
. ./rdma.sh
. ./two_cores.sh

on_both_cores "the same states on both cores" ./core_steps.sh
note "$(wc -l </tmp/ours/steps) operations"
same_as states 28
check "what was refused" as_planned 08-core-diff /tmp/ours/steps
check "two devices are listed" has "two devices" '^= rdma dev -> 0$'
finish
