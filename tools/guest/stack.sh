#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# stack: print each RDMA module that is loaded or built in as "name rust" or "name c". Modules of ours
# that were built outside the kernel's tree have the taint O, which the kernel itself records: a file
# that was not the one loaded cannot fool this. A patched tree has ours in a folder of their own, and
# each module once.
modules=/lib/modules/$(uname -r)
folder=kernel/drivers/infiniband
declare -A known=()
while read -r name kind; do known[$name]=$kind; done < <(awk -F: -v folder="$folder/" '
    /^updates\// || index($1, folder) == 1 {
        kind = index($1, folder "rust/") == 1 ? "rust" : "c"
        sub(/.*\//, "", $1); sub(/\.ko.*/, "", $1); gsub(/-/, "_", $1); print $1, kind }' "$modules/modules.dep")
{
    while read -r name _; do
        [ -n "${known[$name]-}" ] || continue
        taint=
        read -r taint <"/sys/module/$name/taint"
        case $taint in
        *O*) echo "$name rust" ;;
        *) echo "$name ${known[$name]}" ;;
        esac
    done </proc/modules
    sed -nE "s#^$folder/(rust/)?(.*/)?([^/]*)\.ko\$#\3 \1#p" "$modules/modules.builtin" |
        while read -r name rust; do echo "${name//-/_} ${rust:-c}"; done | tr -d /
} | sort
