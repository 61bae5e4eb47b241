#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# stack: print each RDMA module that is loaded or built in as "name rust" or "name c". Modules of ours
# that were built outside the kernel's tree have the taint O, which the kernel itself records: a file
# that was not the one loaded cannot fool this. A patched tree has ours in a folder of their own, and
# each module once.
modules=/lib/modules/$(uname -r)
folder=kernel/drivers/infiniband
{
    while read -r name _; do
        file=${name//_/[-_]}
        grep -qE "^(updates|$folder)(/[^:]*)?/$file\.ko(\.[a-z]+)?:" "$modules/modules.dep" || continue
        case $(cat "/sys/module/$name/taint") in
        *O*) echo "$name rust" ;;
        *) if grep -qE "^$folder/rust/$file\.ko(\.[a-z]+)?:" "$modules/modules.dep"; then echo "$name rust"; else echo "$name c"; fi ;;
        esac
    done </proc/modules
    sed -nE "s#^$folder/(rust/)?(.*/)?([^/]*)\.ko\$#\3 \1#p" "$modules/modules.builtin" |
        while read -r name rust; do echo "${name//-/_} ${rust:-c}"; done | tr -d /
} | sort
