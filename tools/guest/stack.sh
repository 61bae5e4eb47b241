#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# stack: print each loaded RDMA module as "name rust" or "name c". Ours are built
# outside the kernel's tree, and the kernel itself records that for a loaded
# module (taint O), so this cannot be fooled by a file that was not the one loaded.
dep=/lib/modules/$(uname -r)/modules.dep
while read -r name _; do
    grep -qE "^(updates|kernel/drivers/infiniband)(/[^:]*)?/${name//_/[-_]}\.ko(\.[a-z]+)?:" "$dep" || continue
    case $(cat "/sys/module/$name/taint") in
    *O*) echo "$name rust" ;;
    *) echo "$name c" ;;
    esac
done </proc/modules | sort
