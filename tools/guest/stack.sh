#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# stack: print each loaded RDMA module as "name rust" or "name c". Ours are built
# outside the kernel's tree, and the kernel itself records that for a loaded
# module (taint O), so this cannot be fooled by a file that was not the one loaded.
declare -A known=()
while read -r name; do known[$name]=yes; done < <(awk -F: '/^(updates|kernel\/drivers\/infiniband)\// {
    sub(/.*\//, "", $1); sub(/\.ko.*/, "", $1); gsub(/-/, "_", $1); print $1 }' "/lib/modules/$(uname -r)/modules.dep")
while read -r name _; do
    [ -n "${known[$name]-}" ] || continue
    taint=
    read -r taint <"/sys/module/$name/taint"
    case $taint in
    *O*) echo "$name rust" ;;
    *) echo "$name c" ;;
    esac
done </proc/modules | sort
