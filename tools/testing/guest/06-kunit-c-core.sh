# SPDX-License-Identifier: GPL-2.0
# limit: 200
# The KUnit suites of the core once more, with the C core loaded: rates, queue pair states, packed
# headers, RoCE headers and page lists of core/proto are compared with functions that the loaded
# core exports, and with our own core both sides are ours.
. ./ktap.sh
. ./rdma.sh
. ./two_cores.sh
. ./kunit.sh

if [ "$STACK" != rust ]; then
    skip "KUnit suites on the C core" "STACK=$STACK has no module with one"
    finish
fi
needs CONFIG_KUNIT -- "KUnit suites on the C core"
check "all unloads" unload_core
check "the C core loads" c_core
from=$(jiffies)
suites_of rdma_kunit_core "${core_suites[@]}"
suites_of rdma_kunit_umem "${umem_suites[@]}"
check "the C core is loaded still" loaded_as ib_core c
check "the C core unloads" unload_core rdma_kunit_core rdma_kunit_umem
c_ran "$from"
check "our core loads again" our_core
finish
